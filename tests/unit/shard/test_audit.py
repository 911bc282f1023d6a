"""The audit of storage: every finding, from what a table knows and what lies in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.unit.harness.shards import NAME, TABLE, begun, committed, new_shard, ok, opened, table_of
from txndeploy.doctor.places import Place, Table, own, parts, places, shared
from txndeploy.doctor.storage import NotSeen, StorageAudit
from txnparticipant.shard import audit
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.audit import Contents, Damage, Known, KnownFile, Listing, Use, findings, from_wire
from txnparticipant.upkeep import audit_service
from txnparticipant.upkeep.audit_service import ShardAudit
from txnparticipant.versions.mvcc import Manifest
from txnstatus.errors import InvalidArgument, NotFound
from txnstatus.findings import Finding, Kind, Severity, confirmed
from txnstatus.lake import manifest as manifests
from txnstatus.proto import audit_pb2 as pb
from txnstatus.types import TxnId

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
    assert manifests.FILE_NAME == audit.MANIFEST_NAME
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


def test_a_file_of_deleted_rows_that_comes_while_somebody_looks_is_another_one_at_the_next_look() -> None:
    names = [f"{IN_USE}/_deletes_{number}.parquet" for number in range(2)]
    files = [KnownFile(f"{PLACE}/{name}", 9, 1) for name in names]
    listings = [LISTING, beside(IN_USE, {"_deletes_0.parquet": 9})]
    looks = [
        list(
            findings(NAME, PLACE, {**KNOWN, IN_USE: Known(Use.IN_USE, manifest_in(IN_USE), tuple(known))}, listing, {})
        )
        for known, listing in zip((files[:1], files), listings, strict=True)
    ]
    assert [[each.what for each in look] for look in looks] == [[name] for name in names]
    assert not list(confirmed(*looks))


def test_only_what_is_found_twice_counts() -> None:
    first = [Finding(Kind.ORPHAN, NAME, LEFT, "1 files"), Finding(Kind.ORPHAN, NAME, GOING, "1 files")]
    second = [Finding(Kind.ORPHAN, NAME, LEFT, "2 files"), Finding(Kind.MISSING_FILE, NAME, GOING, "")]
    assert list(confirmed(first, second)) == [second[0]]


def test_a_table_knows_its_directories_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = new_shard()
    committed(shard, 1, "write0001", 100)
    ok(shard, opened(begun(shard, 2)))
    ok(shard, opened(begun(shard, 3)))
    ok(shard, cmd.AbortTxn(TxnId(3), TABLE))
    known = dict(audit.directories(table_of(shard)))
    assert {name: each.use for name, each in known.items()} == {
        IN_USE: Use.IN_USE,
        CLAIMED: Use.CLAIMED,
        GOING: Use.GOING,
    }
    monkeypatch.setattr(audit_service, "PAGE_DIRECTORIES", 2)
    monkeypatch.setattr(audit_service, "SLICE", 1)
    service = ShardAudit(shard, nothing_is_proposed, lambda: None)
    first = asyncio.run(service.audit_table(pb.AuditTableRequest(table_id=TABLE)))
    rest = asyncio.run(service.audit_table(pb.AuditTableRequest(table_id=TABLE, after=first.directories[-1].name)))
    assert (first.more, rest.more) == (True, False)
    assert {each.name: from_wire(each) for part in (first, rest) for each in part.directories} == known
    with pytest.raises(NotFound):
        asyncio.run(service.audit_table(pb.AuditTableRequest(table_id="3.9")))


@pytest.mark.parametrize("names", [range(40), reversed(range(40)), [7 * number % 40 for number in range(40)]])
def test_pages_are_the_same_whatever_the_order(monkeypatch: pytest.MonkeyPatch, names: Iterable[int]) -> None:
    monkeypatch.setattr(audit_service, "PAGE_DIRECTORIES", 4)
    there, found, after, more = [f"{name:02}" for name in names], [], "", True
    while more:
        page = audit_service._Page(after)
        for name in [*there, *there]:
            page.add(name, Known(Use.GOING))
        page.cut()
        found += list(page.known)
        after, more = found[-1], page.more
    assert found == sorted(there)


async def nothing_is_proposed(command: cmd.Adopt) -> None:
    raise AssertionError(command)


def test_whoever_only_asks_changes_nothing() -> None:
    shard = new_shard()
    committed(shard, 1, "write0001", 100)
    service = ShardAudit(shard, nothing_is_proposed, lambda: None)
    names = ["delta_1_left00001", IN_USE]
    request = pb.AdoptDirectoriesRequest(table_id=TABLE, names=names, only_ask=True)
    may, may_not = asyncio.run(service.adopt_directories(request)).results
    assert not may.HasField("error")
    assert may_not.error.code == "ILLEGAL_STATE"
    request = pb.AdoptDirectoriesRequest(table_id=TABLE, names=["x"] * 1001)
    with pytest.raises(InvalidArgument):
        asyncio.run(service.adopt_directories(request))


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
    seen = StorageAudit(lambda _: next(answers), lambda _: "ABORTED").look(place)
    assert seen.findings == []


def test_what_is_removed_between_answer_and_listing_is_no_finding(tmp_path: Path) -> None:
    place, known = in_place(tmp_path)
    gone = {**known, GOING: Known(Use.IN_USE, manifest_in(GOING))}
    answers = iter([gone, known])
    assert StorageAudit(lambda _: next(answers), lambda _: "ABORTED").look(place).findings == []


def test_what_stays_is_a_finding(tmp_path: Path) -> None:
    place, known = in_place(tmp_path)
    (tmp_path / LEFT).mkdir()
    (tmp_path / IN_USE / "_manifest.json").write_bytes(b"{}")
    found = StorageAudit(lambda _: known, lambda _: "ABORTED").look(place).findings
    assert [(each.kind, each.what) for each in found] == [(Kind.ORPHAN, LEFT), (Kind.DAMAGED_MANIFEST, IN_USE)]


def test_what_a_begin_has_claimed_is_no_finding_until_the_transaction_has_ended(tmp_path: Path) -> None:
    """The table has not heard of it."""
    place, known = in_place(tmp_path)
    (tmp_path / LEFT).mkdir()
    assert StorageAudit(lambda _: known, lambda _: "").look(place).findings == []
    outcomes = iter(["", "COMMITTED"])
    heard = iter([known, {**known, LEFT: Known(Use.IN_USE)}])
    assert StorageAudit(lambda _: next(heard), lambda _: next(outcomes)).look(place).findings == []


def test_storage_that_does_not_answer_is_said_and_not_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, known = in_place(tmp_path)

    def fails(_uri: str) -> bytes:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(manifests, "read_file", fails)
    with pytest.raises(NotSeen, match="denied"):
        StorageAudit(lambda _: known, lambda _: "ABORTED").look(place)
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    with pytest.raises(NotSeen, match="does not exist here"):
        StorageAudit(lambda _: known, lambda _: "ABORTED").look(place)


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
