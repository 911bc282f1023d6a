"""What a request for locks may say: checked by a manager before anything is locked, and by the participant."""

from __future__ import annotations

from txnstatus import partitions
from txnstatus.errors import InvalidArgument
from txnstatus.limits import MAX_LOCK_PARTITIONS, check_count
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Statement

_MODES = (pb.LOCK_S, pb.LOCK_SHARED_WRITE, pb.LOCK_X)


def check(request: pb.LockRequest, schema: Schema) -> None:
    """`schema`: the table's; a database has one without columns. Raises InvalidArgument."""
    if request.statement:
        if request.mode:
            raise InvalidArgument(
                f"lock mode {request.mode} and statement {request.statement!r}: one of them is possible"
            )
        if request.statement not in frozenset(Statement):
            raise InvalidArgument(f"no statement {request.statement[:100]!r}; there are {', '.join(Statement)}")
    elif request.mode not in _MODES:
        raise InvalidArgument(f"no lock mode {request.mode}; there are {', '.join(map(pb.LockMode.Name, _MODES))}")
    check_count(len(request.partitions), "partitions", MAX_LOCK_PARTITIONS)
    partitions.check_all(request.partitions, schema.partition_by, request.table)
    # What each is part of is locked, too.
    check_count(partitions.values(request.partitions), "values of partition columns", MAX_LOCK_PARTITIONS)
