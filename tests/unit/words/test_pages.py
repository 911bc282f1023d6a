"""Lists page by page."""

from __future__ import annotations

import pytest

from txnstatus import pages
from txnstatus.pages import first_page
from txnstatus.proto.common_pb2 import TableInfo


def tables(count: int, size: int = 1) -> list[TableInfo]:
    return [TableInfo(name=f"{number:0{size}}") for number in range(count)]


@pytest.mark.parametrize(
    ("items", "length", "more"),
    [
        (tables(0), 0, False),
        (tables(10), 10, False),
        (tables(11), 10, True),
        (tables(5, size=38), 2, True),
        (tables(2, size=38), 2, False),
        (tables(2, size=500), 1, True),
        (tables(1, size=500), 1, False),
    ],
)
def test_a_page_is_bounded_in_items_and_bytes(
    items: list[TableInfo], length: int, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables were in one answer: with enough of them it was longer than an answer may be, and there was no list."""
    monkeypatch.setattr(pages, "MAX_LISTED", 10)
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 100)
    assert first_page(items) == (items[:length], more)
