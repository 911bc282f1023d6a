"""Parts of a table as programs name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txnclient.formats.schemas import named
from txnstatus import partitions
from txnstatus.errors import InvalidArgument
from txnstatus.schema import Schema

Partition = str | Mapping[str, Any]
"""A partition's name, or its values: "month=1/day=2" or {"month": 1, "day": 2}."""


def name_of(partition: Partition, schema: Schema, table: str) -> str:
    """Raises InvalidArgument."""
    if isinstance(partition, Mapping):
        called = dict(zip(named(list(partition), schema.columns), partition.values(), strict=True))
        known = {column: called[column] for column in schema.partition_by if column in called}
        unknown = [column for column in called if column not in known]
        if unknown:
            raise InvalidArgument(f"column {unknown[0]!r} is no partition column of {table}")
        partition = partitions.name_of(known)
    partitions.check(partition, schema.partition_by, table)
    return partition
