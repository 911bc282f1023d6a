"""What the doctor makes of nodes, groups and transactions, and what it reports."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from google.protobuf.message import Message
from rich.console import Console

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import NAME, OWNER, TABLE, begun, new_shard, ok, opened, table_of
from txnclient import Client, Savepoint
from txndeploy.doctor import examination, transactions
from txndeploy.doctor.cluster import Groups
from txndeploy.doctor.examination import Examination, Wishes
from txndeploy.doctor.report import FOUND, HEALTHY, NOT_SEEN, Mending, Report
from txndeploy.doctor.savepoints import troubling
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.shard import audit
from txnparticipant.shard import commands as cmd
from txnstatus.catalog.catalog import CatalogState, to_wire
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.errors import Forgotten, NotFound, TxnError
from txnstatus.findings import Finding, Kind
from txnstatus.proto import admin_pb2, common_pb2
from txnstatus.proto import audit_pb2 as pb
from txnstatus.types import Timestamp, TxnId, TxnState

LEFT = "delta_4_write0001"

# ---- groups

NODES = ("n1", "n2", "n3")


def catalog() -> CatalogState:
    nodes = {node: NodeInfo(f"{node}:1", ("status", "participant", "manager")) for node in NODES}
    return initial(nodes, participant_shards=1, replication=3, range_span=1000, options=Options())


def status(leader: bool = False, **groups: int | bytes) -> admin_pb2.GetNodeResponse:
    """A node's answer about one group, group-0; the others are well."""
    names = set(catalog().groups) - {"group-0"}
    response = admin_pb2.GetNodeResponse()
    for name in sorted(names):
        response.groups.add(group=name, leader=leader, commit_index=5, applied_index=5)
    if groups:
        response.groups.add(group="group-0", leader=leader, **groups)
    return response


def looked(*looks: dict[str, admin_pb2.GetNodeResponse | None]) -> set[tuple[Kind, str, str]]:
    groups = Groups()
    found: list[Finding] = []
    for look in looks:
        found = groups.findings(catalog(), look)
    return {(each.kind, each.where, each.what) for each in found}


WELL = {
    "n1": status(leader=True, commit_index=9, applied_index=9, digest=b"1"),
    "n2": status(applied_index=9, digest=b"1"),
    "n3": status(applied_index=8, digest=b"0"),
}


def test_a_replica_has_to_reach_what_was_committed_when_it_was_first_looked_at() -> None:
    assert looked(WELL) == {(Kind.REPLICA_BEHIND, "group-0", "n3")}
    caught_up = {**WELL, "n1": status(leader=True, commit_index=99, applied_index=99), "n3": status(applied_index=9)}
    assert looked(WELL, {**caught_up, "n2": status(applied_index=9)}) == set()
    assert looked({**WELL, "n3": status()}) == {(Kind.REPLICA_BEHIND, "group-0", "n3")}, "it has none"


def test_a_silent_node_and_a_group_without_a_leader_are_named() -> None:
    groups = {(Kind.NO_LEADER, name, "") for name in catalog().groups}
    assert looked({**WELL, "n1": None}) == {(Kind.NODE_SILENT, "n1", ""), *groups}
    assert looked({**WELL, "n1": None}, {**WELL, "n3": WELL["n2"]}) == set()


def test_a_group_that_is_dropped_between_two_looks_is_no_finding() -> None:
    groups, more = Groups(), replace(catalog(), groups={**catalog().groups, "group-9": NODES})
    well = {**WELL, "n3": WELL["n2"]}
    assert [(each.kind, each.where) for each in groups.findings(more, well)] == [
        (Kind.NO_LEADER, "group-9"), *((Kind.REPLICA_BEHIND, "group-9") for _ in NODES)
    ]  # fmt: skip
    assert groups.findings(catalog(), well) == []


def test_replicas_that_differ_at_one_index_are_named_whenever_they_were_seen_there() -> None:
    later = status(applied_index=9, digest=b"2")
    groups = Groups()
    groups.compare({"n1": WELL["n1"], "n3": WELL["n3"]})
    assert "group-0" not in groups.compared, "they were not at one entry"
    groups.compare(WELL)
    assert "group-0" in groups.compared
    assert not list(groups.differing())
    groups.compare({**WELL, "n3": later})
    groups.compare({**WELL, "n3": WELL["n2"]})
    assert [(each.kind, each.where, each.what) for each in groups.differing()] == [
        (Kind.REPLICAS_DIFFER, "group-0", "9")
    ]


# ---- transactions

HELD = transactions.Held("0.1", "a.t", "COMMIT_IN_PROGRESS", ("a.t",))


