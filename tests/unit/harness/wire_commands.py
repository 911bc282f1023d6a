"""One of each command with its bytes, and any number of any: for tests of codecs and of what reads logs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.schemas import NewSchema
from txnparticipant.versions.compactions import Kind, State
from txnparticipant.versions.mvcc import DeadRowsRef, Deletes, FileDeletes, HiddenRows, LineageRef, Manifest, Moved
from txnstatus.id_sets import below, of_spans
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
        "9b01a57265712d3102a3616461a76e696768746c79cd0bb80500009000",
    ),
    (
        status_cmd.BeginTxns("req-1", 2, "ada", "nightly", 3000, 5, TS, 100_000),
        "9b01a57265712d3102a3616461a76e696768746c79cd0bb805cf6124fee993bc0000ce000186a09000",
    ),
    (
        status_cmd.BeginTxns(
            "r", 1, "ada", "", 9, 5, participants=(Participant(ParticipantId("3.0"), "air.t", "abcdefgh"),)
        ),
        "9b01a17201a3616461a0090500009193a3332e30a56169722e74a8616263646566676800",
    ),
    (status_cmd.Forget(5), "920805"),
    (status_cmd.RaiseFloor(TS, fills=True), "9309cf6124fee993bc0000c3"),
    (
        status_cmd.RegisterParticipants(
            TxnId(7), "ada", (Participant(ParticipantId("3.0"), "air.t"), Participant(ParticipantId("3.1"), "air.u"))
        ),
        "940a07a36164619293a3332e30a56169722e74a093a3332e31a56169722e75a0",
    ),
    (status_cmd.BeginCommit(TxnId(7), "ada", 5), "960207a3616461050090"),
    (status_cmd.BeginCommit(TxnId(7), "ada", 5, Timestamp(9)), "960207a3616461050990"),
    (
        status_cmd.BeginCommit(TxnId(7), "ada", 5, Timestamp(9), (status_cmd.LastWrite(ParticipantId("3.0"), b"any"),)),
        "960207a361646105099192a3332e30c403616e79",
    ),
    (status_cmd.FinalizeCommit(TxnId(7), TS, 5, 1), "950307cf6124fee993bc00000501"),
    (status_cmd.CompleteCommit(TxnId(7), 5), "93040705"),
    (
        status_cmd.BeginAbort(TxnId(7), "ada", CAUSE, 5),
        (
            "950507a361646185a4636f6465a8636f6e666c696374a76d657373616765b17420776173206f7665727772697474656e"
            "a26279a56169722e74a677696e6e657200a76f626a6563747391a56169722e7405"
        ),
    ),
    (
        status_cmd.BeginAbort(TxnId(7), None, CAUSE, 5),
        (
            "950507c085a4636f6465a8636f6e666c696374a76d657373616765b17420776173206f7665727772697474656ea26279"
            "a56169722e74a677696e6e657200a76f626a6563747391a56169722e7405"
        ),
    ),
    (
        status_cmd.Expire(TxnId(7), AbortCause(AbortCode.EXPIRED, "silent", "tracker"), 5),
        "94070785a4636f6465a765787069726564a76d657373616765a673696c656e74a26279a7747261636b6572a677696e6e"
        "6572c0a76f626a656374739005",
    ),
    (status_cmd.FinalizeAbort(TxnId(7), 5), "93060705"),
]
SHARD_GOLDEN: list[tuple[shard_cmd.Command, str]] = [
    (
        shard_cmd.CreateTable("air.t", SCHEMA, "file:///w", "req-1"),
        (
            "9901a56169722e7485a7636f6c756d6e739289a46e616d65a26964a474797065a6626967696e74a86e756c6c61626c65c2a7"
            "636f6d6d656e74a0a56164646564c2a673746f726564a0a7776964656e6564c2a764656661756c74c0a7696e697469616cc0"
            "89a46e616d65a3646179a474797065a464617465a86e756c6c61626c65c3a7636f6d6d656e74a0a56164646564c2a673746f"
            "726564a0a7776964656e6564c2a764656661756c74c0a7696e697469616cc0ac706172746974696f6e5f627991a3646179ab"
            "7072696d6172795f6b657991a26964a77265746972656490a776657273696f6e00a966696c653a2f2f2f77a57265712d31b4"
            "66697273742d636f6d6d69747465722d77696e73009000"
        ),
    ),
    (shard_cmd.OpenWrite(TxnId(7), "3.0", "ada", "abcdefgh"), "970207a3332e30a3616461a86162636465666768c2c2"),
    (
        shard_cmd.AddFiles(TxnId(7), "3.0", "ada", "abcdefgh", PARTITIONED, ("day=1",), Timestamp(9), ("staged01",)),
        (
            "9f0307a3332e30a3616461a8616263646566676887a470617468b866696c653a2f2f2f772f5f6d616e69666573742e6a"
            "736f6ea56279746573ccc8a56372633332cedeadbeefaa66696c655f636f756e7403a9726f775f636f756e74cd03e8aa"
            "646174615f6279746573cdfa00aa706172746974696f6e7392a56461793d31a56461793d3291a56461793d310991a873"
            "74616765643031c0c0c090c2c2"
        ),
    ),
    (
        shard_cmd.AddFiles(TxnId(7), "3.0", "ada", "abcdefgh", MANIFEST),
        (
            "9f0307a3332e30a3616461a8616263646566676887a470617468b866696c653a2f2f2f772f5f6d616e69666573742e6a"
            "736f6ea56279746573ccc8a56372633332cedeadbeefaa66696c655f636f756e7403a9726f775f636f756e74cd03e8aa"
            "646174615f6279746573cdfa00aa706172746974696f6e7390900090c0c0c090c2c2"
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
            "990907a3332e30a36164619282a66f626a656374ab6169722e742f6461793d31a46d6f64650382a66f626a656374ab61"
            "69722e742f6461793d32a46d6f64650202cf6124fee993bc0000c2c2"
        ),
    ),
    (shard_cmd.BeginCommit(TxnId(7), "3.0", TS), "950407a3332e30cf6124fee993bc0000a0"),
    (shard_cmd.FinalizeCommit(TxnId(7), "3.0", TS), "940507a3332e30cf6124fee993bc0000"),
    (shard_cmd.AbortTxn(TxnId(7), "3.0"), "940607a3332e30a0"),
    (shard_cmd.Withdraw(TxnId(7), "3.0", "write0001"), "940b07a3332e30a9777269746530303031"),
    (
        shard_cmd.MarkCleaned(TxnId(7), "3.0", ("abcdefgh", "staged01")),
        "940707a3332e3092a86162636465666768a87374616765643031",
    ),
    (
        shard_cmd.CreateTable("air.t", SCHEMA, "file:///w", "req-1", created=TS, made=TS),
        (
            "9901a56169722e7485a7636f6c756d6e739289a46e616d65a26964a474797065a6626967696e74a86e756c6c61626c65c2a7"
            "636f6d6d656e74a0a56164646564c2a673746f726564a0a7776964656e6564c2a764656661756c74c0a7696e697469616cc0"
            "89a46e616d65a3646179a474797065a464617465a86e756c6c61626c65c3a7636f6d6d656e74a0a56164646564c2a673746f"
            "726564a0a7776964656e6564c2a764656661756c74c0a7696e697469616cc0ac706172746974696f6e5f627991a3646179ab"
            "7072696d6172795f6b657991a26964a77265746972656490a776657273696f6e00a966696c653a2f2f2f77a57265712d31b4"
            "66697273742d636f6d6d69747465722d77696e73cf6124fee993bc000090cf6124fee993bc0000"
        ),
    ),
    (shard_cmd.ForgetTxns(below(41)), "920881a6626f756e6473920029"),
    (shard_cmd.PlaceTable("air.t", 9), "931ba56169722e7409"),
    (shard_cmd.Retire("3.0", TS), "930aa3332e30cf6124fee993bc0000"),
    (
        shard_cmd.HoldSavepoint(
            shard_cmd.Savepoint("sp1", "before load", "ada", TS, ("air.t",), ("3.0",), Timestamp(1), Timestamp(2), True)
        ),
        (
            "921989ac73617665706f696e745f6964a3737031a46e616d65ab6265666f7265206c6f6164a56f776e6572a3616461a9"
            "74696d657374616d70cf6124fee993bc0000a67461626c657391a56169722e74a97461626c655f69647391a3332e30a7"
            "6372656174656401a76578706972657302a769735f686f6d65c3"
        ),
    ),
    (shard_cmd.DropSavepoint("sp1"), "921aa3737031"),
    (
        shard_cmd.SetSavepoint(TxnId(7), "3.0", "ada", "abcdefgh", ("ijklmnop",)),
        "981c07a3332e30a3616461a8616263646566676891a8696a6b6c6d6e6f70c2c2",
    ),
    (
        shard_cmd.RollbackTo(TxnId(7), "3.0", "ada", "abcdefgh", "ijklmnop", True, ("write001",), begins=True),
        "9a1d07a3332e30a3616461a86162636465666768a8696a6b6c6d6e6f70c391a87772697465303031c3c2",
    ),
    (shard_cmd.Adopt("3.0", "delta_7_abcdefgh"), "9312a3332e30b064656c74615f375f6162636465666768"),
    (
        shard_cmd.WriteRows(
            TxnId(7), "3.0", "ada", TS, 2, RowBatch("abcdefgh", True, b"arrow", (b"1", b"\xff"), b"answer")
        ),
        "990c07a3332e30a3616461cf6124fee993bc00000295a86162636465666768c3c4056172726f7792c40131c401ffc406"
        "616e73776572c2c2",
    ),
    (shard_cmd.OpenFlush("3.0", "rows0001"), "930da3332e30a8726f777330303031"),
    (
        shard_cmd.FlushRows("3.0", "rows0001", MANIFEST, (TxnId(7), TxnId(0))),
        "950ea3332e30a8726f77733030303187a470617468b866696c653a2f2f2f772f5f6d616e69666573742e6a736f6ea562"
        "79746573ccc8a56372633332cedeadbeefaa66696c655f636f756e7403a9726f775f636f756e74cd03e8aa646174615f"
        "6279746573cdfa00aa706172746974696f6e7390920700",
    ),
    (shard_cmd.DropFlush("3.0", "rows0001", gone=True), "940fa3332e30a8726f777330303031c3"),
    (shard_cmd.DropTable(TxnId(7), "3.0", "ada", below(7)), "951007a3332e30a361646181a6626f756e6473920007"),
    (
        shard_cmd.RenameTable("3.0", "air.u", TS, "req-3", below(7)),
        "961ea3332e30a56169722e75cf6124fee993bc0000a57265712d3381a6626f756e6473920007",
    ),
    (shard_cmd.ForgetTable("3.0"), "9211a3332e30"),
    (
        shard_cmd.AlterTable("3.0", (Property("compact_delta_num", "5"), Property("NO_AUTO_COMPACTION", ""))),
        "9418a3332e309282a46e616d65b1636f6d706163745f64656c74615f6e756da576616c7565a13582a46e616d65b24e4f"
        "5f4155544f5f434f4d50414354494f4ea576616c7565a0c0",
    ),
    (
        shard_cmd.AlterTable("3.0", (), NewSchema(SCHEMA, TS, 7, "req-2")),
        "9418a3332e309084a6736368656d6185a7636f6c756d6e739289a46e616d65a26964a474797065a6626967696e74a86e756c"
        "6c61626c65c2a7636f6d6d656e74a0a56164646564c2a673746f726564a0a7776964656e6564c2a764656661756c74c0a769"
        "6e697469616cc089a46e616d65a3646179a474797065a464617465a86e756c6c61626c65c3a7636f6d6d656e74a0a5616464"
        "6564c2a673746f726564a0a7776964656e6564c2a764656661756c74c0a7696e697469616cc0ac706172746974696f6e5f62"
        "7991a3646179ab7072696d6172795f6b657991a26964a77265746972656490a776657273696f6e00a26174cf6124fee993bc"
        "0000a776657273696f6e07aa726571756573745f6964a57265712d32",
    ),
    (
        shard_cmd.OpenWrite(TxnId(7), "3.0", "ada", "abcdefgh", begins=True),
        "970207a3332e30a3616461a86162636465666768c3c2",
    ),
    (
        shard_cmd.OpenWrite(TxnId(7), "3.0", "ada", "abcdefgh", begins=True, registers=True),
        "970207a3332e30a3616461a86162636465666768c3c3",
    ),
    (
        shard_cmd.AcquireLocks(
            TxnId(7), "3.0", "ada", (Lock("air.t", Mode.S),), Otherwise.REFUSED, Timestamp(9), begins=True
        ),
        "990907a3332e30a36164619182a66f626a656374a56169722e74a46d6f6465010009c3c2",
    ),
    (
        shard_cmd.WriteRows(TxnId(7), "3.0", "ada", TS, 0, RowBatch("abcdefgh", True, b"", (), b""), begins=True),
        "990c07a3332e30a3616461cf6124fee993bc00000095a86162636465666768c3c40090c400c3c2",
    ),
    (
        shard_cmd.AddFiles(TxnId(7), "3.0", "ada", "abcdefgh", MANIFEST, begins=True),
        (
            "9f0307a3332e30a3616461a8616263646566676887a470617468b866696c653a2f2f2f772f5f6d616e69666573742e6a"
            "736f6ea56279746573ccc8a56372633332cedeadbeefaa66696c655f636f756e7403a9726f775f636f756e74cd03e8aa"
            "646174615f6279746573cdfa00aa706172746974696f6e7390900090c0c0c090c3c2"
        ),
    ),
    (
        shard_cmd.BeginCommit(TxnId(7), "3.0", TS, "abcdefgh"),
        "950407a3332e30cf6124fee993bc0000a86162636465666768",
    ),
    (shard_cmd.AbortTxn(TxnId(7), "3.0", "abcdefgh"), "940607a3332e30a86162636465666768"),
]

SHARD_GOLDEN += [
    (
        shard_cmd.OpenCompaction("3.0", "minor0001", Kind.MINOR, "day=1", requested=True, at=TS, input_bytes=9),
        "9813a3332e30a96d696e6f723030303101a56461793d31c3cf6124fee993bc000009",
    ),
    (
        shard_cmd.ClaimCompaction("3.0", "minor0001", "w", "lease", TS, ("7_abcdefgh/day=1",)),
        ("9714a3332e30a96d696e6f7230303031a177a56c65617365cf6124fee993bc000091b0375f61626364656667682f6461793d31"),
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
            "9b15a3332e30a96d696e6f7230303031a56c6561736587a470617468b866696c653a2f2f2f772f5f6d616e6966657374"
            "2e6a736f6ea56279746573ccc8a56372633332cedeadbeefaa66696c655f636f756e7403a9726f775f636f756e74cd03"
            "e8aa646174615f6279746573cdfa00aa706172746974696f6e739083a470617468ba66696c653a2f2f2f772f5f6c696e"
            "656167652e70617271756574a5627974657309a56372633332cedeadbeefcf6124fee993bc000082ab64656c6574655f"
            "7365747391aa375f6162636465666768a372656685a470617468ac66696c653a2f2f2f772f5f64a5627974657309a563"
            "7263333201a9726f775f636f756e7402aa66696c655f636f756e74019183a674786e5f696407a877726974655f6964a8"
            "6162636465666768a56d6f76656483ad636f6d70616374696f6e5f6964a96d696e6f7230303031a764656c6574657383"
            "a372656685a470617468ac66696c653a2f2f2f772f5f64a5627974657309a5637263333201a9726f775f636f756e7402"
            "aa66696c655f636f756e7401a566696c65739184a466696c65a161a866696c655f736574ab375f61626364656667682f"
            "a9726f775f636f756e7402a9706f736974696f6e73c40178a8736e617073686f74cf6124fee993bc0000a87265706c61"
            "63657391a2782fcf6124fee993bc000082a372656685a470617468ac66696c653a2f2f2f772f5f64a5627974657309a5"
            "637263333201a9726f775f636f756e7402aa66696c655f636f756e7401a966696c655f7365747391ab375f6162636465"
            "6667682f"
        ),
    ),
    (
        shard_cmd.DropCompaction("3.0", "minor0001", State.FAILED, "why", TS),
        "9616a3332e30a96d696e6f723030303104a3776879cf6124fee993bc0000",
    ),
    (
        shard_cmd.TranslateWrites(TxnId(7), "3.0", (shard_cmd.MovedWrite(TxnId(7), "abcdefgh", Moved("minor0001")),)),
        "941707a3332e309183a674786e5f696407a877726974655f6964a86162636465666768a56d6f76656483ad636f6d7061"
        "6374696f6e5f6964a96d696e6f7230303031a764656c65746573c0a87265706c6163657390",
    ),
]

# ---- any

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
txn_ids = st.integers(-(2**63), 2**63 - 1).map(TxnId)
id_sets = st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), max_size=4).map(of_spans)
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
    st.builds(status_cmd.RaiseFloor, timestamps, st.booleans()),
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
    st.builds(shard_cmd.ForgetTxns, id_sets),
    st.builds(shard_cmd.PlaceTable, text, st.integers(0, 2**32 - 1)),
    st.builds(shard_cmd.DropTable, txn_ids, text, text, id_sets),
    st.builds(shard_cmd.ForgetTable, text),
    st.builds(shard_cmd.RenameTable, text, text, timestamps, text, id_sets),
    st.builds(
        shard_cmd.HoldSavepoint,
        st.builds(
            shard_cmd.Savepoint, text, text, text, timestamps, texts, texts, timestamps, timestamps, st.booleans()
        ),
    ),
    st.builds(shard_cmd.DropSavepoint, text),
    st.builds(shard_cmd.SetSavepoint, txn_ids, text, text, text, texts, st.booleans(), st.booleans()),
    st.builds(shard_cmd.RollbackTo, txn_ids, text, text, text, text, st.booleans(), texts, st.booleans()),
    st.builds(
        shard_cmd.AlterTable,
        text,
        st.lists(st.builds(Property, text, text), max_size=3).map(tuple),
        st.none() | st.builds(NewSchema, schemas, timestamps, st.integers(0, 2**40), text),
    ),
)
