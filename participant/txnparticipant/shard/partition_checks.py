"""What a write may say of partitions."""

from __future__ import annotations

from txnparticipant.shard.table import TableState
from txnstatus import partitions
from txnstatus.errors import InvalidArgument
from txnstatus.limits import MAX_FROM_WRITES, check_count
from txnstatus.proto import table_pb2 as pb


def check_partitions(request: pb.AddFilesRequest, table: TableState) -> None:
    """Raises InvalidArgument: what is wrong here would be in the way of every reader, once committed."""
    columns, found = table.schema.partition_by, request.manifest.partitions
    for many in (found, request.overwrites):
        if len(many) > partitions.MAX_PARTITIONS:
            raise InvalidArgument(
                f"{len(many)} partitions in one write to {table.name}: {partitions.MAX_PARTITIONS} are possible",
                hint="split the write into several of the same transaction",
            )
    partitions.check_all(found, columns, table.name, whole=True)
    if columns and request.manifest.file_count and not found:
        raise InvalidArgument(f"{table.name} is partitioned by {', '.join(columns)}: the manifest names no partition")
    if request.mode != pb.OVERWRITE and (request.overwrites or request.HasField("read_timestamp")):
        raise InvalidArgument("an append overwrites nothing, and is based on nothing")
    partitions.check_all(request.overwrites, columns, table.name)
    overwrites = frozenset(request.overwrites)
    for partition in sorted(set(found) - overwrites) if overwrites else ():
        if not partitions.covers(overwrites, partition):
            raise InvalidArgument(
                f"partition {partition} of the files is in none of those of {table.name} that are overwritten: "
                f"{', '.join(request.overwrites[:10])}"
            )
    check_count(len(request.from_writes), "writes that files are from", MAX_FROM_WRITES)
