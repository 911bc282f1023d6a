"""Two sessions without Spark, statement by statement at random, against the model that those of Spark have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from tests.sessions_model import Played, play, steps
from txnclient import Client, Transaction
from txnclient.handle import Handle
from txnclient.read.table_files import TableFiles
from txnclient.session import Conversation
from txnclient.snapshot import Snapshot
from txnclient.write import changing
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    from pyroaring import BitMap

    from txnstatus.proto import table_pb2

NewTable = Callable[..., str]
STEPS, MANY = 40, 100
FEW = (4, 5)
"""Seeds of scripts in which there are conflicts, statements that fail, and rows that a savepoint takes back."""
KINDS = pytest.mark.parametrize("key", [(), ("k",)], ids=["by place", "by key"])


@KINDS
@pytest.mark.parametrize("seed", FEW)
def test_what_two_sessions_see_and_leave(client: Client, new_table: NewTable, key: tuple[str, ...], seed: int) -> None:
    played = run(client, new_table("k bigint, v bigint", primary_key=list(key)), seed)
    assert min(played.conflicts, played.went_back, played.failed) > 0


@pytest.mark.campaign
@KINDS
@pytest.mark.parametrize("seed", [each for each in range(MANY) if each not in FEW])
def test_what_many_sessions_see_and_leave(client: Client, new_table: NewTable, key: tuple[str, ...], seed: int) -> None:
    run(client, new_table("k bigint, v bigint", primary_key=list(key)), seed)


def run(client: Client, table: str, seed: int) -> Played:
    def speaker(session: Conversation) -> Callable[[str], list[tuple[object, ...]]]:
        return lambda said: [tuple(row.values()) for row in session.sql(said).to_pylist()]

    fails = f"INSERT INTO {table} SELECT CAST('none' AS BIGINT), 0"
    with client.sql_session() as one, client.sql_session() as other:
        return play([speaker(one), speaker(other)], client, table, table, fails, steps(seed, STEPS))


# ---- what an implementation might get wrong


def each_statement_reads_as_of_its_own_time(patch: pytest.MonkeyPatch) -> None:
    def anew(handle: Handle) -> Snapshot:
        handle.read_as_of(handle.session.last_commit())
        assert handle._snapshot is not None
        return handle._snapshot

    patch.setattr(Handle, "snapshot", property(anew))


def a_transaction_does_not_see_what_it_wrote(patch: pytest.MonkeyPatch) -> None:
    def bare(handle: Handle) -> Snapshot:
        if handle._snapshot is None:
            handle._snapshot = Snapshot(handle.session, handle.session.last_commit())
        return handle._snapshot

    patch.setattr(Handle, "snapshot", property(bare))


def a_rollback_to_a_savepoint_takes_nothing_back(patch: pytest.MonkeyPatch) -> None:
    def stay(txn: Transaction, name: str) -> None:
        del txn.handle.savepoints[txn._place(name) + 1 :]
        txn.handle.failure = ""

    patch.setattr(Transaction, "rollback_to", stay)


def a_rollback_commits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transaction, "abort", lambda txn, *_: txn.commit())


def a_change_has_seen_what_others_did(patch: pytest.MonkeyPatch) -> None:
    """So the second of two that change a row wins."""
    described = changing.described

    def late(
        directory: str, seen: TableFiles, dead: Mapping[str, BitMap], snapshot: Timestamp
    ) -> table_pb2.Deletes | None:
        return described(directory, seen, dead, Timestamp(snapshot + (1 << 40)))

    patch.setattr(changing, "described", late)


@pytest.mark.parametrize(
    "plant",
    [
        each_statement_reads_as_of_its_own_time,
        a_transaction_does_not_see_what_it_wrote,
        a_rollback_to_a_savepoint_takes_nothing_back,
        a_rollback_commits,
        a_change_has_seen_what_others_did,
    ],
    ids=lambda plant: plant.__name__.replace("_", " "),
)
def test_a_planted_fault_is_found(
    client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    for seed in FEW:
        try:
            run(client, new_table("k bigint, v bigint"), seed)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 a refusal that should not be, or what is seen
            return
    pytest.fail("nothing was found")
