"""Iceberg tables in a directory, by their newest metadata file; as pyiceberg reads them."""

from __future__ import annotations

import re

from txnclient.incoming.source import Source, SourceFile, child, required
from txnstatus.errors import InvalidArgument
from txnstatus.lake.storage import file_system

METADATA = "metadata"
_NAME = re.compile(r"v?(?P<number>[0-9]+)(-[0-9a-f-]+)?\.metadata\.json")


def newest(root: str) -> str | None:
    """The URI of the newest metadata file of the table in this directory; None: there is no such table."""
    from pyarrow import fs

    system, directory = file_system(f"{root}/{METADATA}")
    found = system.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    numbered = [(int(match["number"]), info.base_name) for info in found if (match := _NAME.fullmatch(info.base_name))]
    return child(f"{root}/{METADATA}", max(numbered)[1]) if numbered else None


def look(root: str) -> Source:
    """The table at its current snapshot. Raises InvalidArgument for one that pyiceberg does not read."""
    try:
        from pyiceberg.table import StaticTable
    except ImportError as error:
        raise required("pyiceberg") from error
    metadata = newest(root)
    if metadata is None:
        raise InvalidArgument(f"there is no Iceberg table in {root}")
    scan = StaticTable.from_metadata(metadata).scan()
    tasks = list(scan.plan_files())
    files = [SourceFile(_uri(task.file.file_path)) for task in tasks]
    unlike = "rows of them are deleted by delete files" if any(task.delete_files for task in tasks) else ""
    odd = next((task.file for task in tasks if task.file.file_format.name != "PARQUET"), None)
    if odd is not None:
        unlike = f"{odd.file_path} is {odd.file_format.name}, not Parquet"
    schema = scan.projection().as_arrow().remove_metadata()
    return Source("iceberg", root, files, schema, scan.to_arrow_batch_reader, unlike)


def _uri(path: str) -> str:
    """A place as Iceberg spells it, where nothing is quoted."""
    scheme, sign, below = path.partition("://")
    return (
        child(f"{scheme}://{below.partition('/')[0]}", below.partition("/")[2])
        if sign
        else child("file://", path.lstrip("/"))
    )
