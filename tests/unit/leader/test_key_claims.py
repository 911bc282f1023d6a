"""Files of a table with a primary key: what they must say of their keys, who wins, and rows in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.harness.leader.rows import OWNER, TABLE_ID, Shard, table_of
from txnclient.write import keys as client_keys
from txnparticipant.rows import changed_keys
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import key_claims, records
from txnstatus import limits
from txnstatus.errors import AlreadyExists, Conflict, DataDamaged, IllegalState, InvalidArgument
from txnstatus.key_ranges import KeyRange
from txnstatus.lake import rows as row_format
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId

ONE, TWO, THREE = TxnId(1), TxnId(2), TxnId(3)


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as running:
        yield running


def numbered(*keys: int) -> dict[int, str]:
    return dict.fromkeys(keys, "new")


# ---- a key is unique in every snapshot: both of these left two rows


def test_files_with_a_key_that_a_row_has_are_refused(shard: Shard) -> None:
    shard.write(ONE, "insert", {5: "row"}, shard.status.last)
    shard.commit(ONE)
    with pytest.raises(AlreadyExists, match=r"1 of 2 rows: their keys are in air.log already.*: 5") as error:
        shard.write_files(TWO, numbered(5, 6))
    assert error.value.keys == ("5",)
    assert not shard.table.txns[TWO].writes, "nothing of the call is added"


def test_a_key_that_comes_twice_in_the_files_is_named(shard: Shard) -> None:
    rows = pa.table({"id": pa.array([5, 6, 5, 7, 7], pa.int64()), "v": ["a"] * 5})
    with pytest.raises(InvalidArgument, match=r"more than once in the rows for table air.log: 5, 7"):
        shard.write_files(ONE, rows)


@pytest.mark.parametrize("keys_are_new", [False, True])
def test_a_null_in_the_key_is_refused(shard: Shard, keys_are_new: bool) -> None:
    """With keys that were vouched for, rows without one were added, any number of them."""
    rows = pa.table({"id": pa.array([5, None], pa.int64()), "v": ["a"] * 2})
    with pytest.raises(InvalidArgument, match=r"'id' of table air.log is NOT NULL: row 1"):
        shard.write_files(ONE, rows, keys_are_new=keys_are_new)


@pytest.mark.parametrize("meet", [False, True])
def test_keys_of_very_many_writes_are_compared_together(
    shard: Shard, monkeypatch: pytest.MonkeyPatch, meet: bool
) -> None:
    """Each look at the keys of others takes its time on every replica."""
    monkeypatch.setattr(records, "MAX_LOOKS", 2)
    for number in range(5):
        shard.write_files(ONE, numbered(100 + number, 110 + number), keys_are_new=True)
    assert len(shard.table.txns[ONE].file_keys(shard.table.schema)) == 2
    shard.write_files(TWO, numbered(99, 118, 112 if meet else 119))
    shard.commit(TWO)
    if meet:
        with pytest.raises(Conflict, match=r"air\.log\(112\) was changed"):
            shard.commit(ONE)
    else:
        shard.commit(ONE)


def test_rows_of_two_handles_count_from_what_the_older_one_has_seen(shard: Shard) -> None:
    """One read, others changed what it had read, another handle wrote first: the change of the others was lost."""
    shard.write(ONE, "insert", {1: "before"}, shard.status.last)
    shard.commit(ONE)
    read_at = shard.status.last
    shard.write(TWO, "update", {1: "theirs"}, shard.status.last)
    shard.commit(TWO)
    shard.write(THREE, "insert", {9: "new"}, shard.status.last)
    shard.write(THREE, "update", {1: "from before"}, read_at)
    with pytest.raises(Conflict, match=r"air\.log\(1\) was changed"):
        shard.commit(THREE)


def test_keys_that_came_since_an_overwrite_read_the_table_are_a_conflict(shard: Shard) -> None:
    """It was told that its keys were there already, as if it had not replaced them: nobody runs that again."""
    shard.write_files(ONE, numbered(1, 2))
    read_at = shard.commit(ONE)
    shard.write_files(TWO, numbered(1, 2), overwrite=WHOLE_TABLE, read_at=read_at)
    shard.commit(TWO)
    with pytest.raises(Conflict, match=r"others have added keys to air\.log since it was read: 1, 2") as error:
        shard.write_files(THREE, numbered(1, 2), overwrite=WHOLE_TABLE, read_at=read_at)
    assert error.value.objects == ("air.log(1)", "air.log(2)")


def test_ten_keys_at_most_are_named(shard: Shard) -> None:
    shard.write_files(ONE, numbered(*range(100)))
    shard.commit(ONE)
    with pytest.raises(AlreadyExists, match=r"100 of 100 rows.*, \.\.\.") as error:
        shard.write_files(TWO, numbered(*range(100)))
    assert len(error.value.keys) == 10


KEYS_OF_A_KIND: dict[str, list[Any]] = {
    "boolean": [False, True],
    "tinyint": [-1, 1],
    "bigint": [-(2**63), 2**63 - 1],
    "decimal(20,4)": [Decimal("-1.5000"), Decimal("0.0001")],
    "string": ["a,b", "\\"],
    "binary": [b"\x00", b"\xff"],
    "date": [date(1, 1, 1), date(2024, 2, 29)],
    "timestamp": [datetime(1960, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1960, 1, 1), datetime(2024, 1, 1, 1, 2, 3, 4)],
}


@pytest.mark.parametrize("kind", KEYS_OF_A_KIND)
@pytest.mark.parametrize("is_whole", [True, False], ids=["the key", "the first of two"])
def test_keys_of_every_kind_are_found_in_files_and_in_claims(tmp_path: Path, kind: str, is_whole: bool) -> None:
    names = ("id",) if is_whole else ("id", "v")
    schema = Schema((Column("id", kind), Column("v", "string")), primary_key=names)
    target = row_format.rows_schema(schema, deletes=False)
    low, high = (pa.table([pa.array([each], target[0].type), ["x,y"]], schema=target) for each in KEYS_OF_A_KIND[kind])
    with Shard(tmp_path, schema) as shard:
        shard.write_files(ONE, low)
        other = shard.files_request(TWO, pa.concat_tables([low, high]), keys_are_new=True)
        beside = shard.files_request(THREE, high, keys_are_new=True)
        shard.commit(ONE)
        for request in (other, beside):
            shard.add(request)
        with pytest.raises(Conflict):
            shard.prepare(TWO)
        if kind in ("decimal(20,4)", "binary"):  # manifests have no ranges of these: they may be anywhere
            with pytest.raises(Conflict):
                shard.prepare(THREE)
            return
        shard.commit(THREE)
        with pytest.raises(AlreadyExists, match="1 of 1 rows"):
            shard.write_files(TxnId(4), low)


# ---- of two that add the same keys, the first to commit wins


@pytest.mark.parametrize("first", ["row", "file", "range"])
@pytest.mark.parametrize("second", ["row", "file", "range"])
@pytest.mark.parametrize("is_over", [True, False], ids=["committed", "prepared"])
def test_the_first_to_add_a_key_wins_by_whatever_it_is_added(
    shard: Shard, first: str, second: str, is_over: bool
) -> None:
    for txn_id, way in ((ONE, first), (TWO, second)):
        if way == "row":
            shard.write(txn_id, "insert", {5: "row"}, shard.status.last)
        else:
            shard.write_files(txn_id, numbered(5) if way == "file" else numbered(4, 6), keys_are_new=way == "range")
    (shard.commit if is_over else shard.prepare)(ONE)
    with pytest.raises(Conflict) as error:
        shard.prepare(TWO)
    cause = error.value.cause
    assert cause is not None
    assert cause.winner == ONE
    assert cause.objects == (("air.log(4 to 6)" if first == second == "range" else "air.log(5)"),)
    shard.restart()
    with pytest.raises(Conflict):
        shard.prepare(TWO)


@pytest.mark.parametrize("ways", [("row", "range"), ("range", "row"), ("range", "range"), ("file", "range")])
def test_keys_that_are_far_off_do_not_meet(shard: Shard, ways: tuple[str, str]) -> None:
    """As texts 10 is between 1 and 2: bounds that were compared as such would meet, and others would not."""
    for txn_id, way, keys in ((ONE, ways[0], (10,)), (TWO, ways[1], (1, 2))):
        if way == "row":
            shard.write(txn_id, "insert", numbered(*keys), shard.status.last)
        else:
            shard.write_files(txn_id, numbered(*keys), keys_are_new=way == "range")
    shard.commit(ONE)
    shard.commit(TWO)
    assert [key for key, _ in shard.read(shard.status.last)] == [1, 2, 10]


def test_what_was_committed_before_the_keys_were_looked_for_is_not_in_the_way(shard: Shard) -> None:
    shard.write_files(ONE, numbered(4, 6), keys_are_new=True)
    shard.commit(ONE)
    shard.write_files(TWO, numbered(5))
    shard.commit(TWO)
    assert [key for key, _ in shard.read(shard.status.last)] == [4, 5, 6]


@pytest.mark.parametrize(("tell", "meet"), [(True, False), (False, True)])
def test_ranges_in_other_partitions_meet_unless_keys_tell_these(tmp_path: Path, tell: bool, meet: bool) -> None:
    key = ("id", "v") if tell else ("id",)
    with Shard(tmp_path, Schema((Column("id", "bigint"), Column("v", "string")), ("v",), key)) as shard:
        shard.write_files(ONE, {1: "a", 9: "a"}, keys_are_new=True)
        shard.write_files(TWO, {1: "b", 9: "b"}, keys_are_new=True)
        shard.commit(ONE)
        if meet:
            with pytest.raises(Conflict, match=r"air.log\(1 to 9\)"):
                shard.prepare(TWO)
        else:
            shard.commit(TWO)


def test_an_acknowledged_commit_is_no_conflict_though_it_is_not_finalised_here(shard: Shard) -> None:
    shard.write_files(ONE, numbered(4, 6), keys_are_new=True)
    shard.prepare(ONE)
    shard.decide(ONE)
    shard.write_files(TWO, numbered(5))
    shard.commit(TWO)


# ---- claims


def bad_claims(request: pb.AddFilesRequest) -> Iterator[tuple[pb.KeyClaim | None, str]]:
    at = request.claim.snapshot
    yield None, "come with their keys, or the range of them"
    yield pb.KeyClaim(snapshot=at, keys=[b"1"]), "1 keys for 2 rows"
    yield pb.KeyClaim(snapshot=at, keys=[b"1", b"1"]), "1 keys for 2 rows"
    yield pb.KeyClaim(snapshot=at, keys=[b"1", b"2"], range={}), "claim their keys, or a range"
    yield pb.KeyClaim(snapshot=at, range={"partitions": ["v=1"]}), "claim their keys, or a range"
    yield pb.KeyClaim(snapshot=at, range={"lowest": b"x"}), "b'x' bounds no range"
    yield pb.KeyClaim(snapshot=at, range={"highest": b"1" * 2_000}), "bounds no range"
    yield pb.KeyClaim(snapshot=at, keys=[b"x" * limits.MAX_CLAIMED_BYTES, b"y"]), "bytes of keys"
    yield pb.KeyClaim(snapshot=at, keys=[b""] * (limits.MAX_CLAIMED_KEYS + 1)), "keys of files"
    yield pb.KeyClaim(snapshot=at + 1_000, keys=[b"1", b"2"]), "ahead of the last commit"


def test_a_claim_that_says_nothing_or_too_much_is_refused(shard: Shard) -> None:
    request = shard.files_request(ONE, numbered(1, 2))
    for claim, message in bad_claims(request):
        bad = pb.AddFilesRequest.FromString(request.SerializeToString())
        bad.ClearField("claim")
        if claim is not None:
            bad.claim.CopyFrom(claim)
        with pytest.raises(InvalidArgument, match=message):
            shard.add(bad)
        assert not shard.table.txns[ONE].writes
    shard.add(request)
    shard.add(request)
    assert len(shard.table.txns[ONE].writes) == 1, "the same, sent again"


def test_files_of_a_table_without_a_key_claim_nothing(tmp_path: Path) -> None:
    with Shard(tmp_path, Schema((Column("id", "bigint"), Column("v", "string")))) as shard:
        request = shard.files_request(ONE, numbered(1))
        request.claim.keys.append(b"1")
        with pytest.raises(InvalidArgument, match="has no primary key"):
            shard.add(request)


def test_keys_are_named_while_they_are_few(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(shard.files_request(ONE, numbered(1, 2)).claim.keys) == [b"1", b"2"]
    monkeypatch.setattr(client_keys, "MAX_CLAIMED_KEYS", 2)
    claim = shard.files_request(ONE, numbered(-5, 40, 7)).claim
    assert (list(claim.keys), claim.range) == ([], pb.KeyRange(lowest=b"-5", highest=b"40"))


@pytest.mark.parametrize("names", [("id",), ("v", "id")])
def test_of_too_many_keys_in_memory_the_range_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(key_claims, "MAX_PENDING_KEYS", 4)
    with Shard(tmp_path, Schema((Column("id", "bigint"), Column("v", "string")), primary_key=names)) as shard:
        shard.write_files(ONE, {1: "a,b", 10: "c"})
        shard.write_files(TWO, {2: "a,b", 20: "x", 3: "b"})
        one, two = (next(iter(shard.table.txns[txn_id].writes.values())).claim for txn_id in (ONE, TWO))
        assert one is not None
        assert two is not None
        assert (len(one.keys), one.range) == (2, None)
        assert (two.keys, two.range) == ((), KeyRange(b"2", b"20") if names == ("id",) else KeyRange(b"a,b", b"x"))
        shard.commit(ONE)
        with pytest.raises(Conflict):
            shard.prepare(TWO)


def test_what_a_long_write_must_be_compared_with_is_kept(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Spark job may write for longer than keys are kept; whoever has opened a write will want them."""
    monkeypatch.setattr(changed_keys, "KEPT_SPAN", 0)
    shard.begin(TWO)
    shard.apply(cmd.OpenWrite(TWO, TABLE_ID, OWNER, "longwrite"))
    request = shard.files_request(TWO, numbered(7), keys_are_new=True)
    for txn, key in ((ONE, 7), (THREE, 8), (TxnId(4), 9)):
        shard.write(txn, "insert", numbered(key), shard.status.last)
        shard.commit(txn)
    shard.restart()
    shard.add(request)
    with pytest.raises(Conflict, match=r"air.log\(7\) was changed by transaction 1"):
        shard.prepare(TWO)
    shard.abort(TWO)
    shard.write(TxnId(5), "insert", numbered(10), shard.status.last)
    shard.commit(TxnId(5))
    assert shard.table.rows.keys.above > 0, "nobody needs them any more"


