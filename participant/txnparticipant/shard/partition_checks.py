"""What a write may say of partitions."""

from __future__ import annotations

from txnparticipant.shard.table import TableState
from txnstatus import partitions
from txnstatus.errors import InvalidArgument
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
    for partition in found:
        partitions.check(partition, columns, table.name, whole=True)
    if columns and request.manifest.file_count and not found:
        raise InvalidArgument(f"{table.name} is partitioned by {', '.join(columns)}: the manifest names no partition")
    if request.mode != pb.OVERWRITE and (request.overwrites or request.HasField("read_timestamp")):
        raise InvalidArgument("an append overwrites nothing, and is based on nothing")
    for name in request.overwrites:
        partitions.check(name, columns, table.name)
    overwrites = frozenset(request.overwrites)
    for partition in found:
        if overwrites and not partitions.covers(overwrites, partition):
            raise InvalidArgument(
                f"partition {partition} of the files is in none of those of {table.name} that are overwritten: "
                f"{', '.join(request.overwrites[:10])}"
            )
