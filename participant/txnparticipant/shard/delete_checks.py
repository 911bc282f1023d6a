"""What a write may say of rows that it deletes by position."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from pyroaring import BitMap

from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import Deletes, partition_of
from txnstatus import limits, partitions
from txnstatus.errors import InvalidArgument
from txnstatus.proto import table_pb2 as pb

MAX_PENDING_BYTES = 8 << 20
"""Bytes of positions of a shard's unfinished transactions: of more only the files are kept, which may meet more."""
_FILE_SET = re.compile(r"((0|[1-9][0-9]{0,18})_[A-Za-z0-9]{8,64}|(minor|base_major)[0-9a-f]{16})/.*")


def check_deletes(request: pb.AddFilesRequest, table: TableState, directory: str) -> None:
    """`directory`: the write's own. Raises InvalidArgument: what is wrong here would be in the way of every reader."""
    if not request.HasField("deletes"):
        return
    deletes, name = request.deletes, table.name
    if request.mode != pb.APPEND:
        raise InvalidArgument(f"an overwrite of {name} deletes no rows by their positions: what it replaces is gone")
    if not deletes.ref.path.startswith(f"{directory}/") or not deletes.ref.bytes:
        raise InvalidArgument(f"the deleted rows at {deletes.ref.path!r} are not in the write's own {directory}")
    limits.check_count(len(deletes.files), "files with deleted rows", limits.MAX_DELETED_FILES)
    size = sum(len(each.positions) for each in deletes.files)
    limits.check_count(size, "bytes of positions", limits.MAX_DELETED_BYTES)
    if len({each.file for each in deletes.files}) != len(deletes.files):
        raise InvalidArgument(f"a file of {name} comes twice among those with deleted rows")
    counts = len(deletes.files), sum(each.row_count for each in deletes.files)
    if (deletes.ref.file_count, deletes.ref.row_count) != counts or not deletes.files:
        raise InvalidArgument(
            f"{counts[1]} deleted rows in {counts[0]} files of {name}: the write's file of them has "
            f"{deletes.ref.row_count} in {deletes.ref.file_count}"
        )
    for each in deletes.files:
        _check_file(each, table)


def check_ranges(request: pb.AddFilesRequest, table: TableState) -> None:
    """Raises InvalidArgument for ranges of columns that there are not, or where keys say what has met."""
    kinds = {column.in_files for column in table.schema.columns}
    for ranges in (request.holds, request.looked.ranges):
        limits.check_count(len(ranges), "ranges of columns", limits.MAX_COLUMN_RANGES)
        for each in ranges:
            if each.column not in kinds or max(len(each.lowest), len(each.highest)) > limits.MAX_KEY_BOUND_BYTES:
                raise InvalidArgument(f"{each.column[:300]!r} of {table.name} has no such range of values")
        if len({each.column for each in ranges}) != len(ranges):
            raise InvalidArgument(f"a column of {table.name} comes with two ranges")
    if table.schema.primary_key and (request.holds or request.HasField("looked")):
        raise InvalidArgument(f"{table.name} has a primary key: its files claim keys, and no ranges of columns")


def within_memory(deletes: Deletes, tables: Iterable[TableState]) -> Deletes:
    """What is deleted, or no more than in which files, where too much of unfinished transactions is in memory."""
    pending = sum(
        len(each.positions)
        for table in tables
        for txn in table.unfinished.values()
        for write in txn.all_writes
        if write.deletes
        for each in write.deletes.files
    )
    if pending + sum(len(each.positions) for each in deletes.files) <= MAX_PENDING_BYTES:
        return deletes
    return replace(deletes, files=tuple(replace(each, positions=b"") for each in deletes.files))


def _check_file(deleted: pb.FileDeletes, table: TableState) -> None:
    file = deleted.file
    if not file or len(file.encode()) > limits.MAX_FILE_NAME_BYTES or file.startswith("/") or ".." in file.split("/"):
        raise InvalidArgument(f"{file[:300]!r} is no file of {table.name}")
    if not _FILE_SET.fullmatch(deleted.file_set):
        raise InvalidArgument(f"{deleted.file_set[:300]!r} is no file set of {table.name}")
    columns, partition = table.schema.partition_by, partition_of(deleted.file_set)
    if columns:
        partitions.check_all([partition], columns, table.name, whole=True)
    elif partition:
        raise InvalidArgument(f"{deleted.file_set[:300]!r} is no file set of {table.name}, which has no partitions")
    if not deleted.row_count or (deleted.positions and _count(deleted.positions) != deleted.row_count):
        raise InvalidArgument(
            f"{deleted.row_count} deleted rows of {file}: the {len(deleted.positions)} bytes are no bitmap of so many"
        )


def _count(positions: bytes) -> int:
    """How many a portable roaring bitmap has; -1: the bytes are none, or not as it would be written."""
    try:
        bitmap = BitMap.deserialize(positions)
    except (ValueError, IndexError):
        return -1
    return len(bitmap) if bitmap.serialize() == positions else -1
