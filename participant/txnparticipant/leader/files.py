"""File writes, as a shard's leader takes them: the directory that a write claims, and the files that it adds."""

from __future__ import annotations

from msgspec.structs import replace

from txnparticipant.leader.reads import Reads
from txnparticipant.leader.registering import Propose, Registering
from txnparticipant.leader.tables import TableService
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import delete_checks
from txnparticipant.shard.changes import ShardApplied, illegal
from txnparticipant.shard.key_claims import check_claim, within_memory
from txnparticipant.shard.partition_checks import check_partitions
from txnparticipant.shard.schemas import dropped_since
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.shard.transitions import Op
from txnstatus.errors import InvalidArgument, forgotten
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import check_write_id
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId
from txnstatus.wire import checked_txn_id


class FileService:
    def __init__(
        self,
        shard: ParticipantShard,
        tables: TableService,
        reads: Reads,
        registering: Registering,
        propose: Propose,
    ) -> None:
        self._shard, self._tables, self._reads = shard, tables, reads
        self._registering, self._propose = registering, propose

    async def open(self, request: pb.OpenWriteRequest) -> pb.OpenWriteResponse:
        txn_id, write_id = checked_txn_id(request.txn_id), check_write_id(request.write_id)
        table = await self._tables.settled(request.table, txn_id)

        async def write(begins: bool) -> ShardApplied:
            return await self._propose(cmd.OpenWrite(txn_id, table.table_id, request.owner, write_id, begins))

        await self._registering.write(table, txn_id, request.owner, write_id, write)
        return pb.OpenWriteResponse(table=table.info(), directory=table.directory(txn_id, write_id))

    async def add(self, request: pb.AddFilesRequest) -> pb.AddFilesResponse:
        """It may be the first that the table hears of the transaction, whose begin has claimed the directory then."""
        command = await self.command(request)
        table = self._shard.table_by_id(command.table_id)

        async def write(begins: bool) -> ShardApplied:
            return await self._propose(replace(command, begins=begins))

        await self._registering.write(table, command.txn_id, command.owner, command.write_id, write)
        return pb.AddFilesResponse()

    async def command(self, request: pb.AddFilesRequest) -> cmd.AddFiles:
        """What adds the files, as this leader judges the request. Raises what is wrong with it; what is retriable."""
        txn_id = checked_txn_id(request.txn_id)
        table = await self._tables.settled(request.table, txn_id)
        self._check(request, table)
        overwrites: tuple[str, ...] = ()
        base_ts = looked_at = NO_TIMESTAMP
        if request.mode == pb.OVERWRITE:
            overwrites = tuple(request.overwrites) or (WHOLE_TABLE,)
            read_at = Timestamp(request.read_timestamp) if request.HasField("read_timestamp") else None
            base_ts = await self._reads.base(read_at)
        claim = cmd.claim_from_wire(request.claim) if request.HasField("claim") else None
        if claim is not None:
            looked_at = await self._reads.base(claim.snapshot)
            claim = within_memory(claim, table, self._shard.tables())
        deletes = cmd.deletes_from_wire(request.deletes) if request.HasField("deletes") else None
        if deletes is not None:
            looked_at = max(looked_at, await self._reads.base(Timestamp(deletes.snapshot)))
            deletes = delete_checks.within_memory(deletes, self._shard.tables())
        looked = cmd.looked_from_wire(request.looked) if request.HasField("looked") else None
        if looked is not None:
            looked_at = max(looked_at, await self._reads.base(looked.snapshot))
        # A commit is acknowledged before its FINALIZE_COMMIT arrives: what was seen then must be known here.
        for decided, commit_ts in await self._reads.decided(table, max(base_ts, looked_at)):
            await self._propose(cmd.FinalizeCommit(decided, table.table_id, commit_ts))
        return cmd.AddFiles(
            txn_id,
            table.table_id,
            request.owner,
            request.write_id,
            cmd.manifest_from_wire(request.manifest),
            overwrites,
            base_ts,
            tuple(request.from_writes),
            claim,
            deletes,
            looked,
            tuple(map(cmd.column_range_from_wire, request.holds)),
        )

    def _check(self, request: pb.AddFilesRequest, table: TableState) -> None:
        """Raises what is wrong with the request whatever others do; Forgotten."""
        txn_id = TxnId(request.txn_id)
        directory = table.directory(txn_id, check_write_id(request.write_id))
        is_here = request.manifest.path.startswith(f"{directory}/")
        if self._shard.record(table.table_id, txn_id) is None:
            if txn_id in self._shard.forgotten:
                raise forgotten(txn_id)
            if not is_here:
                # The write was opened on another table, which had the name before: it lies there.
                raise illegal(table, txn_id, None, Op.WRITE)
        if not is_here or not request.manifest.bytes:
            # Once committed it would be in the way of every reader of the table.
            raise InvalidArgument(f"the manifest at {request.manifest.path!r} is not in the write's own {directory}")
        if request.HasField("schema_version"):
            dropped = table.schemas.dropped_since(request.schema_version, table.schema)
            if dropped and request.manifest.file_count:
                raise dropped_since(table.name, dropped)
        check_partitions(request, table)
        check_claim(request, table)
        delete_checks.check_deletes(request, table, directory)
        delete_checks.check_ranges(request, table)