def ending(state: str, *participants: str) -> common_pb2.TxnInfo:
    infos = [common_pb2.ParticipantInfo(participant_id=each, name=f"name of {each}") for each in participants]
    return common_pb2.TxnInfo(txn_id=7, state=state, last_transition_micros=10**6, participants=infos)


@pytest.mark.parametrize(
    ("participants", "waits"),
    [
        (("0.1",), "name of 0.1, where it is COMMIT_IN_PROGRESS"),
        (("1.4",), "name of 1.4, whose shard-1 does not answer"),
        (("@pg",), "name of @pg, whose host does not answer"),
        (("0.2", "@there"), "all its participants have done their part"),
    ],
)
def test_a_stuck_transaction_says_for_whom_it_waits(participants: tuple[str, ...], waits: str) -> None:
    txns = [ending("COMMIT_IN_PROGRESS", *participants)]
    (found,) = transactions.stuck(txns, {7: [HELD]}, {1}, {"pg"}, 91 * 10**6, 60)
    assert found.kind is Kind.STUCK_TRANSACTION
    assert found.story.startswith("COMMIT_IN_PROGRESS for 90 s; ")
    assert waits in found.story


def test_what_is_open_or_has_only_begun_to_end_is_not_stuck() -> None:
    txns = [ending("OPEN", "0.1"), ending("ABORT_IN_PROGRESS", "0.1")]
    assert not list(transactions.stuck(txns[:1], {}, (), (), 10**12, 60))
    assert not list(transactions.stuck(txns, {}, (), (), 30 * 10**6, 60))


def test_what_is_held_for_a_transaction_that_is_over_is_named() -> None:
    (found,) = transactions.dead(7, "finished and forgotten", [HELD])
    assert (found.kind, found.where, found.what) == (Kind.DEAD_TRANSACTION, "a.t", "transaction 7")
    assert "holds locks on a.t" in found.story
    assert "forgotten" in found.story


