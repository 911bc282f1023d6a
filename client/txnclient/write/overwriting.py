"""The part of a table that a write is for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from txnclient.formats.partitions import Partition, name_of
from txnstatus import partitions
from txnstatus.errors import InvalidArgument
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Schema

Mode = Literal["append", "overwrite", "overwrite_partitions", "upsert"]


def require_bare(partition: Partition | None, *, keys_are_new: bool) -> None:
    """Raises InvalidArgument for what an upsert does not take."""
    if partition is not None:
        raise InvalidArgument(f"partition {partition!r}: mode 'upsert' takes none, each row is where its columns say")
    if keys_are_new:
        raise InvalidArgument("keys_are_new: mode 'upsert' is for keys that may be there", hint="append new keys")


def overwritten(
    mode: Mode, partition: Partition | None, files: Sequence[DataFile], schema: Schema, table: str
) -> list[str]:
    """The partitions that are replaced; none by an append, and none are named by an overwrite of the whole table.

    Raises InvalidArgument: no such partition, or files that are not in it.
    """
    found = sorted({file.partition for file in files})
    if mode != "overwrite_partitions" and partition is None:
        return []
    if mode == "overwrite_partitions":
        if not schema.partition_by:
            raise InvalidArgument(f"mode 'overwrite_partitions': {table} is not partitioned", hint="use 'overwrite'")
        return found
    assert partition is not None
    name = name_of(partition, schema, table)
    outside = [each for each in found if not partitions.covers({name}, each)]
    if outside:
        raise InvalidArgument(f"the data has rows of {', '.join(outside[:5])}, and is written to {name} of {table}")
    return [name] if mode == "overwrite" else []
