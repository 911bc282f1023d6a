"""Adoption takes what is nobody's, and nothing else: after any commands, what is to be cleaned is not in use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest

from tests.support import rest_in_campaigns
from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import (
    OWNER,
    TABLE,
    abort,
    added,
    begun,
    committed,
    new_shard,
    ok,
    opened,
    prepare,
    refused,
    table_of,
    to_clean,
)
from txnparticipant.shard import adoption
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.audit import Use, directories
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.versions.directories import FlushDirectory, WriteDirectory, directory_named
from txnstatus.errors import IllegalState, InvalidArgument
from txnstatus.id_sets import below
from txnstatus.types import Timestamp, TxnId

FLUSH = "rows0123456789abcdef"


def adopt(name: str) -> cmd.Adopt:
    return cmd.Adopt(TABLE, name)


@pytest.mark.parametrize(
    "directory", [WriteDirectory(TxnId(0), "abcdefgh"), WriteDirectory(TxnId(10**18), "A1" * 32), FlushDirectory(FLUSH)]
)
def test_a_directory_is_known_by_its_name(directory: WriteDirectory | FlushDirectory) -> None:
    assert directory_named(directory.name) == directory


@pytest.mark.parametrize(
    "name",
    ["", "..", "base_7", "delta_", "delta_7", "delta_07_write0001", "delta_-7_write0001", "delta_7_short",
     "delta_7_write/0001", "delta_7_write_0001", "delta_7_write0001\n", "delta_7_write0001/..", "delta_rows123",
     "delta_rows0123456789ABCDEF", "delta_\u0667_write0001", "delta_99999999999999999999_write0001",
     "delta_9999999999999999999_write0001"],
)  # fmt: skip
def test_other_names_are_nobodys_and_are_not_adopted(name: str) -> None:
    assert directory_named(name) is None
    assert type(refused(new_shard(), adopt(name))) is InvalidArgument


def test_a_leftover_of_an_ended_transaction_is_cleaned_and_then_forgotten() -> None:
    shard = new_shard()
    committed(shard, 1, "write0001", 100)
    ok(shard, adopt("delta_1_late00001"))
    ok(shard, adopt("delta_1_late00001"))
    assert to_clean(shard) == {1: ["late00001"]}
    assert dict(directories(table_of(shard)))["delta_1_late00001"].use is Use.GOING
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    ok(restored, cmd.MarkCleaned(TxnId(1), TABLE, ("late00001",)))
    assert to_clean(restored) == {}
    ok(shard, cmd.ForgetTxns(below(2)))
    assert to_clean(shard) == {1: ["late00001"]}, "it outlives the record"
    ok(shard, adopt("delta_0_late00001"))
    assert to_clean(shard) == {1: ["late00001"], 0: ["late00001"]}, "forgotten long ago, perhaps never here"


def test_what_is_to_be_cleaned_already_is_not_cleaned_twice() -> None:
    shard = new_shard()
    ok(shard, opened(begun(shard, 1)))
    abort(shard, TxnId(1))
    ok(shard, adopt("delta_1_write0001"))
    assert to_clean(shard) == {1: ["write0001"]}


def test_nothing_of_a_live_transaction_is_adopted() -> None:
    shard = new_shard()
    ok(shard, opened(begun(shard, 1)))
    for name in ("delta_1_write0001", "delta_1_notopened1"):
        assert type(refused(shard, adopt(name))) is IllegalState
    prepare(shard, TxnId(1))
    assert type(refused(shard, adopt("delta_1_write0001"))) is IllegalState


def test_nothing_of_a_transaction_that_may_yet_begin_here_is_adopted() -> None:
    shard = new_shard()
    assert type(refused(shard, adopt("delta_7_write0001"))) is IllegalState
    ok(shard, cmd.ForgetTxns(below(7)))
    assert type(refused(shard, adopt("delta_7_write0001"))) is IllegalState, "it is not below"
    ok(shard, cmd.ForgetTxns(below(8)))
    ok(shard, adopt("delta_7_write0001"))
    assert type(refused(shard, begin_txn(TxnId(7), TABLE, OWNER))).__name__ == "Forgotten"


def test_what_readers_see_is_not_adopted_also_after_its_writer_is_forgotten() -> None:
    shard = new_shard()
    committed(shard, 1, "write0001", 100)
    ok(shard, cmd.ForgetTxns(below(2)))
    assert type(refused(shard, adopt("delta_1_write0001"))) is IllegalState


def test_flushes_in_use_or_under_way_are_not_adopted_others_are_given_up() -> None:
    shard = new_shard()
    ok(shard, cmd.OpenFlush(TABLE, FLUSH))
    assert type(refused(shard, adopt(f"delta_{FLUSH}"))) is IllegalState
    ok(shard, cmd.DropFlush(TABLE, FLUSH, gone=False))
    for _ in range(2):
        ok(shard, adopt(f"delta_{FLUSH}"))
    ok(shard, adopt("delta_rowsfedcba9876543210"))
    assert table_of(shard).rows.given_up == [FLUSH, "rowsfedcba9876543210"]
    assert type(refused(shard, cmd.OpenFlush(TABLE, "rowsfedcba9876543210"))) is IllegalState
    ok(shard, cmd.DropFlush(TABLE, FLUSH, gone=True))
    assert table_of(shard).rows.given_up == ["rowsfedcba9876543210"]


def test_a_database_has_no_directories() -> None:
    assert type(refused(new_shard(), cmd.Adopt("3.air", "delta_1_write0001"))) is InvalidArgument


# ---- every order of commands

TXNS, WRITES = (TxnId(1), TxnId(2)), ("write0001", "write0002")
STATES = 1_000
A_PART = 400
"""States that each run looks at, nearest first: within them an adoption that refuses nothing is found."""


def moves() -> list[cmd.Command]:
    """Two transactions with two writes each; the second one overwrites what the first one wrote."""
    found: list[cmd.Command] = [cmd.ForgetTxns(below(2)), cmd.ForgetTxns(below(3)), cmd.Retire(TABLE, Timestamp(10**6))]
    found.append(cmd.Adopt(TABLE, f"delta_{FLUSH}"))
    found += [cmd.OpenFlush(TABLE, FLUSH), cmd.DropFlush(TABLE, FLUSH, gone=False)]
    found.append(cmd.DropFlush(TABLE, FLUSH, gone=True))
    for txn_id in TXNS:
        ts = Timestamp(100 * txn_id)
        found += [begin_txn(txn_id, TABLE, OWNER), cmd.AbortTxn(txn_id, TABLE)]
        found += [cmd.BeginCommit(txn_id, TABLE, ts), cmd.FinalizeCommit(txn_id, TABLE, ts)]
        for write_id in WRITES:
            found += [opened(txn_id, write_id), cmd.MarkCleaned(txn_id, TABLE, (write_id,))]
            found.append(cmd.Adopt(TABLE, f"delta_{txn_id}_{write_id}"))
        found.append(added(txn_id, WRITES[0], overwrite=txn_id == TXNS[1], base=150))
    return found


def in_use(shard: ParticipantShard) -> set[str]:
    """Written down a second time: what readers see, or may come to see, and what writers have been given."""
    table = table_of(shard)
    used = {f"delta_{fs.txn_id}_{write_id}" for fs in table.file_sets.values() for write_id in fs.used_writes}
    live = {f"delta_{txn.txn_id}_{write_id}" for txn in table.unfinished.values() for write_id in txn.claimed}
    return used | live | {f"delta_{flush_id}" for flush_id in (*table.rows.flushing, *table.rows.flushes)}


def going(shard: ParticipantShard) -> set[str]:
    """What cleaner and flusher remove."""
    names = {f"delta_{txn_id}_{write_id}" for _, txn_id, write_ids in shard.to_clean() for write_id in write_ids}
    return names | {f"delta_{flush_id}" for flush_id in table_of(shard).rows.given_up}


def an_empty_table() -> ParticipantShard:
    return new_shard()


def one_has_committed() -> ParticipantShard:
    shard = new_shard()
    committed(shard, TXNS[0], WRITES[0], 100)
    return shard


def another_is_about_to_overwrite_it() -> ParticipantShard:
    shard = one_has_committed()
    ok(shard, opened(begun(shard, TXNS[1]), WRITES[0]))
    ok(shard, added(TXNS[1], WRITES[0], overwrite=True, base=150))
    return shard


def it_is_overwritten() -> ParticipantShard:
    shard = one_has_committed()
    committed(shard, TXNS[1], WRITES[0], 200, overwrite=True)
    return shard


def search(begin: Callable[[], ParticipantShard], states: int) -> int:
    """Breadth first, over the shipped code; what was once to be removed is never in use again.

    Returns how many adoptions changed something.
    """
    seen = {(begin().snapshot(), frozenset[str]())}
    waiting = deque(seen)
    commands = moves()
    adoptions = 0
    while waiting and len(seen) < states:
        state, doomed = waiting.popleft()
        for command in commands:
            shard = ParticipantShard(3)
            shard.restore(state)
            shard.apply(command)
            shard.check_invariants()
            after = shard.snapshot()
            if after == state:
                continue
            adoptions += isinstance(command, cmd.Adopt)
            known = dict(directories(table_of(shard)))
            assert {name for name, each in known.items() if each.use is Use.GOING} == going(shard)
            assert known.keys() == going(shard) | in_use(shard)
            now_doomed = frozenset({name for name in doomed if FLUSH not in name} | going(shard))
            assert not in_use(shard) & now_doomed, command
            if (after, now_doomed) not in seen:
                seen.add((after, now_doomed))
                waiting.append((after, now_doomed))
    return adoptions


BEGINNINGS = [an_empty_table, one_has_committed, another_is_about_to_overwrite_it, it_is_overwritten]


@pytest.mark.parametrize("states", rest_in_campaigns([A_PART, STATES], [A_PART]))
@pytest.mark.parametrize("begin", BEGINNINGS)
def test_in_no_order_of_commands_is_anything_removed_that_is_in_use_or_comes_to_be(
    begin: Callable[[], ParticipantShard], states: int
) -> None:
    assert search(begin, states) > states // 20


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_the_search_finds_an_adoption_that_refuses_nothing(
    begin: Callable[[], ParticipantShard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "refusal", lambda *_: None)
    with pytest.raises(AssertionError):
        search(begin, A_PART)