def test_a_shard_tells_who_has_locks_on_it() -> None:
    shard = new_shard()
    ok(shard, opened(begun(shard, 1)))
    locks = Lock(NAME, Mode.X), Lock(f"{NAME}/day=1", Mode.X)
    ok(shard, cmd.AcquireLocks(TxnId(1), TABLE, OWNER, locks, Otherwise.REFUSED, Timestamp(1)))
    ok(shard, begin_txn(TxnId(2), "3.air", OWNER))
    ok(shard, cmd.AcquireLocks(TxnId(2), "3.air", OWNER, (Lock("air", Mode.S),), Otherwise.REFUSED, Timestamp(1)))
    held = transactions.unfinished(audit.participants(shard.tables(), ("", 0)).participants)
    assert held == {
        1: [transactions.Held(TABLE, NAME, "OPEN", (NAME, f"{NAME}/day=1"))],
        2: [transactions.Held("3.air", "air", "OPEN", ("air",))],
    }
    del table_of(shard).txns[TxnId(1)], table_of(shard).unfinished[TxnId(1)]
    (orphaned, _) = transactions.unfinished(audit.participants(shard.tables(), ("", 0)).participants).values()
    assert orphaned[0].state == "not known", "locks without a record are told, too"


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_a_shard_tells_it_page_by_page(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All was in one answer: with enough transactions it was longer than an answer may be."""
    monkeypatch.setattr(audit, "MAX_LISTED", at_once)
    shard = new_shard()
    for txn_id in range(1, 6):
        ok(shard, opened(begun(shard, txn_id)))
        ok(shard, begin_txn(TxnId(txn_id), "3.air", OWNER))
    calls = 0

    def call(_method: str, request: pb.AuditShardRequest, _kind: object) -> pb.AuditShardResponse:
        nonlocal calls
        calls += 1
        return audit.participants(shard.tables(), (request.after_table_id, request.after_txn_id))

    found = Examination(cast(Client, SimpleNamespace(call=call)), Wishes())._shard(3)
    assert [(each.info.name, [txn.txn_id for txn in each.unfinished]) for each in found] == [
        (NAME, [1, 2, 3, 4, 5]),
        ("air", [1, 2, 3, 4, 5]),
    ]
    assert found[0].info.schema.columns, "a page that goes on with a table has no more than its name"
    assert calls == -(-12 // at_once)


class Told:
    """Stands for a client of a cluster with one shard: what it says at each look, and of the transaction."""

    def __init__(self, looks: list[list[int]], outcome: TxnState | TxnError, state: str = "OPEN") -> None:
        self._looks, self._outcome, self._state = iter(looks), outcome, f"PARTICIPANT_{state}"

    def call(self, method: str, _request: Message, response: type[Message]) -> Message:
        if method == "txnstatus.Admin/GetCluster":
            return admin_pb2.GetClusterResponse(catalog=to_wire(catalog()))
        if method == "txnstatus.Audit/AuditShard":
            there = pb.AuditedParticipant(info=common_pb2.TableInfo(table_id="0.0", name="a.t"))
            for txn_id in next(self._looks):
                there.unfinished.add(txn_id=txn_id, state=self._state, locks=["a.t"])
            return pb.AuditShardResponse(participants=[there])
        return response()

    def get(self, _txn_id: int) -> SimpleNamespace:
        if isinstance(self._outcome, TxnError):
            raise self._outcome
        return SimpleNamespace(state=self._outcome)


class Time:
    """Goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def time_ns(self) -> int:
        return int(self.now * 1e9)


def found_dead(told: Told, time: Time, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(examination, "time", time)
    run = Examination(cast(Client, told), Wishes())
    run._look_at_catalog()
    run.look_at_transactions()
    assert run.report.not_seen == []
    assert {each.kind for each in run.report.findings} <= {Kind.DEAD_TRANSACTION}
    return [each.what for each in run.report.findings]


@pytest.mark.parametrize(
    ("looks", "outcome", "found"),
    [
        ([[7], [7]], Forgotten("forgotten"), ["transaction 7"]),
        ([[7], [7]], NotFound("never given out"), ["transaction 7"]),
        ([[7], [7, 8]], TxnState.COMMITTED, ["transaction 7"]),
        ([[7], []], TxnState.ABORTED, []),
        ([[7]], TxnState.ABORT_IN_PROGRESS, []),
        ([[]], TxnState.OPEN, []),
    ],
)
def test_who_is_over_and_still_holds_something_at_a_second_look_is_dead(
    looks: list[list[int]], outcome: TxnState | TxnError, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told, time = Told(looks, outcome, "COMMIT_IN_PROGRESS"), Time()
    assert found_dead(told, time, monkeypatch) == found
    assert not time.now, "what is prepared is told at once"


@pytest.mark.parametrize(("looks", "found"), [(3, []), (int(examination.OPEN_PATIENCE_SECONDS * 3), ["transaction 7"])])
def test_what_is_open_and_was_never_registered_has_a_while_to_go_by_itself(
    looks: int, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    assert found_dead(Told([[7]] * looks + [[]], TxnState.ABORTED), time, monkeypatch) == found
    assert (time.now >= examination.OPEN_PATIENCE_SECONDS) is bool(found)


# ---- the report


def test_the_exit_code_says_what_is_left() -> None:
    note, orphan = Finding(Kind.UNLISTED_FILES, NAME, "", ""), Finding(Kind.ORPHAN, NAME, LEFT, "")
    assert Report([note]).exit_code == HEALTHY
    assert Report([note, orphan], {orphan: Mending(done=False)}).exit_code == FOUND
    assert Report([note, orphan], {orphan: Mending(done=True, refusal="shared")}).exit_code == FOUND
    assert Report([note, orphan], {orphan: Mending(done=True)}).exit_code == HEALTHY
    assert Report([orphan], not_seen=["shard-0"]).exit_code == NOT_SEEN


def test_what_is_shown_is_shown_as_it_is() -> None:
    finding = Finding(Kind.STRAY, NAME, "month=[/red]1", "[bold]")
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(Report([finding], {finding: Mending(done=True, refusal="[no]")}).table())
    shown = console.export_text()
    assert all(text in shown for text in ("month=[/red]1", "[bold]", "not mended: [no]"))


def test_every_kind_is_explained_to_operators() -> None:
    page_text = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    assert not [kind.label for kind in Kind if f"| {kind.label} |" not in page_text]


# ---- savepoints


def test_a_savepoint_that_keeps_much_and_one_that_was_never_finished_are_found() -> None:
    made = datetime(2026, 1, 31, 12, tzinfo=UTC)
    small = Savepoint("small", Timestamp(5), "ada", ("air.flights",), made, None, (1 << 30) - 1, unfinished=False)
    large = replace(small, name="large", held_bytes=1 << 30, tables=(), expires=made + timedelta(days=30))
    begun_before = replace(small, name="begun", unfinished=True)
    found = list(troubling([small, large, begun_before], made + timedelta(seconds=61), 60.0, 1024))
    assert [(each.kind, each.where, each.what) for each in found] == [
        (Kind.COSTLY_SAVEPOINT, "all tables", "large"),
        (Kind.UNFINISHED_SAVEPOINT, "air.flights", "begun"),
    ]
    assert found[0].story == "it keeps 1,024 MiB that only readers of the past see, until 2026-03-02 12:00 UTC"
    assert not list(troubling([begun_before], made + timedelta(seconds=59), 60.0, 1024)), "it is being made"
