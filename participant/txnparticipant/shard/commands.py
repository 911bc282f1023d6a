"""A shard's commands: what one Raft entry may ask of it, as values, with their form in the log."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.msgpack import Encoder

from txnparticipant.locks.locks import Lock, Otherwise
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard.schemas import NewSchema
from txnparticipant.versions.compactions import Kind, State
from txnparticipant.versions.mvcc import (
    ColumnRange,
    DeadRowsRef,
    Deletes,
    HiddenRows,
    KeyClaim,
    LineageRef,
    Looked,
    Manifest,
    Moved,
)
from txnstatus.codec import Codec
from txnstatus.id_sets import IdSet
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.replicated import Stored, decoder
from txnstatus.schema import Schema
from txnstatus.table_properties import Property
from txnstatus.types import NO_TIMESTAMP, ConflictStrategy, Timestamp, TxnId
from txnstatus.values import value


class CreateTable(Stored, tag=1):
    name: str
    schema: Schema
    location: str
    request_id: str
    conflicts: str = ConflictStrategy.FIRST_COMMITTER_WINS
    created: Timestamp = NO_TIMESTAMP
    """The last commit before it."""
    properties: tuple[Property, ...] = ()
    made: Timestamp = NO_TIMESTAMP
    """The time of that, by the leader's clock."""


class PlaceTable(Stored, tag=27):
    """The table of this name, which this shard would keep by its hash, is kept by another one for good."""

    name: str
    shard: int


class OpenWrite(Stored, tag=2):
    """Claims the write's directory for the transaction, before anything is written there."""

    txn_id: TxnId
    table_id: str
    owner: str
    write_id: str
    begins: bool = False
    """Whether the command carries BEGIN_TXN: the transaction may have no record here yet."""
    registers: bool = False
    """Whether it makes the table a participant first: the transaction's record is in the same log."""


class AddFiles(Stored, tag=3):
    txn_id: TxnId
    table_id: str
    owner: str
    write_id: str
    manifest: Manifest
    overwrites: tuple[str, ...] = ()
    """Partitions, or WHOLE_TABLE: what a reader at `base_ts` sees there is replaced."""
    base_ts: Timestamp = NO_TIMESTAMP
    from_writes: tuple[str, ...] = ()
    claim: KeyClaim | None = None
    deletes: Deletes | None = None
    looked: Looked | None = None
    holds: tuple[ColumnRange, ...] = ()
    begins: bool = False
    registers: bool = False


class WriteRows(Stored, tag=12):
    """Row changes as the leader judged them: at a snapshot, and after so many writes of the transaction itself."""

    txn_id: TxnId
    table_id: str
    owner: str
    snapshot: Timestamp
    position: int
    batch: RowBatch
    begins: bool = False
    registers: bool = False


class AcquireLocks(Stored, tag=9):
    """Locks of parts of the participant `table_id`, which is a table with its partitions, or a database."""

    txn_id: TxnId
    table_id: str
    owner: str
    locks: tuple[Lock, ...]
    otherwise: Otherwise
    since: Timestamp
    begins: bool = False
    registers: bool = False


class SetSavepoint(Stored, tag=28):
    """What the transaction has written to the table by now can come back."""

    txn_id: TxnId
    table_id: str
    owner: str
    savepoint_id: str
    released: tuple[str, ...] = ()
    """Ids of savepoints to which nobody goes back."""
    begins: bool = False
    registers: bool = False


class RollbackTo(Stored, tag=29):
    """What the transaction has written to the table since one of its savepoints was set is gone."""

    txn_id: TxnId
    table_id: str
    owner: str
    savepoint_id: str
    rollback_id: str
    """The request's: the same one, sent again, changes nothing."""
    is_held: bool
    """Whether the savepoint was set here; else the table came after it, and nothing that is there stays."""
    void: tuple[str, ...] = ()
    """Writes and rollbacks that failed: they may still come, and then nothing becomes of them."""
    begins: bool = False
    registers: bool = False


class AlterTable(Stored, tag=24):
    """Properties that are not named stay as they are."""

    table_id: str
    properties: tuple[Property, ...]
    """What they are now; with an empty value the table has it no more."""
    columns: NewSchema | None = None
    """None: they stay."""


class RenameTable(Stored, tag=30):
    """The table has another name for readers from a timestamp on, and for whoever writes."""

    table_id: str
    name: str
    at: Timestamp
    request_id: str
    older: IdSet
    """Transactions that have begun by now."""


class DropTable(Stored, tag=16):
    """The transaction drops the table when it commits. Until it ends, nobody else prepares there."""

    txn_id: TxnId
    table_id: str
    owner: str
    older: IdSet
    """Transactions that began before it."""


class BeginCommit(Stored, tag=4):
    txn_id: TxnId
    table_id: str
    prepare_ts: Timestamp
    first_write: str = ""
    """The write whose directory was claimed for it when the transaction began."""


class FinalizeCommit(Stored, tag=5):
    txn_id: TxnId
    table_id: str
    commit_ts: Timestamp


class AbortTxn(Stored, tag=6):
    txn_id: TxnId
    table_id: str
    first_write: str = ""
    """The write that BeginCommit tells."""


class Withdraw(Stored, tag=11):
    """Takes back a first write whose table did not become a participant, with the record that it made."""

    txn_id: TxnId
    table_id: str
    write_id: str


class MarkCleaned(Stored, tag=7):
    """The directories of these writes are gone for good."""

    txn_id: TxnId
    table_id: str
    write_ids: tuple[str, ...]