def test_who_looked_before_what_is_kept_is_to_run_again(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "KEPT_BYTES", 0)
    shard.write_files(TWO, numbered(7), keys_are_new=True)
    shard.write(ONE, "insert", numbered(8), shard.status.last)
    shard.commit(ONE)
    with pytest.raises(Conflict, match="too many rows"):
        shard.prepare(TWO)


# ---- rows and files of one transaction


def test_a_transaction_sees_no_key_twice_though_others_deleted_it_meanwhile(shard: Shard) -> None:
    """It still sees the row that they have deleted, or overwritten, and would see its own beside it."""
    shard.write_files(TWO, {1: "old", 2: "old"})
    seen = shard.commit(TWO)
    shard.write(THREE, "delete", {1: ""}, seen)
    shard.commit(THREE)
    with pytest.raises(AlreadyExists, match=": 1"):
        shard.write_files(ONE, {1: "new"}, read_at=seen)
    shard.write_files(TxnId(4), {3: "other"}, overwrite=WHOLE_TABLE)
    shard.commit(TxnId(4))
    with pytest.raises(AlreadyExists, match=": 2"):
        shard.write_files(ONE, {2: "new"}, read_at=seen)
    shard.write_files(ONE, {1: "new", 2: "new"})


@pytest.mark.parametrize("finalised", [False, True])
@pytest.mark.parametrize("keys_are_new", [False, True])
@pytest.mark.parametrize("by_row", [False, True])
def test_a_key_that_others_add_after_it_was_written_is_not_read_twice(
    shard: Shard, finalised: bool, keys_are_new: bool, by_row: bool
) -> None:
    """A handle that takes its snapshot after that, as each does that joins by token, read two rows with the key."""
    shard.write_files(ONE, {5: "mine", 7: "mine"}, keys_are_new=keys_are_new)
    before = shard.status.last
    if by_row:
        shard.write(TWO, "insert", {5: "theirs"}, shard.status.last)
    else:
        shard.write_files(TWO, {5: "theirs"})
    shard.prepare(TWO)
    assert len(shard.read(shard.status.last, ONE)) == 2, "what is undecided is in nobody's way"
    shard.decide(TWO)
    if finalised:
        shard.finalize(TWO)
    with pytest.raises(Conflict, match=r"air\.log\(5\) was changed by transaction 2, which was first"):
        shard.read(shard.status.last, ONE)
    assert len(shard.read(before, ONE)) == 2, "those that took theirs before go on"
    with pytest.raises(Conflict):
        shard.prepare(ONE)


