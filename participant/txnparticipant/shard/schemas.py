"""What the columns of a table were, and from when on they are others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from txnstatus.errors import InvalidArgument
from txnstatus.proto import common_pb2 as common
from txnstatus.schema import Schema
from txnstatus.table_properties import Property
from txnstatus.types import Timestamp
from txnstatus.values import value

MAX_EARLIER = 100
"""Schemas of the past that a table keeps. A reader below all of them sees those columns, too, that the oldest has: they
are null there."""


@value
class NewSchema:
    """What the columns of a table become."""

    schema: Schema
    at: Timestamp
    """The timestamp from which on readers see them."""
    version: int
    """How often they were changed before."""
    request_id: str


@dataclass(frozen=True, slots=True)
class EarlierSchema:
    """What the columns of a table were."""

    until: Timestamp
    """Readers below it see these."""
    schema: Schema
    request_id: str
    """The request of the change that ended it: sent again, it changes nothing."""


@dataclass(frozen=True, slots=True)
class Schemas:
    """The past of a table's columns."""

    earlier: tuple[EarlierSchema, ...] = ()
    """The last ones, by their timestamps."""
    version: int = 0
    """How often they were changed."""

    def after(self, schema: Schema, new: NewSchema) -> Schemas:
        """`schema`: what the new one replaces."""
        earlier = (*self.earlier, EarlierSchema(new.at, schema, new.request_id))
        return Schemas(earlier[-MAX_EARLIER:], self.version + 1)

    def at(self, at: Timestamp) -> Schema | None:
        """What a reader at the timestamp sees; None: what there is now."""
        return next((each.schema for each in self.earlier if at < each.until), None)

    def dropped_since(self, version: int, now: Schema) -> list[str]:
        """Columns that are not there any more of what was known by one who knew so many changes, by their names then.

        `now`: what there is. One who knew what is forgotten is taken to have known the oldest that is kept.
        """
        known = next((each.schema for each in self.earlier if each.schema.version >= version), now)
        there = {column.in_files for column in now.columns}
        return [column.name for column in known.columns if column.in_files not in there]

    def columns_of_all_times(self, now: Schema) -> Schema:
        """What there is, and behind it what was dropped, by their names in files: what is to be kept of row changes for
        readers of whatever time.
        """
        columns = {column.in_files: column for column in now.in_files.columns}
        for each in reversed(self.earlier):
            for column in each.schema.in_files.columns:
                columns.setdefault(column.name, replace(column, nullable=True))
        return replace(now, columns=tuple(columns.values()), retired=())

    def has_made(self, request_id: str) -> bool:
        """Whether the change that was asked for by this request is among them."""
        return any(each.request_id == request_id for each in self.earlier)

    def fits(self, new: NewSchema) -> bool:
        """Whether a change was made of what there is now."""
        return new.version == self.version and all(each.until < new.at for each in self.earlier[-1:])

    def check_invariants(self) -> None:
        """Raises AssertionError."""
        ends = [each.until for each in self.earlier]
        assert ends == sorted(set(ends)), f"the order of schemas: {ends}"
        assert len(ends) == min(self.version, MAX_EARLIER), f"{self.version} changes of columns, and kept are {ends}"


def dropped_since(table: str, columns: Sequence[str]) -> InvalidArgument:
    """The refusal of a write that was made ready with columns that were dropped meanwhile."""
    names = ", ".join(map(repr, columns))
    return InvalidArgument(
        f"the write to {table} has columns that were dropped since it was begun: {names[:1_000]}",
        hint="none of it is added; run the transaction again, and it finds the columns that there are now",
    )


def described(
    table_id: str,
    name: str,
    location: str,
    schema: Schema,
    conflicts: str,
    properties: Iterable[Property],
    made: Timestamp,
) -> common.TableInfo:
    """A table as it is told to clients."""
    return common.TableInfo(
        table_id=table_id,
        name=name,
        location=location,
        schema=schema.to_wire(),
        conflicts=conflicts,
        properties=(common.TableProperty(name=each.name, value=each.value) for each in properties),
        made=made,
    )