class Retire(Stored, tag=10):
    """Drops what was removed from the table at or below the timestamp: nobody reads below it any more."""

    table_id: str
    up_to: Timestamp


class Adopt(Stored, tag=18):
    """A directory in the table's location that is nobody's is to be cleaned."""

    table_id: str
    directory: str
    """The directory's name."""


class ForgetTable(Stored, tag=17):
    """Nothing is left of a dropped table: no file, no transaction, no reader."""

    table_id: str


class ForgetTxns(Stored, tag=8):
    """Drops those that ended: the status table has forgotten them, so nobody will ask about them any more."""

    txns: IdSet


class OpenFlush(Stored, tag=13):
    """Claims a directory for a file of committed row changes, before anything is written there."""

    table_id: str
    flush_id: str


class FlushRows(Stored, tag=14):
    """The row changes of these transactions are in the file that the manifest lists."""

    table_id: str
    flush_id: str
    manifest: Manifest
    txn_ids: tuple[TxnId, ...]


class DropFlush(Stored, tag=15):
    """Gives a flush up; and, once its directory is gone for good, the claim too."""

    table_id: str
    flush_id: str
    gone: bool


class OpenCompaction(Stored, tag=19):
    """A partition is to be compacted: its compaction has a directory from now on."""

    table_id: str
    compaction_id: str
    kind: Kind
    partition: str
    requested: bool
    at: Timestamp
    input_bytes: int
    """Bytes that it will read, about."""


class ClaimCompaction(Stored, tag=20):
    """A worker has it, and reads these inputs."""

    table_id: str
    compaction_id: str
    worker: str
    lease_id: str
    as_of: Timestamp
    inputs: tuple[str, ...]


@value
class CarriedDeletes:
    """Rows of inputs that were deleted since the compaction has read them, by where they are in its output."""

    delete_sets: tuple[str, ...]
    """Ids of those that have them."""
    ref: DeadRowsRef | None = None
    """None: nothing of them is in the output."""


@value
class MovedWrite:
    txn_id: TxnId
    write_id: str
    moved: Moved


class CommitCompaction(Stored, tag=21):
    """Its output is what readers see from the timestamp of the switch on."""

    table_id: str
    compaction_id: str
    lease_id: str
    manifest: Manifest
    lineage: LineageRef
    switch_ts: Timestamp
    carried: CarriedDeletes
    moved: tuple[MovedWrite, ...]
    """Writes of transactions that were prepared when the command was proposed."""
    at: Timestamp
    hidden: HiddenRows | None = None


class DropCompaction(Stored, tag=22):
    """It is over, and nothing has come of it."""

    table_id: str
    compaction_id: str
    state: State
    reason: str
    at: Timestamp


class TranslateWrites(Stored, tag=23):
    """What an open transaction has to do with files that were compacted, said of what they have become."""

    txn_id: TxnId
    table_id: str
    moved: tuple[MovedWrite, ...]


@value
class Savepoint:
    """A timestamp at which tables stay readable."""

    savepoint_id: str
    name: str
    owner: str
    timestamp: Timestamp
    tables: tuple[str, ...]
    """Names, of tables of all shards; none: all tables that there are at the timestamp."""
    table_ids: tuple[str, ...]
    """Ids of those of them that are in this shard."""
    created: Timestamp
    expires: Timestamp
    """0: when it is released."""
    is_home: bool
    """Whether the name is kept here."""


class HoldSavepoint(Stored, tag=25):
    """What readers at the timestamp see of these tables is not retired."""

    savepoint: Savepoint


class DropSavepoint(Stored, tag=26):
    """It is released, has expired, or did not come about."""

    savepoint_id: str


FirstWrite = OpenWrite | AddFiles | WriteRows | AcquireLocks | SetSavepoint | RollbackTo
"""Commands that can be a transaction's first on a participant: the others need what one of these has left there."""
WriteCommand = FirstWrite | DropTable
TxnCommand = WriteCommand | BeginCommit | FinalizeCommit | AbortTxn
FlushCommand = OpenFlush | FlushRows | DropFlush
CompactionCommand = OpenCompaction | ClaimCompaction | CommitCompaction | DropCompaction
TableCommand = (
    Withdraw
    | MarkCleaned
    | Retire
    | Adopt
    | AlterTable
    | RenameTable
    | ForgetTable
    | TranslateWrites
    | FlushCommand
    | CompactionCommand
)
ShardCommand = CreateTable | PlaceTable | ForgetTxns | HoldSavepoint | DropSavepoint
Command = ShardCommand | TxnCommand | TableCommand

encode = Encoder().encode
decode: Callable[[bytes], Command] = decoder(Command)
"""What reads a command. Raises ValueError on bytes that are none of this version."""

_MANIFEST = Codec(Manifest, table_pb.ManifestRef)
_DEAD_ROWS = Codec(DeadRowsRef, table_pb.DeadRowsRef)
dead_rows_to_wire, dead_rows_from_wire = _DEAD_ROWS.to_wire, _DEAD_ROWS.from_wire
deletes_from_wire = Codec(Deletes, table_pb.Deletes).from_wire
looked_from_wire = Codec(Looked, table_pb.Looked).from_wire
column_range_from_wire = Codec(ColumnRange, table_pb.ColumnRange).from_wire
claim_from_wire = Codec(KeyClaim, table_pb.KeyClaim).from_wire
_LINEAGE = Codec(LineageRef, table_pb.LineageRef)
lineage_to_wire, lineage_from_wire = _LINEAGE.to_wire, _LINEAGE.from_wire
manifest_to_wire, manifest_from_wire = _MANIFEST.to_wire, _MANIFEST.from_wire