@pytest.mark.parametrize("keys_are_new", [False, True])
@pytest.mark.parametrize("how", ["row", "undecided row", "overwrite", "undecided overwrite"])
@pytest.mark.parametrize("by_row", [False, True])
def test_a_handle_that_reads_an_older_snapshot_sees_no_key_twice(
    shard: Shard, how: str, by_row: bool, keys_are_new: bool
) -> None:
    """It saw what others had deleted since, and beside it what another handle of the transaction had then added."""
    if by_row:
        shard.write(TWO, "insert", {1: "old", 2: "old"}, shard.status.last)
    else:
        shard.write_files(TWO, {1: "old", 2: "old"})
    before = shard.commit(TWO)
    if "row" in how:
        shard.write(THREE, "delete", {1: ""}, before)
    else:
        shard.write_files(THREE, {2: "other", 3: "other"}, overwrite=WHOLE_TABLE)
    shard.prepare(THREE)
    shard.decide(THREE)
    if "undecided" not in how:
        shard.finalize(THREE)
    shard.write_files(ONE, {1: "new", 9: "new"}, keys_are_new=keys_are_new)
    expected = [(1, "new"), (2, "old"), (9, "new")]
    for flushed in (False, True):
        if flushed and "undecided" not in how:
            shard.flush()
        assert shard.read(before, ONE) == expected
    shard.write(ONE, "update", {9: "row"}, shard.status.last)
    assert shard.read(before, ONE) == [(1, "new"), (2, "old"), (9, "row")]


