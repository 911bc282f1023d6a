"""Dead rows: rows of data files that a write has deleted, by their positions, and the file that holds them.

A row's position is its number in its data file, from 0 on. Those of one file are a roaring bitmap of 32 bits in its
portable form, which Spark's own RoaringBitmap reads. The table's record holds the file's path, length and CRC-32, as of
a manifest. A row that is dead stays dead: what readers leave out is the union of all that they see.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake.storage import read_file, write_file
from txnstatus.proto import table_pb2 as pb

if TYPE_CHECKING:
    from pyroaring import BitMap

FILE_NAME = "_deletes.parquet"
MAX_POSITION = (1 << 32) - 1

DeadRows = Mapping[str, "BitMap"]
"""URI of a data file → positions of its dead rows. Not to be changed: readers share it."""
NONE: DeadRows = {}


def write(directory: str, dead: Mapping[str, BitMap], name: str = FILE_NAME) -> pb.DeadRowsRef:
    """Writes them into a write's `directory`; durable when this returns. `dead`: URI of a data file → its dead rows.

    `name`: the file's, where the directory may have several.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.table(
        {
            "file": pa.array(dead, pa.string()),
            "positions": pa.array([bitmap.serialize() for bitmap in dead.values()], pa.binary()),
            "row_count": pa.array(map(len, dead.values()), pa.uint32()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    data, path = sink.getvalue(), f"{directory}/{name}"
    write_file(path, data)
    return pb.DeadRowsRef(
        path=path,
        bytes=len(data),
        crc32=zlib.crc32(data),
        row_count=sum(map(len, dead.values())),
        file_count=len(dead),
    )


def read(ref: pb.DeadRowsRef) -> dict[str, BitMap]:
    """URI of a data file → its dead rows.

    Raises DataDamaged for a file that is not the one that was added, InternalError for one that cannot be read.
    """
    import pyarrow.parquet as pq
    from pyroaring import BitMap

    try:
        data = read_file(ref.path)
    except OSError as error:
        raise InternalError(f"deleted rows in {ref.path} cannot be read: {error}") from error
    if len(data) != ref.bytes or zlib.crc32(data) != ref.crc32:
        raise DataDamaged(
            f"{ref.path}, which says what rows are deleted, is damaged: {len(data)} bytes where {ref.bytes} were "
            "written, or another CRC",
            hint="restore it from a backup, or overwrite what it is of; txnctl doctor finds all such files",
        )
    rows = pq.read_table(io.BytesIO(data))
    files, positions = rows["file"].to_pylist(), rows["positions"].to_pylist()
    return {file: BitMap.deserialize(bitmap) for file, bitmap in zip(files, positions, strict=True)}


def union(parts: Iterable[Mapping[str, BitMap]]) -> dict[str, BitMap]:
    """The dead rows of all of them."""
    found: dict[str, BitMap] = {}
    for part in parts:
        for file, positions in part.items():
            known = found.get(file)
            found[file] = positions if known is None else known | positions
    return found
