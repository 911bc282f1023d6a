"""Names of tables that a shard would keep by their hash, and that another one keeps."""

from __future__ import annotations

from txnstatus.catalog.catalog import shard_group
from txnstatus.errors import IllegalState, PlacedElsewhere
from txnstatus.values import value


@value
class Placed:
    name: str
    shard: int
    """The one that keeps it, for good: whoever has heard of it needs not ask again."""

    def elsewhere(self) -> PlacedElsewhere:
        return PlacedElsewhere(f"table {self.name} is kept by {shard_group(self.shard)}", hint=str(self.shard))


def stays(name: str, shard: int) -> IllegalState:
    """The refusal to place what a table of this shard is called, or was."""
    return IllegalState(f"table {name} is in {shard_group(shard)}, or was: it stays there")
