"""Parts of a table as programs name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from txnclient.formats.schemas import named
from txnstatus import partitions
from txnstatus.errors import InvalidArgument
from txnstatus.schema import Schema

Partition = str | Mapping[str, Any]
"""A partition's name, or its values: "month=1/day=2" or {"month": 1, "day": 2}."""

_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def name_of(partition: Partition, schema: Schema, table: str) -> str:
    """Raises InvalidArgument, also for what names no value of the column's type: nothing would ever be in there."""
    if isinstance(partition, Mapping):
        called = dict(zip(named(list(partition), schema.columns), partition.values(), strict=True))
        known = {column: called[column] for column in schema.partition_by if column in called}
        unknown = [column for column in called if column not in known]
        if unknown:
            raise InvalidArgument(f"column {unknown[0]!r} is no partition column of {table}")
        partition = partitions.name_of(known)
    partitions.check(partition, schema.partition_by, table)
    types = {column.name: column.type for column in schema.columns}
    for column, part in zip(schema.partition_by, partition.split("/"), strict=False):
        value = part[len(column) + 1 :]
        if not names_value(value, types[column]):
            raise InvalidArgument(
                f"{partition[:300]!r} is no partition of {table}: no {types[column]}, as column {column!r} is, "
                f"is named {value!r}",
                hint=f"give its values, {{{column!r}: ...}}: they are named as they have to be",
            )
    return partition


def names_value(name: str, kind: str) -> bool:
    """Whether a value of this type of partition columns has this name; `partitions.value_name` gives each one."""
    if name == partitions.NULL or kind == "string":
        return partitions.SHORTENED in name or partitions.value_name(partitions.text_of(name)) == name
    if kind in _BITS:
        most = 1 << (_BITS[kind] - 1)
        return re.fullmatch(r"0|-?[1-9][0-9]{0,18}", name) is not None and -most <= int(name) < most
    if kind == "boolean":
        return name in ("true", "false")
    if kind == "date":
        return re.fullmatch(r"\d{4}-\d\d-\d\d", name, re.ASCII) is not None and _is_day(name)
    digits, scale = map(int, kind.removeprefix("decimal(").removesuffix(")").split(","))
    whole = rf"0|[1-9][0-9]{{0,{max(digits - scale, 1) - 1}}}"
    return re.fullmatch(rf"-?({whole})" + (rf"\.[0-9]{{{scale}}}" if scale else ""), name) is not None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
