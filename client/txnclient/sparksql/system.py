"""What Spark asks of system tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from txnclient.client.client import Client
from txnclient.control import system_tables
from txnclient.control.system_tables import COMPARISONS, TIMES, Wanted
from txnclient.read.filtered import Filter
from txnclient.sparksql import arrow_stream, definitions
from txnclient.sparksql.bridge import Request


def answers(client: Client) -> Mapping[str, Callable[[Request], Any]]:
    """Method → what answers it."""

    def described(request: Request) -> Request:
        table = system_tables.named(request["table"])
        return {"columns": definitions.columns_told(system_tables.columns(table)), "comment": table.description}

    def read(request: Request) -> str:
        rows = system_tables.read(request["table"], client, wanted(request["filters"]))
        return arrow_stream.told(rows.select(request["columns"]) if request["columns"] else rows)

    return {
        "system tables": lambda _: system_tables.names(),
        "system table": described,
        "system rows": read,
    }


def wanted(filters: Iterable[Filter]) -> Wanted:
    """What follows from filters that all hold."""
    return reduce(_narrowed, filters, Wanted())


def _narrowed(found: Wanted, told: Filter) -> Wanted:
    """Rows are asked for by texts and by times alone."""
    match told:
        case {"is": "and", "of": several}:
            return reduce(_narrowed, several, found)
        case {"is": "=", "column": str(column), "value": value}:
            return found.among(column, [value])
        case {"is": "in", "column": str(column), "values": values}:
            return found.among(column, values)
        case {"is": how, "column": column, "value": micros} if how in COMPARISONS and column in TIMES:
            return found.compared(column, how, int(micros))
    return found
