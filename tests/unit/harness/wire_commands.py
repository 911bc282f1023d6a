"""One of each command with its bytes, and any number of any: for tests of codecs and of what reads logs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.versions.compactions import Kind, State
from txnparticipant.versions.mvcc import DeadRowsRef, Deletes, FileDeletes, HiddenRows, LineageRef, Manifest, Moved
from txnstatus.schema import Column, Schema
from txnstatus.status import commands as status_cmd
from txnstatus.table_properties import Property
from txnstatus.types import AbortCause, AbortCode, Participant, ParticipantId, Timestamp, TxnId

CAUSE = AbortCause(AbortCode.CONFLICT, "t was overwritten", "air.t", TxnId(0), ("air.t",))
MANIFEST = Manifest("file:///w/_manifest.json", 200, 0xDEADBEEF, 3, 1000, 64000)
LINEAGE = LineageRef("file:///w/_lineage.parquet", 9, 0xDEADBEEF)
PARTITIONED = replace(MANIFEST, partitions=("day=1", "day=2"))
SCHEMA = Schema((Column("id", "bigint", nullable=False), Column("day", "date")), ("day",), ("id",))
TS = Timestamp(7_000_000_000_000_000_000)
DELETES = Deletes(DeadRowsRef("file:///w/_d", 9, 1, 2, 1), (FileDeletes("a", "7_abcdefgh/", 2, b"x"),), TS)

# One of each, with every field set, and its bytes. They are in logs on disk: a change here needs a way to read the old.
STATUS_GOLDEN: list[tuple[status_cmd.Command, str]] = [
    (
        status_cmd.BeginTxns("req-1", 2, "ada", "nightly", 3000, 5),
        "0a1c0a057265712d3110021a0361646122076e696768746c7928b8173005",
    ),
    (
        status_cmd.BeginTxns("req-1", 2, "ada", "nightly", 3000, 5, TS, 100_000),
        "0a290a057265712d3110021a0361646122076e696768746c7928b8173005390000bc93e9fe246140a08d06",
    ),
    (
        status_cmd.BeginTxns(
            "r", 1, "ada", "", 9, 5, participants=(Participant(ParticipantId("3.0"), "air.t", "abcdefgh"),)
        ),
        "0a260a017210011a03616461280930054a160a03332e3012056169722e741a086162636465666768",
    ),
    (status_cmd.Forget(5), "42020805"),
    (status_cmd.RaiseFloor(TS), "4a09090000bc93e9fe2461"),
    (
        status_cmd.RegisterParticipants(
            TxnId(7), "ada", (Participant(ParticipantId("3.0"), "air.t"), Participant(ParticipantId("3.1"), "air.u"))
        ),
        "5223080712036164611a0c0a03332e3012056169722e741a0c0a03332e3112056169722e75",
    ),
    (status_cmd.BeginCommit(TxnId(7), "ada", 5), "1209080712036164611805"),
    (status_cmd.BeginCommit(TxnId(7), "ada", 5, Timestamp(9)), "1212080712036164611805210900000000000000"),
    (
        status_cmd.BeginCommit(TxnId(7), "ada", 5, Timestamp(9), (status_cmd.LastWrite(ParticipantId("3.0"), b"any"),)),
        "121e0807120361646118052109000000000000002a0a0a03332e301203616e79",
    ),
    (status_cmd.FinalizeCommit(TxnId(7), TS, 5, 1), "1a0f0807110000bc93e9fe246118052001"),
    (status_cmd.CompleteCommit(TxnId(7), 5), "220408071005"),
    (
        status_cmd.BeginAbort(TxnId(7), "ada", CAUSE, 5),
        (
            "2a38080712036164611a2d0a08636f6e666c69637412117420776173206f7665727772697474656e1a056169722e7420"
            "002a056169722e742005"
        ),
    ),
    (
        status_cmd.BeginAbort(TxnId(7), None, CAUSE, 5),
        ("2a3308071a2d0a08636f6e666c69637412117420776173206f7665727772697474656e1a056169722e7420002a056169722e742005"),
    ),
    (
        status_cmd.Expire(TxnId(7), AbortCause(AbortCode.EXPIRED, "silent", "tracker"), 5),
        "3a200807121a0a0765787069726564120673696c656e741a07747261636b65721805",
    ),
    (status_cmd.FinalizeAbort(TxnId(7), 5), "320408071005"),
]
SHARD_GOLDEN: list[tuple[shard_cmd.Command, str]] = [
    (
        shard_cmd.CreateTable("air.t", SCHEMA, "file:///w", "req-1"),
        (
            "0a570a056169722e7412260a0c0a0269641206626967696e740a0d0a03646179120464617465180112036461791a0269"
            "641a0966696c653a2f2f2f7722057265712d312a1466697273742d636f6d6d69747465722d77696e73"
        ),
    ),
    (shard_cmd.OpenWrite(TxnId(7), "3.0", "ada", "abcdefgh"), "121608071203332e301a0361646122086162636465666768"),
    (
        shard_cmd.AddFiles(TxnId(7), "3.0", "ada", "abcdefgh", PARTITIONED, ("day=1",), Timestamp(9), ("staged01",)),
        (
            "1a6b08071203332e301a03616461220861626364656667682a390a1866696c653a2f2f2f772f5f6d616e69666573742e"
            "6a736f6e10c8011defbeadde200328e8073080f4033a056461793d313a056461793d32320873746167656430313a0564"
            "61793d31410900000000000000"
        ),
    ),
    (
        shard_cmd.AddFiles(TxnId(7), "3.0", "ada", "abcdefgh", MANIFEST),
        (
            "1a4308071203332e301a03616461220861626364656667682a2b0a1866696c653a2f2f2f772f5f6d616e69666573742e"
            "6a736f6e10c8011defbeadde200328e8073080f403"
        ),
    ),
    (
        shard_cmd.AcquireLocks(
            TxnId(7),
            "3.0",
            "ada",
            (Lock("air.t/day=1", Mode.X), Lock("air.t/day=2", Mode.SHARED_WRITE)),
            Otherwise.WAITS_IN_CIRCLES,
            TS,
        ),
        (
            "4a3908071203332e301a03616461220f0a0b6169722e742f6461793d311003220f0a0b6169722e742f6461793d321002"
            "2802310000bc93e9fe2461"
        ),
    ),
    (shard_cmd.BeginCommit(TxnId(7), "3.0", TS), "221008071203332e30190000bc93e9fe2461"),
    (shard_cmd.FinalizeCommit(TxnId(7), "3.0", TS), "2a1008071203332e30190000bc93e9fe2461"),
    (shard_cmd.AbortTxn(TxnId(7), "3.0"), "320708071203332e30"),
    (shard_cmd.Withdraw(TxnId(7), "3.0", "write0001"), "5a1208071203332e301a09777269746530303031"),
    (
        shard_cmd.MarkCleaned(TxnId(7), "3.0", ("abcdefgh", "staged01")),
        "3a1b0a03332e3010071a0861626364656667681a087374616765643031",
    ),
    (
        shard_cmd.CreateTable("air.t", SCHEMA, "file:///w", "req-1", created=TS),
        (
            "0a600a056169722e7412260a0c0a0269641206626967696e740a0d0a03646179120464617465180112036461791a0269"
            "641a0966696c653a2f2f2f7722057265712d312a1466697273742d636f6d6d69747465722d77696e73310000bc93e9fe2461"
        ),
    ),
    (shard_cmd.ForgetTxns(TxnId(41)), "42020829"),
    (shard_cmd.Retire("3.0", TS), "520e0a03332e30110000bc93e9fe2461"),
    (shard_cmd.Adopt("3.0", "delta_7_abcdefgh"), "9201170a03332e30121064656c74615f375f6162636465666768"),
    (
        shard_cmd.WriteRows(
            TxnId(7), "3.0", "ada", TS, 2, RowBatch("abcdefgh", True, b"arrow", (b"1", b"\xff"), b"answer")
        ),
        "623a08071203332e301a03616461210000bc93e9fe2461280232210a08616263646566676810011a056172726f772201312201ff2a06616e73776572",
    ),
    (shard_cmd.OpenFlush("3.0", "rows0001"), "6a0f0a03332e301208726f777330303031"),
    (
        shard_cmd.FlushRows("3.0", "rows0001", MANIFEST, (TxnId(7), TxnId(0))),
        "72400a03332e301208726f7773303030311a2b0a1866696c653a2f2f2f772f5f6d616e69666573742e6a736f6e10c8011defbeadde200328e8073080f40322020700",
    ),
    (shard_cmd.DropFlush("3.0", "rows0001", gone=True), "7a110a03332e301208726f7773303030311801"),
    (shard_cmd.DropTable(TxnId(7), "3.0", "ada"), "82010c08071203332e301a03616461"),
    (shard_cmd.ForgetTable("3.0"), "8a01050a03332e30"),
    (
        shard_cmd.AlterTable("3.0", (Property("compact_delta_num", "5"), Property("NO_AUTO_COMPACTION", ""))),
        "c201330a03332e3012160a11636f6d706163745f64656c74615f6e756d12013512140a124e4f5f4155544f5f434f4d50414354494f4e",
    ),
    (
        shard_cmd.OpenWrite(TxnId(7), "3.0", "ada", "abcdefgh", begins=True),
        "121808071203332e301a03616461220861626364656667682801",
    ),
    (
        shard_cmd.OpenWrite(TxnId(7), "3.0", "ada", "abcdefgh", begins=True, registers=True),
        "121a08071203332e301a036164612208616263646566676828013001",
    ),
    (
        shard_cmd.AcquireLocks(
            TxnId(7), "3.0", "ada", (Lock("air.t", Mode.S),), Otherwise.REFUSED, Timestamp(9), begins=True
        ),
        "4a2208071203332e301a0361646122090a056169722e7410013109000000000000003801",
    ),
    (
        shard_cmd.WriteRows(TxnId(7), "3.0", "ada", TS, 0, RowBatch("abcdefgh", True, b"", (), b""), begins=True),
        "622508071203332e301a03616461210000bc93e9fe2461320c0a08616263646566676810013801",
    ),
    (
        shard_cmd.AddFiles(TxnId(7), "3.0", "ada", "abcdefgh", MANIFEST, begins=True),
        (
            "1a4508071203332e301a03616461220861626364656667682a2b0a1866696c653a2f2f2f772f5f6d616e69666573742e"
            "6a736f6e10c8011defbeadde200328e8073080f4036801"
        ),
    ),
    (
        shard_cmd.BeginCommit(TxnId(7), "3.0", TS, "abcdefgh"),
        "221a08071203332e30190000bc93e9fe246122086162636465666768",
    ),
    (shard_cmd.AbortTxn(TxnId(7), "3.0", "abcdefgh"), "321108071203332e301a086162636465666768"),
]

SHARD_GOLDEN += [
    (
        shard_cmd.OpenCompaction("3.0", "minor0001", Kind.MINOR, "day=1", requested=True, at=TS, input_bytes=9),
        "9a01260a03332e3012096d696e6f7230303031180122056461793d312801310000bc93e9fe24613809",
    ),
    (
        shard_cmd.ClaimCompaction("3.0", "minor0001", "w", "lease", TS, ("7_abcdefgh/day=1",)),
        (
            "a201350a03332e3012096d696e6f72303030311a017722056c65617365290000bc93e9fe2461"
            "3210375f61626364656667682f6461793d31"
        ),
    ),
    (
        shard_cmd.CommitCompaction(
            "3.0",
            "minor0001",
            "lease",
            MANIFEST,
            LINEAGE,
            TS,
            shard_cmd.CarriedDeletes(("7_abcdefgh",), DELETES.ref),
            (shard_cmd.MovedWrite(TxnId(7), "abcdefgh", Moved("minor0001", DELETES, ("x/",))),),
            TS,
            HiddenRows(DELETES.ref, ("7_abcdefgh/",)),
        ),
        (
            "aa01aa020a03332e3012096d696e6f72303030311a056c65617365222b0a1866696c653a2f2f2f772f5f6d616e696665"
            "73742e6a736f6e10c8011defbeadde200328e8073080f4032a230a1a66696c653a2f2f2f772f5f6c696e656167652e70"
            "61727175657410091defbeadde310000bc93e9fe24613a270a0a375f616263646566676812190a0c66696c653a2f2f2f"
            "772f5f6410091d0100000020022801425a0807120861626364656667681a4c0a096d696e6f7230303031123b0a190a0c"
            "66696c653a2f2f2f772f5f6410091d010000002002280112150a0161120b375f61626364656667682f18022201781900"
            "00bc93e9fe24611a02782f490000bc93e9fe246152280a190a0c66696c653a2f2f2f772f5f6410091d01000000200228"
            "01120b375f61626364656667682f"
        ),
    ),
    (
        shard_cmd.DropCompaction("3.0", "minor0001", State.FAILED, "why", TS),
        "b201200a03332e3012096d696e6f723030303118042203776879290000bc93e9fe2461",
    ),
    (
        shard_cmd.TranslateWrites(TxnId(7), "3.0", (shard_cmd.MovedWrite(TxnId(7), "abcdefgh", Moved("minor0001")),)),
        "ba012208071203332e301a190807120861626364656667681a0b0a096d696e6f7230303031",
    ),
]

# ---- any

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
txn_ids = st.integers(-(2**63), 2**63 - 1).map(TxnId)
micros = st.integers(-(2**63), 2**63 - 1)
uint32 = st.integers(0, 2**32 - 1)
uint64 = st.integers(0, 2**64 - 1)
timestamps = uint64.map(Timestamp)
causes = st.builds(
    AbortCause, st.sampled_from(AbortCode), text, text, st.none() | txn_ids, st.lists(text, max_size=3).map(tuple)
)
participants = st.lists(st.builds(Participant, text.map(ParticipantId), text, text)).map(tuple)
status_commands = st.one_of(
    st.builds(status_cmd.BeginTxns, text, uint32, text, text, uint32, micros, timestamps, uint32, participants),
    st.builds(status_cmd.RegisterParticipants, txn_ids, text, participants),
    st.builds(
        status_cmd.BeginCommit,
        txn_ids,
        text,
        micros,
        timestamps,
        st.lists(st.builds(status_cmd.LastWrite, text.map(ParticipantId), st.binary(max_size=20))).map(tuple),
    ),
    st.builds(status_cmd.FinalizeCommit, txn_ids, timestamps, micros, st.integers(0, 2**31 - 1)),
    st.builds(status_cmd.CompleteCommit, txn_ids, micros),
    st.builds(status_cmd.BeginAbort, txn_ids, st.none() | text, causes, micros),
    st.builds(status_cmd.Expire, txn_ids, causes, micros),
    st.builds(status_cmd.FinalizeAbort, txn_ids, micros),
    st.builds(status_cmd.Forget, micros),
    st.builds(status_cmd.RaiseFloor, timestamps),
)
manifests = st.builds(Manifest, text, uint64, uint32, uint32, uint64, uint64)
texts = st.lists(text, max_size=3).map(tuple)
schemas = st.lists(
    st.builds(
        Column,
        st.from_regex("[a-z][a-z0-9]{0,5}", fullmatch=True),
        st.sampled_from(["int", "map<int,date>"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column.name,
).map(lambda columns: Schema(tuple(columns), (), (columns[0].name,)))
objects = st.sampled_from(["a.b", "a.b/m=1", "a.b/m=1/n=2", "a.b/m=2", "a.b//"]) | text
locks = st.lists(st.builds(Lock, objects, st.sampled_from(Mode)), max_size=3).map(tuple)
shard_commands = st.one_of(
    st.builds(shard_cmd.CreateTable, text, schemas, text, text),
    st.builds(shard_cmd.OpenWrite, txn_ids, text, text, text, st.booleans(), st.booleans()),
    st.builds(shard_cmd.AddFiles, txn_ids, text, text, text, manifests, texts, timestamps, texts),
    st.builds(
        shard_cmd.AcquireLocks, txn_ids, text, text, locks, st.sampled_from(Otherwise), timestamps, st.booleans()
    ),
    st.builds(shard_cmd.BeginCommit, txn_ids, text, timestamps, text),
    st.builds(shard_cmd.FinalizeCommit, txn_ids, text, timestamps),
    st.builds(shard_cmd.AbortTxn, txn_ids, text, text),
    st.builds(shard_cmd.Withdraw, txn_ids, text, text),
    st.builds(shard_cmd.MarkCleaned, txn_ids, text, texts),
    st.builds(shard_cmd.ForgetTxns, txn_ids),
    st.builds(shard_cmd.DropTable, txn_ids, text, text),
    st.builds(shard_cmd.ForgetTable, text),
    st.builds(shard_cmd.AlterTable, text, st.lists(st.builds(Property, text, text), max_size=3).map(tuple)),
)