def test_rows_come_after_files_in_one_commit(shard: Shard) -> None:
    shard.write_files(ONE, {1: "file", 2: "file", 3: "file"})
    answer = shard.write(ONE, "insert", {1: "row"}, shard.status.last)
    assert list(answer.refused) == [0], "its own file has it"
    shard.write(ONE, "update", {2: "row"}, shard.status.last)
    shard.write(ONE, "delete", {3: ""}, shard.status.last)
    shard.write_files(ONE, {4: "file"})
    expected = [(1, "file"), (2, "row"), (4, "file")]
    assert shard.read(shard.status.last, ONE) == expected
    at = shard.commit(ONE)
    for _ in range(2):
        assert shard.read(at) == expected
        shard.flush()
    assert shard.table.rows.flushes


def test_a_row_that_was_changed_before_is_not_hidden_in_a_file(shard: Shard) -> None:
    """Rows come after files: the file's row would be gone, or old."""
    shard.write_files(TWO, {7: "old"})
    shard.commit(TWO)
    shard.write(ONE, "delete", {7: ""}, shard.status.last)
    with pytest.raises(AlreadyExists, match=": 7"):
        shard.write_files(ONE, {7: "file"})
    with pytest.raises(IllegalState, match=r"written keys itself that the files may have, too: air.log\(7\)"):
        shard.write_files(ONE, {6: "file", 8: "file"}, keys_are_new=True)
    shard.write_files(ONE, {8: "file"})
    assert shard.read(shard.commit(ONE)) == [(8, "file")]


