"""The catalog's commands, as values, with their wire form: in its log, and in calls to its leader."""

from __future__ import annotations

from dataclasses import field
from typing import get_args

from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.nodes import Drain
from txnstatus.catalog.reserving import Reservation
from txnstatus.codec import CommandCodec
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.types import Timestamp
from txnstatus.values import value


@value
class Found:
    """The first command of all: what the first leader's configuration says."""

    state: CatalogState


@value
class AddRange:
    """Adds the range that follows one in its group, unless there is one."""

    after: int


@value
class DropRange:
    number: int
    last_commit_ts: Timestamp


@value
class AddGroup:
    """A group with shards of its own. It has ranges from the next one of the first group on."""

    name: str


@value
class PlaceDatabase:
    """Where tables of a database are that are made from now on, if they do not say so themselves."""

    database: str
    group: str
    """Empty: their names' hashes say where."""


@value
class SetOption:
    name: str
    value: int


@value
class ReplaceNode:
    old_node: str
    new_node: str
    address: str


@value
class MoveReplica:
    """The new node has taken the old one's place in one group.

    It names both: one that comes late may find another replacement, or another move, under way.
    """

    group: str
    old_node: str
    new_node: str


@value
class FinishReplacement:
    pass


@value
class RegisterForeign:
    """The participant's host begins, or begins elsewhere."""

    name: str
    address: str
    identity: str = ""
    """The system that the host serves."""


@value
class RemoveForeign:
    """It is gone for good: what is unfinished there counts as done."""

    name: str


@value
class Grant:
    """Somebody has a role, too. What was granted on another table of the name is granted no more."""

    object: str
    """Name of a table, or of a database; empty: the cluster."""
    table_id: str
    """The table's; else empty."""
    identity: str
    role: str


@value
class Revoke:
    object: str
    identity: str
    role: str


@value
class ForgetGrants:
    """A table is gone."""

    table: str
    table_id: str


@value
class TurnTicketKey:
    """A key by which tickets are signed from now on, unless another one has followed already."""

    after: int
    """The number of the newest one; 0: there is none."""
    key: bytes = field(repr=False)


@value
class Distrust:
    """A name or a certificate counts no more; or counts again."""

    what: str
    restores: bool = False


@value
class SetLimit:
    """A limit of one user, in place of the option of that name; or the option holds for him again."""

    identity: str
    name: str
    value: int = 0
    restores: bool = False


@value
class RaiseLevel:
    """The cluster is at a feature level from now on, which every node has said that it does."""

    level: int


@value
class RegisterNode:
    """A node says which version it is of, and which feature levels that does."""

    node_id: str
    version: str
    oldest_level: int
    newest_level: int


@value
class AddNode:
    """It holds nothing yet."""

    node_id: str
    address: str
    roles: tuple[str, ...]


@value
class DrainNode:
    """What is taken from a node from now on; or nothing."""

    node_id: str
    drain: Drain


@value
class RemoveNode:
    """It holds nothing, and is gone for good."""

    node_id: str


@value
class Rebalance:
    """The moves that make the placement even are to be done."""

    stops: bool = False
    """None begins any more, and those under way are taken back."""


@value
class ReservePlace:
    wanted: Reservation
    ended: tuple[str, ...] = ()
    """Numbers of reservations that have come to nothing."""


@value
class FreePlace:
    """The table is there, or will not be."""

    number: str


@value
class MigrateShard:
    """A shard is to go to another group's log."""

    shard: int
    group: str


@value
class SplitShard:
    """A half of a shard's tables is to be a shard of its own."""

    shard: int
    new_shard: int


@value
class FinishMigration:
    """It is there, or split."""

    shard: int
    number: int


Command = (
    Found
    | AddRange
    | DropRange
    | SetOption
    | ReplaceNode
    | MoveReplica
    | FinishReplacement
    | RegisterForeign
    | RemoveForeign
    | AddGroup
    | PlaceDatabase
    | Grant
    | Revoke
    | ForgetGrants
    | TurnTicketKey
    | Distrust
    | SetLimit
    | RaiseLevel
    | RegisterNode
    | AddNode
    | DrainNode
    | RemoveNode
    | Rebalance
    | ReservePlace
    | FreePlace
    | MigrateShard
    | SplitShard
    | FinishMigration
)

_CODEC = CommandCodec[Command, pb.CatalogCommand](pb.CatalogCommand, get_args(Command))
encode, decode, to_wire, from_wire = _CODEC.encode, _CODEC.decode, _CODEC.to_wire, _CODEC.from_wire
