"""What a statement reads: the tables that it names, as of the time that it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlglot import exp

from txnclient.client.client import Client
from txnclient.ducksql.arguments import instant
from txnclient.ducksql.trees import Arguments, require_only, table_name
from txnclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Reading:
    """What tables a statement reads, and as of when."""

    client: Client
    now: Snapshot
    at: Callable[[int | datetime], Snapshot]
    """The snapshot of `VERSION AS OF` and `TIMESTAMP AS OF`; it is closed by whoever gives it."""
    resolve: Callable[[list[str]], str]
    """The name of a table of its parts, as they are written. Raises InvalidArgument."""
    args: Arguments

    def named(self, node: exp.Table) -> str:
        """The table that stands in a query. Raises InvalidArgument, also for what nobody would look at."""
        require_only(
            node, f"table {node.name}", "this", "db", "catalog", "alias", "version", "joins", "laterals", "pivots"
        )
        return table_name(node, self.resolve)

    def snapshot_of(self, node: exp.Table) -> Snapshot:
        """That of which the query has the table. Raises InvalidArgument, and as `Client.snapshot`."""
        version = node.args.get("version")
        return self.now if version is None else self.at(instant(version, self.args))
