"""A shard's commands: what one Raft entry may ask of it, as values, with their wire form."""

from __future__ import annotations

from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.versions.mvcc import Manifest
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.schema import Schema
from txnstatus.types import NO_TIMESTAMP, ConflictStrategy, Timestamp, TxnId
from txnstatus.values import value


@value
class CreateTable:
    name: str
    schema: Schema
    location: str
    request_id: str
    conflicts: str = ConflictStrategy.FIRST_COMMITTER_WINS
    created: Timestamp = NO_TIMESTAMP
    """The last commit before it."""


@value
class OpenWrite:
    """Claims the write's directory for the transaction, before anything is written there."""

    txn_id: TxnId
    table_id: str
    owner: str
    write_id: str
    begins: bool = False
    """It carries BEGIN_TXN: the transaction may have no record here yet."""


@value
class AddFiles:
    txn_id: TxnId
    table_id: str
    owner: str
    write_id: str
    manifest: Manifest
    overwrites: tuple[str, ...] = ()
    """Partitions, or WHOLE_TABLE: what a reader at `base_ts` sees there is replaced."""
    base_ts: Timestamp = NO_TIMESTAMP
    from_writes: tuple[str, ...] = ()


@value
class WriteRows:
    """Row changes as the leader judged them: at a snapshot, and after so many batches of the transaction itself."""

    txn_id: TxnId
    table_id: str
    owner: str
    snapshot: Timestamp
    position: int
    batch: RowBatch
    begins: bool = False


@value
class AcquireLocks:
    """Of the participant `table_id`, which is a table with its partitions, or a database."""

    txn_id: TxnId
    table_id: str
    owner: str
    locks: tuple[Lock, ...]
    otherwise: Otherwise
    since: Timestamp
    begins: bool = False


@value
class DropTable:
    """The transaction drops the table when it commits. Until it ends, nobody else prepares there."""

    txn_id: TxnId
    table_id: str
    owner: str


@value
class BeginCommit:
    txn_id: TxnId
    table_id: str
    prepare_ts: Timestamp


@value
class FinalizeCommit:
    txn_id: TxnId
    table_id: str
    commit_ts: Timestamp


@value
class AbortTxn:
    txn_id: TxnId
    table_id: str


@value
class Withdraw:
    """Takes back a first write whose table did not become a participant, with the record that it made."""

    txn_id: TxnId
    table_id: str
    write_id: str


@value
class MarkCleaned:
    """The directories of these writes are gone for good."""

    txn_id: TxnId
    table_id: str
    write_ids: tuple[str, ...]


@value
class Retire:
    """Drops what was removed from the table at or below the timestamp: nobody reads below it any more."""

    table_id: str
    up_to: Timestamp


@value
class Adopt:
    """A directory in the table's location that is nobody's is to be cleaned."""

    table_id: str
    directory: str
    """Its name."""


@value
class ForgetTable:
    """Of a dropped table nothing is left: no file, no transaction, no reader."""

    table_id: str


@value
class ForgetTxns:
    """Drops what ended below the id: the status table has forgotten it, so nobody will ask about it any more."""

    below_txn_id: TxnId


@value
class OpenFlush:
    """Claims a directory for a file of committed row changes, before anything is written there."""

    table_id: str
    flush_id: str


@value
class FlushRows:
    """The row changes of these transactions are in the file that the manifest lists."""

    table_id: str
    flush_id: str
    manifest: Manifest
    txn_ids: tuple[TxnId, ...]


@value
class DropFlush:
    """Gives a flush up; and, once its directory is gone for good, the claim too."""

    table_id: str
    flush_id: str
    gone: bool


FirstWrite = OpenWrite | WriteRows | AcquireLocks
"""Those that can be a transaction's first on a participant: the others need what one of these has left there."""
WriteCommand = FirstWrite | AddFiles | DropTable
TxnCommand = WriteCommand | BeginCommit | FinalizeCommit | AbortTxn
FlushCommand = OpenFlush | FlushRows | DropFlush
TableCommand = Withdraw | MarkCleaned | Retire | Adopt | ForgetTable | FlushCommand
Command = CreateTable | TxnCommand | ForgetTxns | TableCommand


