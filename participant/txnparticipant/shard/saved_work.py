"""SavedWork: what a transaction had written to a table at one of its savepoints."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from txnparticipant.versions.mvcc import PendingWrite


class SavedWork(msgspec.Struct, gc=False):
    """Enough of a record to make it what it was.

    Rows and superseded writes only become more, so ids tell which of them there were; an overwrite changes writes of
    before it in place, so these are copies.
    """

    savepoint_id: str
    writes: dict[str, PendingWrite]
    rows: tuple[str, ...]
    """Writes of rows that nothing had overwritten."""


def copied(writes: dict[str, PendingWrite]) -> dict[str, PendingWrite]:
    return {write_id: replace(write) for write_id, write in writes.items()}
