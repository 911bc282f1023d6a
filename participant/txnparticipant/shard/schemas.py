"""What the columns of a table were, and from when on they are others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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


def described(
    table_id: str, name: str, location: str, schema: Schema, conflicts: str, properties: Iterable[Property]
) -> common.TableInfo:
    """A table as it is told to clients."""
    return common.TableInfo(
        table_id=table_id,
        name=name,
        location=location,
        schema=schema.to_wire(),
        conflicts=conflicts,
        properties=(common.TableProperty(name=each.name, value=each.value) for each in properties),
    )