def test_handles_of_one_transaction_that_do_not_see_each_other_add_no_key_twice(shard: Shard) -> None:
    first, second = (shard.files_request(ONE, numbered(5, 6)) for _ in range(2))
    other = shard.files_request(ONE, numbered(7))
    shard.add(first)
    with pytest.raises(IllegalState, match=r"air.log\(5\), air.log\(6\)"):
        shard.add(second)
    shard.add(other)
    request = shard.files_request(ONE, numbered(9))
    shard.write(ONE, "upsert", {9: "row"}, shard.status.last)
    with pytest.raises(IllegalState, match=r"air.log\(9\)"):
        shard.add(request)


def test_rows_that_were_judged_before_files_came_are_judged_again(shard: Shard) -> None:
    shard.write_files(ONE, {5: "file"})
    command = cmd.WriteRows(ONE, TABLE_ID, OWNER, Timestamp(0), 0, cmd.RowBatch("write0001", False, b"", ()))
    with pytest.raises(Exception, match=r"wrote more to air.log meanwhile"):
        shard.apply(command)


def test_an_overwrite_drops_the_rows_before_it_and_keeps_their_answers(shard: Shard) -> None:
    shard.write(TWO, "insert", {8: "old"}, shard.status.last)
    shard.commit(TWO)
    request = shard.request(ONE, "insert", table_of({7: "row"}), shard.status.last)
    answer = shard.send(request)
    shard.write_files(ONE, {9: "file"}, overwrite=WHOLE_TABLE)
    assert shard.table.pending_row_bytes < 200
    assert shard.send(request) == answer, "asked again, it is not written again"
    shard.write(ONE, "insert", {8: "row"}, shard.status.last)
    expected = [(8, "row"), (9, "file")]
    assert shard.read(shard.status.last, ONE) == expected
    before = shard.status.last
    at = shard.commit(ONE)
    for _ in range(2):
        assert shard.read(at) == expected, "rows after the overwrite are seen at its timestamp"
        assert shard.read(before) == [(8, "old")]
        shard.flush()
        shard.restart()


