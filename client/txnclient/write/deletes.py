"""What a write says of the rows that it deletes by their positions in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from txnclient.read.table_files import TableFiles
from txnstatus.errors import InvalidArgument
from txnstatus.lake import dead_rows
from txnstatus.limits import MAX_DELETED_BYTES, MAX_DELETED_FILES
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    from pyroaring import BitMap


def described(directory: str, seen: TableFiles, dead: Mapping[str, BitMap], snapshot: Timestamp) -> pb.Deletes | None:
    """Writes the positions, if there are any, into a write's directory, and says which they are.

    `seen`: the table at the snapshot. Raises InvalidArgument for rows that there are not.
    """
    if not dead:
        return None
    _check(dead, seen)
    location, file_sets = directory.rpartition("/")[0], seen.file_sets(dead)
    files = [
        pb.FileDeletes(
            file=file.removeprefix(f"{location}/"),
            file_set=file_sets[file],
            row_count=len(positions),
            positions=packed if len(packed := positions.serialize()) <= MAX_DELETED_BYTES else b"",
        )
        for file, positions in dead.items()
    ]
    return pb.Deletes(ref=dead_rows.write(directory, dead), files=files, snapshot=snapshot)


def _check(dead: Mapping[str, BitMap], seen: TableFiles) -> None:
    """Raises InvalidArgument for what an engine must not answer: it would be in the way of every reader."""
    rows = {file.path: file.rows for file in seen.files}
    for file, positions in dead.items():
        if file not in rows:
            raise InvalidArgument(f"{file} is no file of {seen.name} that the transaction sees")
        if not positions or positions.max() >= rows[file]:
            raise InvalidArgument(
                f"{file} has {rows[file]} rows, and no row at {positions.max() if positions else None}"
            )


def parts_of(dead: Mapping[str, BitMap]) -> Iterator[dict[str, BitMap]]:
    """What one write may say each; at least one part, which may be empty."""
    part: dict[str, BitMap] = {}
    size = 0
    for file, positions in dead.items():
        positions.run_optimize()
        bytes_ = len(positions.serialize())
        more = bytes_ if bytes_ <= MAX_DELETED_BYTES else 0
        if part and (len(part) >= MAX_DELETED_FILES or size + more > MAX_DELETED_BYTES):
            yield part
            part, size = {}, 0
        part[file] = positions
        size += more
    if part or not dead:
        yield part
