"""Things in a notebook: small tables, and nothing that a user wrote is markup in them."""

from __future__ import annotations

from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from txnclient import CommitReceipt, RowsAffected, connect
from txnclient.info import TableInfo
from txnclient.showing import MOST_SHOWN, Shown
from txnclient.snapshot import Snapshot
from txnstatus.lake.timeline import Past, TableChange
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId

WRITTEN = "<script>alert('&\"')</script>"


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


def test_nothing_that_a_user_wrote_is_markup() -> None:
    schema = Schema((Column(WRITTEN, "string", False, WRITTEN),), (WRITTEN,), ())
    info = TableInfo("1", f"t.{WRITTEN}", WRITTEN, schema, WRITTEN, {WRITTEN: WRITTEN})
    receipt = CommitReceipt(TxnId(1), Timestamp(5), (WRITTEN,), RowsAffected(1, 2, 3))
    for shown in (info, receipt):
        found = read(shown._repr_html_())
        assert found.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
        assert any(WRITTEN in text for text in found.texts)


def test_a_receipt_tells_what_there_is() -> None:
    found = read(CommitReceipt(TxnId(7), Timestamp(0), ("t.a", "t.b"), RowsAffected(1, 2, 0))._repr_html_())
    assert found.texts == [
        "Committed",
        "transaction",
        "7",
        "tables",
        "t.a, t.b",
        "inserted",
        "1",
        "updated",
        "2",
        "deleted",
        "0",
    ]


def test_a_list_has_a_row_for_each_and_is_a_list() -> None:
    change = TableChange("t.a", added_rows=1_200, added_files=1, changed_rows=0)
    times = datetime(2026, 1, 31, tzinfo=UTC)
    past = Past(7, "ABORTED", WRITTEN, "", times, times, 0, (change,), "CONFLICT", "", "who was first", None, ())
    few, many = (Shown("Timeline", "txn_id owner tables abort_reason", [past] * count) for count in (1, MOST_SHOWN + 1))
    assert few == [past]
    assert read(few._repr_html_()).texts == [
        "Timeline: 1",
        *("txn id", "owner", "tables", "abort reason"),
        *("7", WRITTEN, "t.a (1,200 added)", "who was first"),
    ]
    found = read(many._repr_html_())
    assert found.texts[0] == f"Timeline: {MOST_SHOWN + 1}, of which {MOST_SHOWN} are shown"
    assert found.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert read(Shown("Locks", "object mode", ())._repr_html_()).texts == ["Locks: 0", "object", "mode"]


@pytest.mark.parametrize("shown", ["client", "snapshot"])
def test_what_is_connected_shows_itself_without_a_call(shown: str) -> None:
    with connect("nobody.invalid:1") as client:
        found = read({"client": client, "snapshot": Snapshot(client.session, Timestamp(1 << 30))}[shown]._repr_html_())
        assert "table" in found.tags