def test_an_overwrite_leaves_what_came_after_its_base_and_looks_for_its_keys(shard: Shard) -> None:
    shard.write_files(TWO, {1: "old"})
    base = shard.commit(TWO)
    shard.write_files(THREE, {9: "late"})
    shard.commit(THREE)
    with pytest.raises(Conflict, match=": 9"):
        shard.write_files(ONE, {9: "new"}, overwrite=WHOLE_TABLE, read_at=base)
    shard.write_files(ONE, {1: "new"}, overwrite=WHOLE_TABLE, read_at=base)
    with pytest.raises(AlreadyExists, match=": 9"):
        shard.write_files(ONE, {9: "new"})
    assert shard.read(shard.commit(ONE)) == [(1, "new"), (9, "late")]


def test_a_partition_is_overwritten_with_keys_that_are_nowhere_else(tmp_path: Path) -> None:
    with Shard(tmp_path, Schema((Column("id", "bigint"), Column("v", "string")), ("v",), ("id",))) as shard:
        shard.write_files(ONE, {1: "a", 2: "b"})
        shard.commit(ONE)
        with pytest.raises(AlreadyExists, match=": 2"):
            shard.write_files(TWO, {2: "a"}, overwrite="v=a")
        shard.write_files(TWO, {1: "a", 3: "a"}, overwrite="v=a")
        assert shard.read(shard.commit(TWO)) == [(1, "a"), (2, "b"), (3, "a")]


def test_files_far_off_are_not_read(shard: Shard) -> None:
    """Ranges in manifests rule them out: the file may as well be gone."""
    shard.write_files(ONE, numbered(*range(100)))
    shard.commit(ONE)
    for path in Path(shard.table.location.removeprefix("file://")).rglob("*.parquet"):
        path.unlink()
    shard.write_files(TWO, numbered(100, 101))
    with pytest.raises(DataDamaged):
        shard.write_files(TWO, numbered(50, 102))
