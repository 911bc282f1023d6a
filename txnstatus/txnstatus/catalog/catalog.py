"""The catalog: the replicated state that says what there is in the cluster, and where.

Small and rarely changed, so it is one immutable value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from txnstatus import features
from txnstatus.catalog import reserving
from txnstatus.catalog.nodes import Drain, NodeInfo, node_from_wire, node_to_wire
from txnstatus.catalog.options import Options
from txnstatus.catalog.placement import Migration, Move, Placement, after
from txnstatus.codec import Codec
from txnstatus.errors import InvalidArgument
from txnstatus.names import kind_and_number
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.roles import Granted
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId

CATALOG = "catalog"
"""The name of the group that holds the catalog itself."""
FORMAT = 3
NODE_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
ADDRESS_PATTERN = r"^[^\s:/]{1,255}:[0-9]{1,5}$"


@dataclass(frozen=True, slots=True)
class Replacement:
    """A replacement under way: in every group, `new_node` takes the place of `old_node`."""

    old_node: str
    new_node: str


@dataclass(frozen=True)
class CatalogState:
    range_span: int
    nodes: Mapping[str, NodeInfo]
    groups: Mapping[str, tuple[str, ...]]
    """Every group's members; the first is to lead it, if it can."""
    parts: Mapping[str, str]
    """Every status range and every shard, and the group whose log it is in. A range stays where it is."""
    replication: int
    participant_shards: int
    next_range: int = 1
    floor: Timestamp = NO_TIMESTAMP
    """The highest commit timestamp of ranges that were dropped: no snapshot may be below it."""
    options: Options = field(default_factory=Options)
    replacement: Replacement | None = None
    foreign: Mapping[str, str] = field(default_factory=dict)
    """The addresses of foreign participants' hosts, by name; empty for one that was removed."""
    identities: Mapping[str, str] = field(default_factory=dict)
    """Which systems the foreign participants are, by name, as far as their hosts have said so."""
    version: int = 0
    placements: Mapping[str, str] = field(default_factory=dict)
    """Databases whose tables are made in a certain group, unless they say otherwise themselves."""
    joined: Mapping[str, int] = field(default_factory=dict)
    """Groups that came later, and the range of the first group after which transactions begin in theirs."""
    cluster_id: str = ""
    """The cluster's name, and a number drawn when it was founded: no other cluster has it. Empty: not founded yet."""
    grants: Mapping[str, Granted] = field(default_factory=dict)
    """What is granted on which object, by its name."""
    ticket_keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    """Keys by which tickets of transactions are signed, by their numbers; the newest has the highest."""
    is_public: bool = False
    """Whether what is secret was left out: it is what everybody may see."""
    revoked: frozenset[str] = frozenset()
    """Names and certificates that count no more, as `txnstatus.revocation` writes them."""
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Users with limits of their own: what holds for each in place of the options of these names."""
    level: int = features.FIRST
    """The feature level. It only goes up."""
    moves: tuple[Move, ...] = ()
    """Moves that are to be done; the first one of each group is under way."""
    reserved: reserving.Reserved = ()
    """Places in which somebody makes a table right now."""
    migrations: Mapping[str, Migration] = field(default_factory=dict)
    """Shards that go to another group, or are split, by their names as parts; each is one of its old group until it is
    there."""
    origins: Mapping[int, int] = field(default_factory=dict)
    """Shards that were split off others, and which they were split off."""

    @property
    def ticket_key(self) -> int:
        """The number of the newest key; 0: there is none."""
        return max(self.ticket_keys, default=0)

    def public(self) -> CatalogState:
        """What everybody may see."""
        return replace(self, ticket_keys={}, reserved=(), is_public=bool(self.ticket_keys or self.reserved))

    def limit(self, user: str, name: str) -> int:
        """The value of a limit that holds for a user; 0: there is none."""
        own = self.limits.get(user)
        default: int = getattr(self.options, name)
        return default if own is None else own.get(name, default)

    @cached_property
    def ranges(self) -> tuple[int, ...]:
        """The numbers of the live status ranges, the oldest first."""
        return tuple(sorted(int(name.removeprefix(_STATUS)) for name in self.parts if name.startswith(_STATUS)))

    @cached_property
    def shards(self) -> tuple[int, ...]:
        """The numbers of the shards."""
        return tuple(sorted(int(name.removeprefix(_SHARD)) for name in self.parts if name.startswith(_SHARD)))

    @cached_property
    def ranges_of(self) -> Mapping[str, tuple[int, ...]]:
        """The live ranges of each group that has some, the oldest first."""
        found: dict[str, list[int]] = {}
        for number in self.ranges:
            found.setdefault(self.parts[status_group(number)], []).append(number)
        return {group: tuple(numbers) for group, numbers in found.items()}

    @cached_property
    def last_ranges(self) -> Mapping[str, int]:
        """The last range of each group that has one: it may not be full."""
        return {group: numbers[-1] for group, numbers in self.ranges_of.items()}

    @cached_property
    def shards_of(self) -> Mapping[str, tuple[int, ...]]:
        """The shards of each group that has some: tables can be placed there."""
        found: dict[str, list[int]] = {}
        for shard in self.shards:
            found.setdefault(self.parts[shard_group(shard)], []).append(shard)
        return {group: tuple(shards) for group, shards in sorted(found.items())}

    @cached_property
    def families(self) -> Mapping[int, Sequence[int]]:
        """The shards that there were at first, or came with a group, each with all that was split off it."""
        found: dict[int, list[int]] = {}
        for shard in self.shards:  # in the order in which they came
            first = shard
            while first in self.origins:
                first = self.origins[first]
            found.setdefault(first, []).append(shard)
        return found

    @property
    def unborn(self) -> frozenset[str]:
        """Shards that are being split off, by their names as parts: their group's log has them with that."""
        return frozenset(shard_group(each.new_shard) for each in self.migrations.values() if each.new_shard is not None)

    def check_placement(self, group: str) -> None:
        """Raises InvalidArgument where no table, nor a shard, can be in a group of this name."""
        if group not in self.shards_of:
            there = ", ".join(self.shards_of)
            raise InvalidArgument(
                f"{group[:100]!r} is no group of tables; there are {there}", hint="another group: txnctl group add"
            )

    @property
    def may_be_joined(self) -> bool:
        """Whether groups that come later have ranges, too: shards and ranges are not kept apart."""
        return FIRST_GROUP in self.shards_of

    @property
    def without_ranges(self) -> Sequence[str]:
        """Groups that came later, and have no range yet."""
        if not self.may_be_joined:
            return ()
        return [group for group in self.groups if group in self.shards_of and group not in self.ranges_of]

    def begins_in(self, group: str) -> Sequence[int]:
        """The live ranges in which transactions near the group's shards begin, one after the other.

        Those of the first group, where it has none; where it came later, they began there until then.
        """
        first, own = self.ranges_of.get(FIRST_GROUP, ()), self.ranges_of.get(group, ())
        if not own or group == FIRST_GROUP:
            return first
        until = self.joined.get(group)
        return own if until is None else [*(number for number in first if number <= until), *own]

    def has_migrated(self, part: str, number: int) -> bool:
        """Whether a migration is over, as far as this state says."""
        under_way = self.migrations.get(part)
        return self.version >= number and (under_way is None or under_way.number != number)

    def range_of(self, txn_id: TxnId) -> int:
        return txn_id // self.range_span

    def range_was_dropped(self, number: int) -> bool:
        return number < self.next_range and status_group(number) not in self.parts

    def group_of(self, name: str) -> str:
        """The group that a range or a shard is part of; a group's own name stands for itself."""
        return self.parts.get(name, name)

    def parts_of(self, group: str) -> list[str]:
        """What is in the group's log: its shards first, then its ranges, the oldest first."""
        return sorted((part for part, of in self.parts.items() if of == group), key=kind_and_number)

    def replicas(self, group: str) -> tuple[str, ...]:
        """The members, and who is about to become one: it may lead the group before the catalog hears of it.

        `group`: its name, or that of a part of it.
        """
        name = self.group_of(group)
        members, come = self.groups.get(name, ()), []
        if (under_way := self.replacement) is not None and under_way.old_node in members:
            come.append(under_way.new_node)
        if (move := self.move_of(name)) is not None:
            come += [node for node in (move.new_node, move.old_node) if node]  # one that is taken back is there, too
        return tuple(dict.fromkeys([*members, *come])) if come else members

    def move_of(self, group: str) -> Move | None:
        """The one that is under way in a group."""
        return next((move for move in self.moves if move.group == group), None)

    @property
    def drained(self) -> frozenset[str]:
        """Nodes that lead nothing where another one can."""
        return frozenset(node for node, info in self.nodes.items() if info.drain != Drain.SERVES)

    @property
    def placement(self) -> Placement:
        """The placement once the moves are done; the catalog's group comes last. A drained node keeps what it has."""
        groups, serving = after(self.groups, self.moves), self.nodes.keys() - self.drained
        names = sorted(
            groups, key=lambda name: (name == CATALOG, kind_and_number(name) if name != CATALOG else ("", 0))
        )
        able = {
            name: {node for node in serving if self._roles_for(name) <= {*self.nodes[node].roles}} for name in names
        }
        leaving = {node for node, info in self.nodes.items() if info.drain == Drain.LEAVES}
        return Placement({name: groups[name] for name in names}, able, leaving, self.replication)

    def _roles_for(self, group: str) -> set[str]:
        """The roles that a node of the group has."""
        ranges = group == CATALOG or group in self.ranges_of or group not in self.shards_of
        return {role for role, needed in (("status", ranges), ("participant", group in self.shards_of)) if needed}

    def with_role(self, role: str) -> list[str]:
        return [node for node, info in self.nodes.items() if role in info.roles]

    # ---- wire

    def to_wire(self) -> pb.CatalogState:
        under_way = self.replacement
        return pb.CatalogState(
            format=FORMAT,
            version=self.version,
            range_span=self.range_span,
            nodes=[node_to_wire(node, info) for node, info in self.nodes.items()],
            groups=[
                pb.CatalogState.Group(name=name, members=members, parts=self.parts_of(name))
                for name, members in self.groups.items()
            ],
            placements=[
                pb.CatalogState.Placement(database=database, group=group) for database, group in self.placements.items()
            ],
            joined=[pb.CatalogState.Joined(group=group, after_range=after) for group, after in self.joined.items()],
            next_range=self.next_range,
            floor=self.floor,
            options=[
                pb.CatalogState.Option(name=name, value=value)
                for name, value, _ in self.options.items()
                if features.OPTIONS.get(name, features.FIRST) <= self.level  # replicas of two versions are alike
            ],
            replacement=pb.CatalogState.Replacement(old_node=under_way.old_node, new_node=under_way.new_node)
            if under_way
            else None,
            replication=self.replication,
            participant_shards=self.participant_shards,
            foreign=[
                pb.CatalogState.Foreign(name=name, address=address, identity=self.identities.get(name, ""))
                for name, address in self.foreign.items()
            ],
            cluster_id=self.cluster_id,
            grants=map(_GRANTED.to_wire, self.grants.values()),
            ticket_keys=[
                pb.CatalogState.TicketKey(number=number, key=key) for number, key in sorted(self.ticket_keys.items())
            ],
            is_public=self.is_public,
            revoked=sorted(self.revoked),
            limited=[
                pb.CatalogState.Limited(
                    identity=user,
                    limits=[pb.CatalogState.Option(name=name, value=value) for name, value in sorted(own.items())],
                )
                for user, own in sorted(self.limits.items())
            ],
            level=self.level if self.level > features.FIRST else 0,  # as versions that have none write it
            moves=[
                pb.CatalogState.Move(group=move.group, old_node=move.old_node, new_node=move.new_node)
                for move in self.moves
            ],
            reserved=map(reserving.to_wire, self.reserved),
            migrations=[
                pb.CatalogState.Migration(
                    shard=shard_number(part), group=each.group, number=each.number, new_shard=each.new_shard
                )
                for part, each in sorted(self.migrations.items())
            ],
            origins=[pb.CatalogState.Origin(shard=shard, of=of) for shard, of in sorted(self.origins.items())],
        )

    @classmethod
    def from_wire(cls, wire: pb.CatalogState) -> CatalogState:
        """Raises ValueError for a state of another version, and for one that names what cannot be."""
        if wire.format != FORMAT:
            raise ValueError(f"a catalog of format {wire.format}; this release reads {FORMAT}")
        if not (wire.range_span and wire.participant_shards and wire.replication and wire.nodes):
            raise ValueError("a catalog without nodes, shards, replicas or a span of ranges")
        parts = {part: group.name for group in wire.groups for part in group.parts}
        wrong = next((part for part in parts if not _PART.fullmatch(part)), None)
        if wrong is not None:
            raise ValueError(f"{wrong[:100]!r} is no part of a group: a range is status-NUMBER, a shard shard-NUMBER")
        known = {name for name, _, _ in Options().items()}
        return cls(
            wire.range_span,
            {node.node_id: node_from_wire(node) for node in wire.nodes},
            {group.name: tuple(group.members) for group in wire.groups},
            parts,
            wire.replication,
            wire.participant_shards,
            wire.next_range,
            Timestamp(wire.floor),
            Options(**{option.name: option.value for option in wire.options if option.name in known}),
            Replacement(wire.replacement.old_node, wire.replacement.new_node) if wire.HasField("replacement") else None,
            {foreign.name: foreign.address for foreign in wire.foreign},
            {foreign.name: foreign.identity for foreign in wire.foreign if foreign.identity},
            wire.version,
            {each.database: each.group for each in wire.placements},
            {each.group: each.after_range for each in wire.joined},
            wire.cluster_id,
            {each.object: _GRANTED.from_wire(each) for each in wire.grants},
            {each.number: each.key for each in wire.ticket_keys},
            wire.is_public,
            frozenset(wire.revoked),
            {each.identity: {limit.name: limit.value for limit in each.limits} for each in wire.limited},
            wire.level or features.FIRST,
            tuple(Move(move.group, move.old_node, move.new_node) for move in wire.moves),
            tuple(map(reserving.from_wire, wire.reserved)),
            {shard_group(each.shard): _migration(each) for each in wire.migrations},
            {each.shard: each.of for each in wire.origins},
        )


def _migration(wire: pb.CatalogState.Migration) -> Migration:
    return Migration(wire.group, wire.number, wire.new_shard if wire.HasField("new_shard") else None)


to_wire, from_wire = CatalogState.to_wire, CatalogState.from_wire


_GRANTED = Codec[Granted, pb.CatalogState.Granted](Granted, pb.CatalogState.Granted)
_STATUS, _SHARD = "status-", "shard-"
FIRST_GROUP = "group-0"
"""The group of the first range."""
_PART = re.compile(f"(?:{_STATUS}|{_SHARD})(?:0|[1-9][0-9]{{0,18}})")


def group_name(number: int) -> str:
    return f"group-{number}"


def status_group(number: int) -> str:
    return f"{_STATUS}{number}"


def shard_group(shard: int) -> str:
    return f"{_SHARD}{shard}"


def range_number(part: str) -> int | None:
    """None: the part is no range."""
    return int(part.removeprefix(_STATUS)) if part.startswith(_STATUS) else None


def shard_number(part: str) -> int:
    """Raises ValueError where the part is no shard."""
    return int(part.removeprefix(_SHARD))