def encode(command: Command) -> bytes:
    """Of every transaction's commands field by field, which takes a third of the time of messages made by keywords."""
    wire = pb.ShardCommand()
    match command:
        case CreateTable(name, schema, location, request_id, conflicts, created):
            create = pb.ShardCommand.CreateTable(
                name=name, schema=schema.to_wire(), location=location, request_id=request_id, created=created
            )
            if conflicts != ConflictStrategy.FIRST_COMMITTER_WINS:
                create.conflicts = conflicts
            wire.create_table.CopyFrom(create)
        case OpenWrite():
            opened = wire.open_write
            opened.txn_id, opened.table_id, opened.owner = command.txn_id, command.table_id, command.owner
            opened.write_id, opened.begins = command.write_id, command.begins
        case AddFiles():
            wire.add_files.CopyFrom(
                pb.ShardCommand.AddFiles(
                    txn_id=command.txn_id,
                    table_id=command.table_id,
                    owner=command.owner,
                    write_id=command.write_id,
                    manifest=manifest_to_wire(command.manifest),
                    overwrites=command.overwrites,
                    base_timestamp=command.base_ts,
                    from_writes=command.from_writes,
                )
            )
        case WriteRows() | OpenFlush() | FlushRows() | DropFlush():
            _encode_rows(command, wire)
        case AcquireLocks():
            wire.acquire_locks.CopyFrom(
                pb.ShardCommand.AcquireLocks(
                    txn_id=command.txn_id,
                    table_id=command.table_id,
                    owner=command.owner,
                    locks=map(lock_to_wire, command.locks),
                    otherwise=f"OTHERWISE_{command.otherwise.name}",
                    since=command.since,
                    begins=command.begins,
                )
            )
        case DropTable(txn_id, table_id, owner):
            wire.drop_table.CopyFrom(pb.ShardCommand.DropTable(txn_id=txn_id, table_id=table_id, owner=owner))
        case BeginCommit():
            begun = wire.begin_commit
            begun.txn_id, begun.table_id, begun.timestamp = command.txn_id, command.table_id, command.prepare_ts
        case FinalizeCommit():
            final = wire.finalize_commit
            final.txn_id, final.table_id, final.commit_timestamp = command.txn_id, command.table_id, command.commit_ts
        case AbortTxn():
            wire.abort_txn.txn_id, wire.abort_txn.table_id = command.txn_id, command.table_id
        case Withdraw(txn_id, table_id, write_id):
            wire.withdraw.CopyFrom(pb.ShardCommand.Withdraw(txn_id=txn_id, table_id=table_id, write_id=write_id))
        case MarkCleaned(txn_id, table_id, write_ids):
            wire.mark_cleaned.CopyFrom(
                pb.ShardCommand.MarkCleaned(txn_id=txn_id, table_id=table_id, write_ids=write_ids)
            )
        case Retire(table_id, up_to):
            wire.retire.CopyFrom(pb.ShardCommand.Retire(table_id=table_id, timestamp=up_to))
        case Adopt(table_id, directory):
            wire.adopt.CopyFrom(pb.ShardCommand.Adopt(table_id=table_id, directory=directory))
        case ForgetTable(table_id):
            wire.forget_table.CopyFrom(pb.ShardCommand.ForgetTable(table_id=table_id))
        case ForgetTxns(below_txn_id):
            wire.forget_txns.below_txn_id = below_txn_id
    return wire.SerializeToString()


def _encode_rows(command: WriteRows | FlushCommand, wire: pb.ShardCommand) -> None:
    match command:
        case WriteRows(txn_id, table_id, owner, snapshot, position, batch, begins):
            write = pb.ShardCommand.WriteRows(
                txn_id=txn_id,
                table_id=table_id,
                owner=owner,
                snapshot=snapshot,
                position=position,
                batch=batch.to_wire(),
                begins=begins,
            )
            wire.write_rows.CopyFrom(write)
        case OpenFlush(table_id, flush_id):
            wire.open_flush.CopyFrom(pb.ShardCommand.OpenFlush(table_id=table_id, flush_id=flush_id))
        case FlushRows(table_id, flush_id, manifest, txn_ids):
            flush = pb.ShardCommand.FlushRows(
                table_id=table_id, flush_id=flush_id, manifest=manifest_to_wire(manifest), txn_ids=txn_ids
            )
            wire.flush_rows.CopyFrom(flush)
        case DropFlush(table_id, flush_id, gone):
            wire.drop_flush.CopyFrom(pb.ShardCommand.DropFlush(table_id=table_id, flush_id=flush_id, gone=gone))


