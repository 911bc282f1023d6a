"""The audit's core: every finding, of storage, groups and transactions, from what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from google.protobuf.message import Message

from tests.unit.test_participant_shard import NAME, OWNER, TABLE, begun, committed, new_shard, ok, opened, table_of
from txnclient import Client
from txndeploy.doctor import transactions
from txndeploy.doctor.cluster import Groups
from txndeploy.doctor.examination import Examination, Wishes
from txndeploy.doctor.places import Place, Table, own, parts, places, shared
from txndeploy.doctor.report import FOUND, HEALTHY, NOT_SEEN, Mending, Report
from txndeploy.doctor.storage import NotSeen, StorageAudit
from txnparticipant import audit
from txnparticipant import commands as cmd
from txnparticipant.audit import Contents, Damage, Known, Listing, Use, findings, from_wire, page
from txnparticipant.locks import Lock, Mode, Strategy
from txnparticipant.mvcc import Manifest
from txnstatus import manifest as manifests
from txnstatus.catalog import CatalogState, NodeInfo, initial, to_wire
from txnstatus.errors import Forgotten, NotFound, TxnError
from txnstatus.findings import Finding, Kind, Severity, confirmed
from txnstatus.options import Options
from txnstatus.proto import admin_pb2, audit_pb2, common_pb2
from txnstatus.types import Timestamp, TxnId, TxnState

PLACE = "file:///lake/air/flights"
IN_USE, CLAIMED, GOING, LEFT = (f"delta_{txn_id}_write0001" for txn_id in (1, 2, 3, 4))


def manifest_in(name: str) -> Manifest:
    return Manifest(f"{PLACE}/{name}/_manifest.json", 200, 12345, 1, 10, 80)


KNOWN: Mapping[str, Known] = {
    IN_USE: Known(Use.IN_USE, manifest_in(IN_USE)),
    CLAIMED: Known(Use.CLAIMED, manifest_in(CLAIMED)),
    GOING: Known(Use.GOING),
}
FILE = f"{PLACE}/{IN_USE}/month%3D1/part-0.parquet"
OTHER = f"{PLACE}/{CLAIMED}/part-0.parquet"
CONTENTS: Contents = {
    manifest_in(IN_USE).path: {FILE: 80},
    manifest_in(CLAIMED).path: {OTHER: 80},
}
LISTING: Listing = {
    IN_USE: {"_manifest.json": 200, "_SUCCESS": 0, ".part-0.parquet.crc": 8, "month=1/part-0.parquet": 80},
    CLAIMED: {"_manifest.json": 200, "part-0.parquet": 80},
    GOING: {"part-0.parquet": 5},
}


def judged(
    listing: Listing = LISTING, contents: Contents = CONTENTS, known: Mapping[str, Known] = KNOWN
) -> set[tuple[Kind, str]]:
    return {(each.kind, each.what) for each in findings(NAME, PLACE, known, listing, contents)}


def without(name: str, file: str) -> Listing:
    return {**LISTING, name: {below: size for below, size in LISTING[name].items() if below != file}}


def beside(name: str, files: Mapping[str, int]) -> Listing:
    return {**LISTING, name: {**LISTING.get(name, {}), **files}}


# ---- storage


def test_what_agrees_is_no_finding() -> None:
    assert judged() == set()
    assert judged({}, {}, {}) == set()


@pytest.mark.parametrize(
    ("listing", "contents", "expected"),
    [
        (without(IN_USE, "_manifest.json"), CONTENTS, (Kind.MISSING_MANIFEST, IN_USE)),
        (without(CLAIMED, "_manifest.json"), CONTENTS, (Kind.MISSING_MANIFEST, CLAIMED)),
        ({n: f for n, f in LISTING.items() if n != CLAIMED}, CONTENTS, (Kind.MISSING_MANIFEST, CLAIMED)),
        (LISTING, {**CONTENTS, manifest_in(IN_USE).path: Damage("cut")}, (Kind.DAMAGED_MANIFEST, IN_USE)),
        (without(IN_USE, "month=1/part-0.parquet"), CONTENTS, (Kind.MISSING_FILE, IN_USE)),
        (LISTING, {**CONTENTS, manifest_in(IN_USE).path: {"s3://else/where": 1}}, (Kind.MISSING_FILE, IN_USE)),
        (beside(CLAIMED, {"part-0.parquet": 81}), CONTENTS, (Kind.WRONG_SIZE, CLAIMED)),
        (beside(LEFT, {"part-0.parquet": 1}), CONTENTS, (Kind.ORPHAN, LEFT)),
        (beside(LEFT, {}), CONTENTS, (Kind.ORPHAN, LEFT)),
        (beside("delta_rows0123456789abcdef", {}), CONTENTS, (Kind.ORPHAN, "delta_rows0123456789abcdef")),
        (beside(LEFT, {"_manifest.json": 1}), CONTENTS, (Kind.WHOLE_WRITE, LEFT)),
        (beside("base", {"x": 1}), CONTENTS, (Kind.STRAY, "base")),
        (beside("readme.txt", {"": 1}), CONTENTS, (Kind.STRAY, "readme.txt")),
        (beside(IN_USE, {"month=1/part-9.parquet": 7}), CONTENTS, (Kind.UNLISTED_FILES, "")),
    ],
)
def test_what_does_not_agree_is_named(listing: Listing, contents: Contents, expected: tuple[Kind, str]) -> None:
    found = judged(listing, contents)
    assert expected in found
    assert {kind for kind, _ in found} <= {expected[0], Kind.UNLISTED_FILES}


def test_many_missing_files_are_one_finding_that_names_some() -> None:
    files = {f"{PLACE}/{IN_USE}/part-{number}.parquet": 1 for number in range(9)}
    found = next(findings(NAME, PLACE, KNOWN, LISTING, {**CONTENTS, manifest_in(IN_USE).path: files}))
    assert found.kind is Kind.MISSING_FILE
    assert found.story.startswith("9 of 9 files: ")
    assert found.story.endswith(" and 6 more")


def test_files_that_no_manifest_lists_are_counted_only_when_all_manifests_were_read() -> None:
    listing = beside(IN_USE, {"part-9.parquet": 7})
    assert judged(listing) == {(Kind.UNLISTED_FILES, "")}
    assert judged(listing, {manifest_in(IN_USE).path: {FILE: 80}}) == set()
    assert Kind.UNLISTED_FILES.severity is Severity.NOTE


def test_only_what_is_found_twice_counts() -> None:
    first = [Finding(Kind.ORPHAN, NAME, LEFT, "1 files"), Finding(Kind.ORPHAN, NAME, GOING, "1 files")]
    second = [Finding(Kind.ORPHAN, NAME, LEFT, "2 files"), Finding(Kind.MISSING_FILE, NAME, GOING, "")]
    assert list(confirmed(first, second)) == [second[0]]


def test_a_table_knows_its_directories_page_by_page() -> None:
    shard = new_shard()
    committed(shard, 1, "write0001", 100)
    ok(shard, opened(begun(shard, 2)))
    ok(shard, opened(begun(shard, 3)))
    ok(shard, cmd.AbortTxn(TxnId(3), TABLE))
    known = audit.known_directories(table_of(shard))
    assert {name: each.use for name, each in known.items()} == {
        IN_USE: Use.IN_USE,
        CLAIMED: Use.CLAIMED,
        GOING: Use.GOING,
    }
    first = page(table_of(shard), "", 2)
    rest = page(table_of(shard), first.directories[-1].name, 2)
    assert (first.more, rest.more) == (True, False)
    assert {each.name: from_wire(each) for part in (first, rest) for each in part.directories} == known


# ---- a place on storage


def in_place(path: Path) -> tuple[Place, dict[str, Known]]:
    location = path.as_uri()
    uri = f"{location}/{IN_USE}/part-0.parquet"
    (path / IN_USE).mkdir(parents=True)
    (path / IN_USE / "part-0.parquet").write_bytes(b"12345")
    file = manifests.DataFile(uri, 1, 5)
    ref = manifests.write(f"{location}/{IN_USE}", [file], table_id=TABLE, txn_id=1, write_id="write0001")
    (place,), _ = places([Table(3, TABLE, NAME, location)])
    return place, {IN_USE: Known(Use.IN_USE, cmd.manifest_from_wire(ref))}


def test_a_directory_that_is_claimed_between_listing_and_answer_is_no_finding(tmp_path: Path) -> None:
    place, known = in_place(tmp_path)
    (tmp_path / LEFT).mkdir()
    answers = iter([known, {**known, LEFT: Known(Use.CLAIMED)}])
    seen = StorageAudit(lambda _: next(answers)).look(place)
    assert seen.findings == []


def test_what_is_removed_between_answer_and_listing_is_no_finding(tmp_path: Path) -> None:
    place, known = in_place(tmp_path)
    gone = {**known, GOING: Known(Use.IN_USE, manifest_in(GOING))}
    answers = iter([gone, known])
    assert StorageAudit(lambda _: next(answers)).look(place).findings == []


def test_what_stays_is_a_finding(tmp_path: Path) -> None:
    place, known = in_place(tmp_path)
    (tmp_path / LEFT).mkdir()
    (tmp_path / IN_USE / "_manifest.json").write_bytes(b"{}")
    found = StorageAudit(lambda _: known).look(place).findings
    assert [(each.kind, each.what) for each in found] == [(Kind.ORPHAN, LEFT), (Kind.DAMAGED_MANIFEST, IN_USE)]


def test_storage_that_does_not_answer_is_said_and_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, known = in_place(tmp_path)

    def fails(_uri: str) -> bytes:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(manifests, "read_file", fails)
    with pytest.raises(NotSeen, match="denied"):
        StorageAudit(lambda _: known).look(place)
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    with pytest.raises(NotSeen, match="does not exist here"):
        StorageAudit(lambda _: known).look(place)


def table(name: str, location: str) -> Table:
    return Table(0, f"0.{name}", name, location)


def test_tables_in_each_others_places_are_seen(tmp_path: Path) -> None:
    base = tmp_path.as_uri()
    where = {"a": "x", "b": "y/../x", "c": f"x/{LEFT}/c", "d": "xy"}
    tables = [table(name, f"{base}/{below}") for name, below in where.items()]
    found, unusable = places([*tables, table("e", "nowhere://x")])
    assert len(unusable) == 1
    assert unusable[0].startswith("e: ")
    assert [place.name for place in found] == ["a, b", "c", "d"]
    assert [place.is_shared for place in found] == [True, True, False]
    assert [len(shared(place)) for place in found] == [1, 1, 0]
    listing = {IN_USE: {"f": 1}, LEFT: {"c/delta_1_write0001/f": 1}, CLAIMED: {}, GOING: {}}
    assert own(listing, found[0]) == {IN_USE: {"f": 1}, CLAIMED: {}, GOING: {}}
    known = [{IN_USE: Known(Use.IN_USE)}, {CLAIMED: Known(Use.CLAIMED)}]
    assert parts(own(listing, found[0]), known) == [{IN_USE: {"f": 1}, GOING: {}}, {CLAIMED: {}}]


# ---- groups

NODES = ("n1", "n2", "n3")


def catalog() -> CatalogState:
    nodes = {node: NodeInfo(f"{node}:1", ("status", "participant", "manager")) for node in NODES}
    return initial(nodes, participant_shards=1, replication=3, range_span=1000, options=Options())


def status(leader: bool = False, **groups: int | bytes) -> admin_pb2.GetNodeResponse:
    """Of one group, shard-0; the others are well."""
    names = set(catalog().groups) - {"shard-0"}
    response = admin_pb2.GetNodeResponse()
    for name in sorted(names):
        response.groups.add(group=name, leader=leader, commit_index=5, applied_index=5)
    if groups:
        response.groups.add(group="shard-0", leader=leader, **groups)
    return response


def looked(*looks: dict[str, admin_pb2.GetNodeResponse | None]) -> set[tuple[Kind, str, str]]:
    groups = Groups(catalog())
    found: list[Finding] = []
    for look in looks:
        found = groups.findings(look)
    return {(each.kind, each.where, each.what) for each in found}


WELL = {
    "n1": status(leader=True, commit_index=9, applied_index=9, digest=b"1"),
    "n2": status(applied_index=9, digest=b"1"),
    "n3": status(applied_index=8, digest=b"0"),
}


def test_a_replica_has_to_reach_what_was_committed_when_it_was_first_looked_at() -> None:
    assert looked(WELL) == {(Kind.REPLICA_BEHIND, "shard-0", "n3")}
    caught_up = {**WELL, "n1": status(leader=True, commit_index=99, applied_index=99), "n3": status(applied_index=9)}
    assert looked(WELL, {**caught_up, "n2": status(applied_index=9)}) == set()
    assert looked({**WELL, "n3": status()}) == {(Kind.REPLICA_BEHIND, "shard-0", "n3")}, "it has none"


def test_a_silent_node_and_a_group_without_a_leader_are_named() -> None:
    groups = {(Kind.NO_LEADER, name, "") for name in catalog().groups}
    assert looked({**WELL, "n1": None}) == {(Kind.NODE_SILENT, "n1", ""), *groups}
    assert looked({**WELL, "n1": None}, {**WELL, "n3": WELL["n2"]}) == set()


def test_replicas_that_differ_at_one_index_are_named_whenever_they_were_seen_there() -> None:
    later = status(applied_index=9, digest=b"2")
    found = looked(WELL, {**WELL, "n3": later}, {**WELL, "n3": WELL["n2"]})
    assert found == {(Kind.REPLICAS_DIFFER, "shard-0", "9")}
    groups = Groups(catalog())
    groups.findings(WELL)
    assert groups.compared == {"shard-0"}


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
    ok(shard, cmd.AcquireLocks(TxnId(1), TABLE, OWNER, locks, Strategy.NO_WAIT, Timestamp(1)))
    ok(shard, cmd.BeginTxn(TxnId(2), "3.air", OWNER))
    ok(shard, cmd.AcquireLocks(TxnId(2), "3.air", OWNER, (Lock("air", Mode.S),), Strategy.NO_WAIT, Timestamp(1)))
    held = transactions.unfinished([audit.participant_to_wire(each) for each in shard.tables()])
    assert held == {
        1: [transactions.Held(TABLE, NAME, "OPEN", (NAME, f"{NAME}/day=1"))],
        2: [transactions.Held("3.air", "air", "OPEN", ("air",))],
    }
    del table_of(shard).txns[TxnId(1)], table_of(shard).unfinished[TxnId(1)]
    (orphaned, _) = transactions.unfinished([audit.participant_to_wire(each) for each in shard.tables()]).values()
    assert orphaned[0].state == "not known", "locks without a record are told, too"


class Told:
    """Stands for a client of a cluster with one shard: what it says at each look, and of the transaction."""

    def __init__(self, looks: list[list[int]], outcome: TxnState | TxnError) -> None:
        self._looks, self._outcome = iter(looks), outcome

    def call(self, method: str, _request: Message, response: type[Message]) -> Message:
        if method == "txnstatus.Admin/GetCluster":
            return admin_pb2.GetClusterResponse(catalog=to_wire(catalog()))
        if method == "txnstatus.Audit/AuditShard":
            there = audit_pb2.AuditedParticipant(info=common_pb2.TableInfo(table_id="0.0", name="a.t"))
            for txn_id in next(self._looks):
                there.unfinished.add(txn_id=txn_id, state="PARTICIPANT_OPEN", locks=["a.t"])
            return audit_pb2.AuditShardResponse(participants=[there])
        return response()

    def get(self, _txn_id: int) -> SimpleNamespace:
        if isinstance(self._outcome, TxnError):
            raise self._outcome
        return SimpleNamespace(state=self._outcome)


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
    looks: list[list[int]], outcome: TxnState | TxnError, found: list[str]
) -> None:
    examination = Examination(cast(Client, Told(looks, outcome)), Wishes())
    examination.begin()
    examination.look_at_transactions()
    report = examination.report
    assert [(each.kind, each.what) for each in report.findings] == [(Kind.DEAD_TRANSACTION, what) for what in found]
    assert report.not_seen == []


# ---- the report


def test_the_exit_code_says_what_is_left() -> None:
    note, orphan = Finding(Kind.UNLISTED_FILES, NAME, "", ""), Finding(Kind.ORPHAN, NAME, LEFT, "")
    assert Report([note]).exit_code == HEALTHY
    assert Report([note, orphan], {orphan: Mending(done=False)}).exit_code == FOUND
    assert Report([note, orphan], {orphan: Mending(done=True, refusal="shared")}).exit_code == FOUND
    assert Report([note, orphan], {orphan: Mending(done=True)}).exit_code == HEALTHY
    assert Report([orphan], not_seen=["shard-0"]).exit_code == NOT_SEEN


def test_every_kind_is_explained_to_operators() -> None:
    page_text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    assert not [kind.label for kind in Kind if f"| {kind.label} |" not in page_text]
