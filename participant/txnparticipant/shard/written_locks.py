"""Tables that settle conflicts by locks refuse what is written without them."""

from __future__ import annotations

from collections.abc import Iterable

from txnparticipant.locks.locks import Lock, Mode
from txnparticipant.shard.records import TableState, TxnRecord
from txnparticipant.versions.conflicts import full_name
from txnstatus.errors import IllegalState
from txnstatus.partitions import above
from txnstatus.types import ConflictStrategy


def must_lock(table: TableState, record: TxnRecord, mode: Mode, names: Iterable[str]) -> IllegalState | None:
    """The refusal, if the table wants locks, and of one of these parts there is none, and no X on one above it."""
    if table.conflicts == ConflictStrategy.FIRST_COMMITTER_WINS:
        return None
    for name in names:
        objects = [full_name(table.name, each) for each in above(name)]
        wanted = [Lock(objects[0], mode), *(Lock(each, Mode.X) for each in objects)]
        if not any(table.locks.holds(record.txn_id, [lock]) for lock in wanted):
            return IllegalState(
                f"{table.name} settles conflicts by {table.conflicts}: {objects[0]} must be locked to be written to",
                txn_id=record.txn_id,
                hint=f"lock it in {mode.name} first",
            )
    return None