def decode(data: bytes) -> Command:
    """Raises ValueError on bytes that are no command of this version."""
    wire = pb.ShardCommand.FromString(data)
    match wire.WhichOneof("command"):
        case "create_table":
            c = wire.create_table
            conflicts, created = conflicts_from_wire(c.conflicts), Timestamp(c.created)
            return CreateTable(c.name, Schema.from_wire(c.schema), c.location, c.request_id, conflicts, created)
        case "begin_txn":
            b = wire.begin_txn
            return AcquireLocks(TxnId(b.txn_id), b.table_id, b.owner, (), Otherwise.REFUSED, NO_TIMESTAMP, begins=True)
        case "open_write":
            o = wire.open_write
            return OpenWrite(TxnId(o.txn_id), o.table_id, o.owner, o.write_id, o.begins)
        case "add_files":
            a = wire.add_files
            return AddFiles(
                TxnId(a.txn_id),
                a.table_id,
                a.owner,
                a.write_id,
                manifest_from_wire(a.manifest),
                tuple(a.overwrites),
                Timestamp(a.base_timestamp),
                tuple(a.from_writes),
            )
        case "write_rows":
            w = wire.write_rows
            batch = RowBatch.from_wire(w.batch)
            return WriteRows(TxnId(w.txn_id), w.table_id, w.owner, Timestamp(w.snapshot), w.position, batch, w.begins)
        case "open_flush":
            return OpenFlush(wire.open_flush.table_id, wire.open_flush.flush_id)
        case "flush_rows":
            r = wire.flush_rows
            return FlushRows(
                r.table_id, r.flush_id, manifest_from_wire(r.manifest), tuple(TxnId(each) for each in r.txn_ids)
            )
        case "drop_flush":
            return DropFlush(wire.drop_flush.table_id, wire.drop_flush.flush_id, wire.drop_flush.gone)
        case "acquire_locks":
            k = wire.acquire_locks
            locks = tuple(map(lock_from_wire, k.locks))
            otherwise, since = Otherwise(k.otherwise), Timestamp(k.since)
            return AcquireLocks(TxnId(k.txn_id), k.table_id, k.owner, locks, otherwise, since, k.begins)
        case "drop_table":
            d = wire.drop_table
            return DropTable(TxnId(d.txn_id), d.table_id, d.owner)
        case "begin_commit":
            p = wire.begin_commit
            return BeginCommit(TxnId(p.txn_id), p.table_id, Timestamp(p.timestamp))
        case "finalize_commit":
            f = wire.finalize_commit
            return FinalizeCommit(TxnId(f.txn_id), f.table_id, Timestamp(f.commit_timestamp))
        case "abort_txn":
            return AbortTxn(TxnId(wire.abort_txn.txn_id), wire.abort_txn.table_id)
        case "withdraw":
            return Withdraw(TxnId(wire.withdraw.txn_id), wire.withdraw.table_id, wire.withdraw.write_id)
        case "mark_cleaned":
            m = wire.mark_cleaned
            return MarkCleaned(TxnId(m.txn_id), m.table_id, tuple(m.write_ids))
        case "retire":
            return Retire(wire.retire.table_id, Timestamp(wire.retire.timestamp))
        case "adopt":
            return Adopt(wire.adopt.table_id, wire.adopt.directory)
        case "forget_table":
            return ForgetTable(wire.forget_table.table_id)
        case "forget_txns":
            return ForgetTxns(TxnId(wire.forget_txns.below_txn_id))
        case unknown:
            raise ValueError(f"no shard command of this version: {unknown!r} in {len(data)} bytes")


def conflicts_from_wire(name: str) -> str:
    """Which strategy: a replica keeps its name, and needs not have it."""
    return name or ConflictStrategy.FIRST_COMMITTER_WINS


def lock_to_wire(lock: Lock) -> pb.ObjectLock:
    return pb.ObjectLock(object=lock.object, mode=f"LOCK_{lock.mode.name}")


def lock_from_wire(wire: pb.ObjectLock) -> Lock:
    """Raises ValueError for a mode that is none."""
    return Lock(wire.object, Mode(wire.mode))


def manifest_to_wire(manifest: Manifest) -> table_pb.ManifestRef:
    return table_pb.ManifestRef(
        path=manifest.path,
        bytes=manifest.bytes,
        crc32=manifest.crc32,
        file_count=manifest.file_count,
        row_count=manifest.row_count,
        data_bytes=manifest.data_bytes,
        partitions=manifest.partitions,
    )


def manifest_from_wire(wire: table_pb.ManifestRef) -> Manifest:
    return Manifest(
        wire.path,
        wire.bytes,
        wire.crc32,
        wire.file_count,
        wire.row_count,
        wire.data_bytes,
        tuple(wire.partitions),
    )
