"""Dividing a shard by its tables: which ones are for the new shard, and what they take along.

A table keeps its id, and the shard that it leaves knows where it has gone. Tables that have, or had, a name in common
stay together: which of them a name means, one shard has to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from txnparticipant.shard.placing import Placed
from txnparticipant.shard.table import TableState
from txnstatus.catalog.catalog import shard_group
from txnstatus.errors import PlacedElsewhere
from txnstatus.values import value

MAX_SHARE = 20_000
"""Tables that go at once: one entry of the log names them all, and has to have room for that."""


@value
class Gone:
    """A table that another shard has got."""

    table_id: str
    shard: int
    location: str
    """No other table is made there, whatever becomes of this one."""

    def elsewhere(self) -> PlacedElsewhere:
        return PlacedElsewhere(f"table {self.table_id} is kept by {shard_group(self.shard)}", hint=str(self.shard))


def half(tables: Iterable[TableState]) -> tuple[str, ...]:
    """Ids of tables with about a half of the work, MAX_SHARE at most.

    By the transactions that each has a record of, which are the recent ones.
    """
    together = sorted(_together(tables), key=lambda each: (-_work(each), each[0].table_id))
    stays, goes = 0, 0
    share: list[str] = []
    for each in together:
        if goes < stays and len(share) + len(each) <= MAX_SHARE:
            goes += _work(each)
            share += [table.table_id for table in each]
        else:
            stays += _work(each)
    return tuple(sorted(share))


def names(table: TableState) -> set[str]:
    """What it is called, and what it was."""
    return {table.name, *(each.was for each in table.former.renames)}


def divisible(tables: Mapping[str, TableState], wanted: Collection[str]) -> list[TableState]:
    """The wanted ones that can go: with all that they have a name in common with, if those are wanted, too."""
    whole = (each for each in _together(tables.values()) if all(table.table_id in wanted for table in each))
    return sorted((table for each in whole for table in each), key=lambda table: table.table_id)


def given(tables: Mapping[str, TableState], wanted: Collection[str]) -> list[TableState]:
    """The wanted ones, by what a log knows that ends before these went. What was dropped then and has a name in common
    with one is gone since: else it had gone along."""
    whole = (each for each in _together(tables.values()) if any(table.table_id in wanted for table in each))
    return [table for each in whole for table in each if table.table_id in wanted or table.dropped is not None]


def gone(tables: Mapping[str, TableState], ids: Collection[str], to: int) -> dict[str, Gone]:
    """`tables`: those of which it is known where they are."""
    return {id_: Gone(id_, to, tables[id_].location if id_ in tables else "") for id_ in sorted(ids)}


def elsewhere(tables: Iterable[TableState], to: int) -> dict[str, Placed]:
    """The names that go with the tables."""
    return {name: Placed(name, to) for each in tables for name in names(each)}


def next_number(table_ids: Collection[str], shard: int) -> int:
    """The first number that no table has which was made in the shard, of these."""
    own = (id_.split(".") for id_ in table_ids if id_.startswith(f"{shard}."))
    return max((int(number) + 1 for _, number in own), default=0)


def _together(tables: Iterable[TableState]) -> Iterator[Sequence[TableState]]:
    """The tables, those together that have a name in common, by any number of steps. Databases stay where they are."""
    of: dict[str, list[TableState]] = {}
    for table in sorted((each for each in tables if not each.is_database), key=lambda each: each.table_id):
        its = names(table)
        found = {id(of[name]): of[name] for name in sorted(its) if name in of}
        joined = [*(other for each in found.values() for other in each), table]
        of.update(dict.fromkeys((name for each in joined for name in names(each)), joined))
    yield from {id(each): each for each in of.values()}.values()


def _work(tables: Sequence[TableState]) -> int:
    return sum(1 + len(table.txns) for table in tables)
