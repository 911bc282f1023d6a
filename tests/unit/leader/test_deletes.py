"""Rows without a key, deleted by position: who sees what, and who was first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyroaring import BitMap

from tests.unit.harness.leader.rows import OWNER, TABLE, TABLE_ID, Shard
from txnclient.read.table_files import TableFiles
from txnclient.write.deletes import described
from txndeploy.doctor.places import Table as DoctorsTable
from txndeploy.doctor.places import places
from txndeploy.doctor.storage import StorageAudit
from txnparticipant.shard import audit, delete_checks
from txnparticipant.shard import commands as cmd
from txnparticipant.versions import deletes
from txnstatus.errors import Conflict, IllegalState, InvalidArgument
from txnstatus.findings import Finding, Kind
from txnstatus.lake import manifest
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId

SCHEMA = Schema((Column("id", "bigint"), Column("v", "string")))
ONE, TWO, THREE = map(TxnId, (1, 2, 3))


class Table(Shard):
    """A table without a primary key, whose ids no two rows share."""

    _writes = itertools.count(1)

    def seen(self, at: int, txn_id: int | None = None) -> TableFiles:
        return TableFiles.of(self.scan(at, txn_id), Timestamp(at))

    def ids(self, at: int, txn_id: int | None = None) -> list[int]:
        return [key for key, _ in self.read(at, txn_id)]

    def delete_request(self, txn_id: TxnId, ids: set[int], at: int) -> pb.AddFilesRequest:
        self.begin(txn_id)
        write_id = f"delete{next(self._writes):04}"
        self.apply(cmd.OpenWrite(txn_id, TABLE_ID, OWNER, write_id))
        directory, seen = self.table.directory(txn_id, write_id), self.seen(at, txn_id)
        dead = {}
        for file in seen.files:
            rows = TableFiles(TABLE, SCHEMA, (file,)).to_arrow()["id"].to_pylist()
            if found := [at for at, id_ in enumerate(rows) if id_ in ids]:
                dead[file.path] = BitMap(found)
        return pb.AddFilesRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=TABLE,
            write_id=write_id,
            manifest=manifest.write(directory, [], table_id=TABLE_ID, txn_id=txn_id, write_id=write_id),
            deletes=described(directory, seen, dead, Timestamp(at)),
        )

    def delete(self, txn_id: TxnId, *ids: int, at: int | None = None) -> None:
        """`at`: the timestamp of what the transaction sees, by default as of now."""
        self.add(self.delete_request(txn_id, set(ids), self.status.last if at is None else at))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    with Table(tmp_path, SCHEMA) as running:
        yield running


def numbered(*ids: int) -> dict[int, str]:
    return dict.fromkeys(ids, "v")


def test_a_deleted_row_is_gone_from_its_commit_on_and_no_sooner(table: Table) -> None:
    table.write_files(ONE, numbered(1, 2, 3))
    before = table.commit(ONE)
    table.delete(TWO, 2)
    assert table.ids(before) == [1, 2, 3]
    assert table.ids(before, TWO) == [1, 3], "a transaction sees what it deleted itself"
    after = table.commit(TWO)
    table.restart()
    assert (table.ids(before), table.ids(after)) == ([1, 2, 3], [1, 3])


def test_a_prepared_delete_counts_as_soon_as_it_is_decided(table: Table) -> None:
    table.write_files(ONE, numbered(1, 2))
    table.commit(ONE)
    table.delete(TWO, 1)
    table.prepare(TWO)
    decided = table.decide(TWO)
    assert table.ids(decided) == [2]
    assert table.ids(decided - 1) == [1, 2]


def test_an_aborted_delete_leaves_everything(table: Table) -> None:
    table.write_files(ONE, numbered(1, 2))
    table.commit(ONE)
    table.delete(TWO, 1)
    table.prepare(TWO)
    table.abort(TWO)
    assert table.ids(table.status.last) == [1, 2]
    table.delete(THREE, 1)
    assert table.ids(table.commit(THREE)) == [2]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("prepared", [False, True])
def test_of_two_that_delete_one_row_the_first_wins_and_rows_are_named(
    table: Table, prepared: bool, restarts: bool
) -> None:
    table.write_files(ONE, numbered(*range(10)))
    at = table.commit(ONE)
    table.delete(TWO, 3, 4, at=at)
    table.delete(THREE, 4, 5, at=at)
    table.prepare(TWO) if prepared else table.commit(TWO)
    if restarts:
        table.restart()
    with pytest.raises(Conflict, match=r"rows 4 of air.log/delta_1_\w+/part-00000.parquet were changed") as error:
        table.prepare(THREE)
    assert error.value.winner == TWO
    assert "transaction 2, which was first" in error.value.message


def test_two_that_delete_different_rows_of_one_file_both_commit(table: Table) -> None:
    table.write_files(ONE, numbered(*range(10)))
    at = table.commit(ONE)
    table.delete(TWO, 3, at=at)
    table.delete(THREE, 4, at=at)
    table.commit(TWO)
    assert table.ids(table.commit(THREE)) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_a_delete_and_an_overwrite_of_one_file_are_in_conflict_either_way(table: Table) -> None:
    """The new version of an updated row would outlive an overwrite that has not seen it."""
    table.write_files(ONE, numbered(1, 2))
    at = table.commit(ONE)
    table.delete(TWO, 1, at=at)
    table.write_files(THREE, numbered(9), overwrite=WHOLE_TABLE, read_at=at)
    four = TxnId(4)
    table.delete(four, 2, at=at)
    table.commit(TWO)
    with pytest.raises(Conflict, match=r"rows of air.log, which is overwritten, were changed by transaction 2"):
        table.prepare(THREE)
    five = TxnId(5)
    table.write_files(five, numbered(9), overwrite=WHOLE_TABLE, read_at=table.status.last)
    table.commit(five)
    with pytest.raises(Conflict, match=r"files of air.log with rows to be changed were overwritten by transaction 5"):
        table.prepare(four)


def test_a_transaction_deletes_from_its_own_files_and_may_overwrite_them_after(table: Table) -> None:
    table.write_files(ONE, numbered(1, 2, 3))
    table.delete(ONE, 2, at=0)
    assert table.ids(0, ONE) == [1, 3]
    assert table.ids(table.commit(ONE)) == [1, 3]
    at = table.status.last
    table.write_files(TWO, numbered(7, 8))
    table.delete(TWO, 1, 7, at=at)
    table.write_files(TWO, numbered(9), overwrite=WHOLE_TABLE, read_at=at)
    assert table.ids(at, TWO) == [9]
    assert table.ids(table.commit(TWO)) == [9]


def test_what_was_deleted_goes_with_the_last_of_its_files(table: Table) -> None:
    table.write_files(ONE, numbered(1, 2))
    table.commit(ONE)
    table.delete(TWO, 1)
    table.commit(TWO)
    (kept,) = table.table.deletes.all.values()
    assert table.table.used[TWO, kept.write_id] == 1
    table.write_files(THREE, numbered(9), overwrite=WHOLE_TABLE)
    at = table.commit(THREE)
    table.apply(cmd.Retire(TABLE_ID, at))
    assert not table.table.deletes.all
    assert kept.write_id in table.table.retired[TWO]
    assert table.ids(at) == [9]


def test_where_positions_are_told_no_more_any_row_of_the_files_may_be_meant(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletes, "KEPT_BYTES", 100)
    table.write_files(ONE, numbered(*range(10)))
    at = table.commit(ONE)
    table.delete(TWO, 3, at=at)
    table.delete(THREE, 4, at=at)
    table.commit(TWO)
    with pytest.raises(Conflict, match=r"rows of air.log/1_files\d+/, too many to compare, were changed"):
        table.prepare(THREE)
    table.delete(TxnId(4), 4)
    assert table.ids(table.commit(TxnId(4))) == [0, 1, 2, 5, 6, 7, 8, 9], "what it has seen is in nobody's way"


def test_beyond_the_room_for_them_positions_of_unfinished_transactions_are_not_kept(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.write_files(ONE, numbered(*range(10)))
    at = table.commit(ONE)
    table.delete(TWO, 3, at=at)
    monkeypatch.setattr(delete_checks, "MAX_PENDING_BYTES", 20)
    table.delete(THREE, 4, at=at)
    (write,) = table.table.txns[THREE].writes.values()
    assert write.deletes is not None
    assert [each.positions for each in write.deletes.files] == [b""]
    table.commit(TWO)
    with pytest.raises(Conflict, match="too many to compare"):
        table.prepare(THREE)


def test_the_doctor_knows_the_directories_of_deletes_and_what_must_be_in_them(table: Table, tmp_path: Path) -> None:
    table.write_files(ONE, numbered(1, 2, 3))
    table.commit(ONE)
    table.delete(TWO, 1)
    table.delete(THREE, 2)
    table.commit(THREE)
    place = tmp_path / "log"

    def findings() -> set[Kind]:
        known = {name: audit.from_wire(audit.to_wire(name, each)) for name, each in audit.directories(table.table)}
        (there,), _ = places([DoctorsTable(0, TABLE_ID, TABLE, place.as_uri())])
        looked = StorageAudit(lambda _: known, lambda _: "ABORTED")
        deep = {found.kind for _, _, found in looked.read(there) if isinstance(found, Finding)}
        return {each.kind for each in looked.look(there).findings} | deep

    assert findings() == set()
    pending, kept = sorted(place.glob("delta_[23]_*/_deletes.parquet"))
    whole = kept.read_bytes()
    kept.write_bytes(bytes([whole[0] ^ 1, *whole[1:]]))
    assert findings() == {Kind.DAMAGED_FILE}
    kept.write_bytes(whole[:-1])
    assert findings() == {Kind.DAMAGED_FILE, Kind.WRONG_SIZE}
    kept.unlink()
    assert findings() == {Kind.MISSING_FILE}
    kept.write_bytes(whole)
    pending.unlink()
    assert findings() == {Kind.MISSING_FILE}


# ---- what nobody may say


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("positions", b"no bitmap", "bytes are no bitmap"),
        ("positions", BitMap([1, 2]).serialize(), "bytes are no bitmap of so many"),
        ("positions", BitMap([1]).serialize() + b"x", "bytes are no bitmap"),
        ("row_count", 0, "the write's file of them has"),
        ("file", "", "is no file of air.log"),
        ("file", "../other/part.parquet", "is no file of air.log"),
        ("file", "x" * 1_001, "is no file of air.log"),
        ("file_set", "", "is no file set of air.log"),
        ("file_set", "1_files0001/month=1", "which has no partitions"),
        ("file_set", "x_files0001/", "is no file set of air.log"),
    ],
)
def test_deletes_that_there_cannot_be_are_refused(table: Table, field: str, value: object, said: str) -> None:
    table.write_files(ONE, numbered(1, 2))
    table.commit(ONE)
    request = table.delete_request(TWO, {2}, table.status.last)
    setattr(request.deletes.files[0], field, value)
    with pytest.raises(InvalidArgument, match=said):
        table.add(request)
    assert not table.table.txns[TWO].writes


def test_deletes_elsewhere_or_of_a_table_with_a_key_are_refused(table: Table, tmp_path: Path) -> None:
    table.write_files(ONE, numbered(1, 2))
    table.commit(ONE)
    request = table.delete_request(TWO, {2}, table.status.last)
    path = request.deletes.ref.path
    request.deletes.ref.path = "file:///elsewhere/_deletes.parquet"
    with pytest.raises(InvalidArgument, match="not in the write's own"):
        table.add(request)
    request.deletes.ref.path = path
    request.deletes.files.append(request.deletes.files[0])
    with pytest.raises(InvalidArgument, match="comes twice"):
        table.add(request)
    del request.deletes.files[:]
    with pytest.raises(InvalidArgument, match="0 deleted rows in 0 files"):
        table.add(request)
    keyed = Schema(SCHEMA.columns, primary_key=("id",))
    with Table(tmp_path / "keyed", keyed) as other:
        other.write_files(ONE, numbered(1, 2))
        other.commit(ONE)
        with pytest.raises(InvalidArgument, match="deleted rows of files, come with their keys"):
            other.delete(TWO, 1)
        request = other.delete_request(TWO, {1, 2}, other.status.last)
        request.claim.CopyFrom(pb.KeyClaim(snapshot=other.status.last, keys=[b"1", b"2"]))
        bare = pb.AddFilesRequest()
        bare.CopyFrom(request)
        bare.ClearField("deletes")
        with pytest.raises(InvalidArgument, match="there are none"):
            other.add(bare)
        other.add(request)
        assert other.ids(other.commit(TWO)) == []


def test_a_delete_of_files_that_never_were_is_refused_in_the_end(table: Table) -> None:
    table.write_files(ONE, numbered(1, 2))
    table.commit(ONE)
    request = table.delete_request(TWO, {2}, table.status.last)
    request.deletes.files[0].file_set = "77_neverwas1/"
    table.add(request)
    with pytest.raises(Conflict, match="were overwritten"):
        table.prepare(TWO)


def test_a_write_cannot_come_again_with_other_deletes(table: Table) -> None:
    table.write_files(ONE, numbered(1, 2))
    table.commit(ONE)
    request = table.delete_request(TWO, {2}, table.status.last)
    table.add(request)
    table.add(request)
    request.deletes.ref.crc32 += 1
    with pytest.raises(IllegalState, match="added already, with other files"):
        table.add(request)


# ---- inserts of what was not found


def looking(table: Table, txn_id: TxnId, at: int, *ranges: tuple[str, str, str], holds: tuple[str, str]) -> None:
    """A MERGE that found nothing in those ranges of columns, and adds rows with ids that are in `holds`."""
    request = table.files_request(txn_id, numbered(*map(int, holds)))
    named = [pb.ColumnRange(column=name, lowest=low.encode(), highest=high.encode()) for name, low, high in ranges]
    request.looked.CopyFrom(pb.Looked(snapshot=at, ranges=named))
    low, high = (each.encode() for each in holds)
    request.holds.append(pb.ColumnRange(column="id", lowest=low, highest=high))
    table.add(request)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(
    ("ranges", "conflicts"),
    [
        ([("id", "5", "9")], True),
        ([("id", "10", "12")], False),
        ([], True),
        ([("v", "a", "b")], True),
        ([("v", "a", "b"), ("id", "100", "200")], False),
    ],
)
def test_of_two_that_insert_what_was_not_there_the_first_wins(
    table: Table, prepared: bool, ranges: list[tuple[str, str, str]], conflicts: bool
) -> None:
    at = table.status.last
    looking(table, ONE, at, ("id", "5", "9"), holds=("5", "9"))
    looking(table, TWO, at, *ranges, holds=("300", "301"))
    table.prepare(ONE)
    if not prepared:
        table.decide(ONE)
        table.finalize(ONE)
        table.restart()
    if not conflicts:
        table.commit(TWO)
        return
    with pytest.raises(Conflict, match=r"may be those that are inserted, were added to air.log by transaction 1"):
        table.prepare(TWO)


def test_a_blind_append_of_which_nothing_is_known_is_in_the_way_and_stays_out_of_nobodys(table: Table) -> None:
    at = table.status.last
    table.write_files(ONE, numbered(1))
    looking(table, TWO, at, ("id", "5", "9"), holds=("5", "9"))
    table.commit(ONE)
    with pytest.raises(Conflict, match=r"were added to air\.log by transaction 1"):
        table.prepare(TWO)
    looking(table, THREE, table.status.last, ("id", "5", "9"), holds=("5", "9"))
    table.write_files(TxnId(4), numbered(1))
    table.commit(THREE)
    table.commit(TxnId(4))


def test_whoever_looked_before_what_is_kept_is_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnparticipant.versions.additions.KEPT_BYTES", 300)
    at = table.status.last
    looking(table, ONE, at, ("id", "5", "9"), holds=("5", "9"))
    for txn_id in map(TxnId, (2, 3)):
        table.write_files(txn_id, numbered(100))
        table.commit(txn_id)
    table.restart()
    with pytest.raises(Conflict, match="too many rows were added"):
        table.prepare(ONE)


# ---- any order of all that


@pytest.mark.parametrize("seed", range(12))
def test_deletes_are_snapshot_isolation_over_sets_of_ids(table: Table, seed: int) -> None:
    rng, versions, ids = Random(seed), [(Timestamp(0), frozenset[int]())], itertools.count(1)
    open_: dict[TxnId, tuple[Timestamp, set[int], set[int]]] = {}
    """Transaction → what it sees, what it added, and what it deleted of others."""
    gone_at: dict[int, Timestamp] = {}
    for number in range(1, 60):
        match rng.choice(["append", "delete", "delete", "commit", "commit", "abort", "restart", "read"]):
            case "append" | "delete" as act:
                txn_id = rng.choice([*open_, TxnId(number + 100)])
                at, added, dead = open_.setdefault(txn_id, (versions[-1][0], set(), set()))
                visible = sorted((set(dict(versions)[at]) | added) - dead)
                if act == "append" or not visible:
                    new = {next(ids) for _ in range(rng.randint(1, 6))}
                    table.write_files(txn_id, numbered(*new))
                    added |= new
                else:
                    chosen = set(rng.sample(visible, rng.randint(1, min(4, len(visible)))))
                    table.delete(txn_id, *chosen, at=at)
                    dead |= chosen - added
                    added -= chosen
                assert table.ids(at, txn_id) == sorted((set(dict(versions)[at]) | added) - dead)
            case "commit" if open_:
                txn_id = rng.choice([*open_])
                at, added, dead = open_.pop(txn_id)
                if any(gone_at.get(each, 0) > at for each in dead):
                    with pytest.raises(Conflict, match="were changed"):
                        table.prepare(txn_id)
                    table.abort(txn_id)
                    continue
                commit_ts = table.commit(txn_id)
                gone_at.update(dict.fromkeys(dead, commit_ts))
                versions.append((commit_ts, (versions[-1][1] | added) - dead))
            case "abort" if open_:
                txn_id, _ = open_.popitem()
                table.abort(txn_id)
            case "restart":
                table.restart()
            case "read":
                at, expected = rng.choice(versions)
                assert table.ids(at) == sorted(expected)
    for at, expected in versions:
        assert table.ids(at) == sorted(expected)
