"""Faults in savepoints of transactions, put in on purpose: found in worlds whose transfers go back or by unit tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tests.sim.planted.faults import CORE, Planted, Seams
from txnparticipant.shard import txn_savepoints
from txnparticipant.shard.records import TableTxn
from txnparticipant.versions.mvcc import PendingWrite
from txnstatus.errors import TxnError


def a_savepoint_shares_the_writes() -> Seams:
    """So what an overwrite empties is empty there, too."""
    return [("txnparticipant.shard.txn_savepoints:copied", dict)]


def a_rollback_takes_nothing_back() -> Seams:
    return [("txnparticipant.shard.txn_savepoints:_roll_back", lambda *_: None)]


def a_rollback_takes_all_back() -> Seams:
    roll_back = txn_savepoints._roll_back

    def whole(txn: TableTxn, command: Any) -> TxnError | None:
        return roll_back(txn, replace(command, is_held=False, savepoint_id="nothing1"))

    return [("txnparticipant.shard.txn_savepoints:_roll_back", whole)]


def what_was_taken_back_comes_again() -> Seams:
    roll_back = txn_savepoints._roll_back

    def forgetful(txn: TableTxn, command: Any) -> TxnError | None:
        refusal = roll_back(txn, command)
        txn.superseded.clear()
        return refusal

    return [("txnparticipant.shard.txn_savepoints:_roll_back", forgetful)]


def a_rollback_that_comes_again_is_another_one() -> Seams:
    return [("txnparticipant.shard.txn_savepoints:MAX_REMEMBERED", -1_000)]


def overwritten_rows_do_not_come_back() -> Seams:
    add_write = TableTxn.add_write

    def forgetful(self: TableTxn, write: PendingWrite) -> None:
        add_write(self, write)
        self.overwritten = {}

    return [("txnparticipant.shard.records:TableTxn.add_write", forgetful)]


def what_is_judged_may_be_gone() -> Seams:
    roll_back = txn_savepoints._roll_back

    def uncounted(txn: TableTxn, command: Any) -> TxnError | None:
        refusal = roll_back(txn, command)
        txn.rollbacks = 0
        return refusal

    return [("txnparticipant.shard.txn_savepoints:_roll_back", uncounted)]


SHOWN = ("5 one snapshot", "7 conflicts", "7 isolation", "4 ", "isolation", CORE)
PLANTED_GOING_BACK: Mapping[str, Planted] = {
    "a savepoint shares the writes": Planted(SHOWN, "calm", 10, a_savepoint_shares_the_writes),
    "a rollback takes nothing back": Planted(SHOWN, "calm", 10, a_rollback_takes_nothing_back),
    "a rollback takes all back": Planted(SHOWN, "calm", 10, a_rollback_takes_all_back),
}
GOING_BACK: Mapping[str, Callable[[], Seams]] = {
    "what was taken back comes again": what_was_taken_back_comes_again,
    "a rollback that comes again is another one": a_rollback_that_comes_again_is_another_one,
    "overwritten rows do not come back": overwritten_rows_do_not_come_back,
    "what is judged may be gone": what_is_judged_may_be_gone,
}
"""Subtle ones."""
