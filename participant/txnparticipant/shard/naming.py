"""Names of a shard's tables: which one a name means, now and at earlier timestamps.

A table is known by its id, and its directory and all that it has are of the id. A rename is one entry, with a
timestamp: a reader below it finds the table by the name that it had; and by the one that it has now, where no other
table had that then. A name is free as soon as its table is dropped, or called otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from txnparticipant.shard import commands as cmd
from txnparticipant.shard import dropping
from txnparticipant.shard.placing import Placed, stays
from txnparticipant.shard.records import MAX_RENAMES, Dropped, Renamed
from txnparticipant.shard.table import TableState
from txnstatus.errors import AlreadyExists, InvalidArgument, LimitReached, NotFound, TxnError, Unavailable
from txnstatus.id_sets import IdSet
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId, utc_of


class Names:
    """The names of one shard's tables. Only its methods change it."""

    def __init__(self, shard: int, tables: Mapping[str, TableState], placed: Mapping[str, Placed]) -> None:
        """`tables`: by their ids, as they are now and come to be. `placed`: by their names."""
        self._shard = shard
        self._tables = tables
        self.placed = dict(placed)
        """Name → which shard keeps the table that this one would by its name's hash."""
        self._ids = {t.name: t.table_id for t in tables.values() if t.dropped is None and not t.is_database}
        """Name → id of the tables that are not dropped."""
        self._dropped: dict[str, list[str]] = {}
        """Name → ids of the tables that are dropped and not forgotten yet; the last one dropped is the last."""
        self._former: dict[str, list[str]] = {}
        """Name → ids of the tables that were called so; the last one is the last."""
        for _, table_id in sorted((t.dropped.commit_ts, t.table_id) for t in tables.values() if t.dropped):
            self._dropped.setdefault(tables[table_id].name, []).append(table_id)
        for _, was, table_id in sorted((r.at, r.was, t.table_id) for t in tables.values() for r in t.former.renames):
            self._former.setdefault(was, []).append(table_id)

    # ---- changes

    def place(self, command: cmd.PlaceTable) -> TxnError | None:
        """The first word holds, and a name that a table here has, or had and has left something, stays here."""
        if any(command.name in known for known in (self._ids, self._dropped, self._former)):
            return stays(command.name, self._shard)
        self.placed.setdefault(command.name, Placed(command.name, command.shard))
        return None

    def add(self, table: TableState) -> None:
        self._ids[table.name] = table.table_id

    def drop(self, table: TableState) -> None:
        self._ids.pop(table.name)
        self._dropped.setdefault(table.name, []).append(table.table_id)

    def forget(self, table: TableState) -> None:
        """Nothing is left of a table that is dropped."""
        _remove(self._dropped, table.name, table.table_id)
        for each in table.former.renames:
            _remove(self._former, each.was, table.table_id)

    def rename(self, table: TableState, command: cmd.RenameTable, forgotten: IdSet) -> TxnError | None:
        """Returns the refusal, if there is one; then nothing has changed."""
        if table.former.has_made(command.request_id):
            return None
        if refused := self._refusal(table, command, forgotten):
            return refused
        was, before = table.name, table.former.renames
        table.rename(Renamed(was, command.name, command.at, command.request_id, command.older))
        if table.former.renames[:1] != before[:1] and before:
            _remove(self._former, before[0].was, table.table_id)
        self._ids[command.name] = self._ids.pop(was)
        self._former.setdefault(was, []).append(table.table_id)
        return None

    def _refusal(self, table: TableState, command: cmd.RenameTable, forgotten: IdSet) -> TxnError | None:
        if table.is_database:
            return InvalidArgument(f"{table.name!r} is a database: only a table can be renamed")
        if table.dropped is not None:
            return dropping.not_found(table.name, table.dropped)
        if command.name in self._ids:
            return AlreadyExists(f"table {command.name} exists already")
        if placed := self.placed.get(command.name):
            return placed.elsewhere()
        if table.unfinished:
            first = next(iter(table.unfinished))
            return Unavailable(f"transaction {first} has begun to work on {table.name} meanwhile")
        ends = [at for at, _ in self._ends(command.name)] + [each.at for each in table.former.renames[-1:]]
        if max(ends, default=NO_TIMESTAMP) >= command.at:
            return Unavailable(f"{command.name} or {table.name} was another table's name until a moment ago")
        if len(table.former.renames) >= MAX_RENAMES and not table.former.renames[0].older <= forgotten:
            return LimitReached(
                f"table {table.name} was renamed MAX_RENAMES = {MAX_RENAMES} times, and transactions that began before "
                "the first of these are not forgotten",
                hint="rename it when they are: see the option retention_ms",
            )
        return None

    # ---- questions

    def now(self, name: str) -> TableState:
        """The one that has the name. Raises NotFound, PlacedElsewhere."""
        if table_id := self._ids.get(name):
            return self._tables[table_id]
        if ends := sorted(self._ends(name), key=lambda end: end[0]):
            raise ends[-1][1]
        placed = self.placed.get(name)
        raise placed.elsewhere() if placed else NotFound(f"table {name} does not exist")

    def at(self, name: str, at: Timestamp) -> TableState:
        """The one that had the name at the timestamp; or else the last one that has come to it, if it was there then.

        Raises NotFound, PlacedElsewhere.
        """
        current = self._tables.get(self._ids.get(name, ""))
        if current is not None and current.created <= at and current.former.at(at, current.name) == name:
            return current
        gone = [table for table, _ in self.dropped(name)]
        before = [*self._formerly(name), *gone]
        there = [table for table in before if _is_there(table, at)]
        if (found := next((table for table in there if table.former.at(at, table.name) == name), None)) is not None:
            return found
        for table in (*([current] if current else []), *reversed(gone)):
            if _is_there(table, at):
                return table
        if ends := sorted((end for end in self._ends(name) if end[0] <= at), key=lambda end: end[0]):
            raise ends[-1][1]
        if current is None and not before:
            return self.now(name)
        first = min(table.created for table in (*before, *([current] if current else [])))
        raise NotFound(f"table {name} did not exist at {at}: it was created after {first}")

    def has(self, name: str) -> bool:
        """Whether a table has the name now."""
        return name in self._ids

    def freed(self, name: str) -> Renamed | None:
        """How the last table that had the name and has another one came to that."""
        named = (each for table in self._formerly(name) for each in table.former.renames if each.was == name)
        return max(named, key=lambda each: each.at, default=None)

    def ended(self, name: str) -> Timestamp:
        """The last time at which a table had the name no more; 0: never."""
        return max((at for at, _ in self._ends(name)), default=NO_TIMESTAMP)

    def dropped(self, name: str) -> list[tuple[TableState, Dropped]]:
        """The tables of this name that are dropped and not forgotten, in that order, and how each came to its end."""
        tables = [self._tables[table_id] for table_id in self._dropped.get(name, ())]
        return [(table, table.dropped) for table in tables if table.dropped is not None]

    def made_by(self, name: str, request_id: str) -> TableState | None:
        """The table that a request has made under the name, whatever became of it."""
        ids = (self._ids.get(name, ""), *self._dropped.get(name, ()), *self._former.get(name, ()))
        tables = (self._tables[table_id] for table_id in ids if table_id)
        return next((table for table in tables if table.request_id == request_id), None)

    def for_write(self, name: str, txn_id: TxnId) -> TableState:
        """The table for a write of the transaction. Raises NotFound also where it wrote to one that is dropped since,
        and IllegalState where it may mean another one."""
        table = self.now(name)
        for gone, drop in self.dropped(name):
            if txn_id in gone.unfinished:
                raise dropping.not_found(name, drop)
        if refusal := dropping.too_old(table, txn_id):
            raise refusal
        return table

    def spent(self) -> list[TableState]:
        """Dropped tables of which nothing is left."""
        return [table for ids in self._dropped.values() for id_ in ids if dropping.is_spent(table := self._tables[id_])]

    def _ends(self, name: str) -> Iterator[tuple[Timestamp, NotFound]]:
        """When tables came to have the name no more, and what tells of it."""
        for gone, drop in self.dropped(name):
            yield drop.commit_ts, dropping.not_found(gone.name, drop)
        for table in self._formerly(name):
            for each in table.former.renames:
                if each.was == name:
                    yield each.at, _called_otherwise(each, table)

    def _formerly(self, name: str) -> list[TableState]:
        """The tables that were called so, each once."""
        return [self._tables[table_id] for table_id in dict.fromkeys(self._former.get(name, ()))]

    def check_invariants(self) -> None:
        """Raises AssertionError."""
        anew = Names(self._shard, self._tables, self.placed)
        for index in ("_ids", "_dropped", "_former"):
            assert getattr(self, index) == getattr(anew, index), f"the index {index} of names"
        for table in self._tables.values():
            names = [table.name, *(each.was for each in reversed(table.former.renames))]
            assert names[:-1] == [each.now for each in reversed(table.former.renames)], f"the names of {table.table_id}"
            times = [table.created, *(each.at for each in table.former.renames)]
            assert times == sorted(times), f"the order of the names of {table.table_id}: {times}"


def _is_there(table: TableState, at: Timestamp) -> bool:
    return table.created <= at and (table.dropped is None or at < table.dropped.commit_ts)


def _called_otherwise(renamed: Renamed, table: TableState) -> NotFound:
    """The answer to whoever asks for a table by a name that it has no more."""
    when = f"{utc_of(renamed.at)}, at timestamp {renamed.at}"
    if table.dropped is not None:
        return dropping.not_found(table.name, table.dropped)
    return NotFound(
        f"table {renamed.was} was renamed to {renamed.now} on {when}",
        hint=f"it is called {table.name}; snapshots of before go on to read it as {renamed.was}",
    )


def _remove(index: dict[str, list[str]], name: str, table_id: str) -> None:
    index[name].remove(table_id)
    if not index[name]:
        del index[name]
