"""Lists that come page by page: nobody is kept waiting while a long one is made, and none is longer than an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import Message

from txnstatus.limits import MAX_LISTED, MAX_PAGE_BYTES

ItemT = TypeVar("ItemT", bound=Message)


def first_page(items: Sequence[ItemT]) -> tuple[Sequence[ItemT], bool]:
    """The first of the items, one at least where there are any; and whether there are more."""
    size = 0
    for count, item in enumerate(items[:MAX_LISTED]):
        size += item.ByteSize()
        if count and size > MAX_PAGE_BYTES:
            return items[:count], True
    return items[:MAX_LISTED], len(items) > MAX_LISTED
