"""The catalog: the replicated state that says what there is in the cluster, and where.

Small and rarely changed, so its state is one immutable value. `apply` is total and deterministic.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from txnstatus.catalog.options import Options
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.foreign import check_foreign_name, check_identity
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId
from txnstatus.wire import checked_timestamp

CATALOG = "catalog"
"""The name of the group that holds the catalog itself."""
FORMAT = 1
NODE_ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
ADDRESS_PATTERN = r"^[^\s:/]{1,255}:[0-9]{1,5}$"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    address: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """Under way: in every group, `new_node` takes the place of `old_node`."""

    old_node: str
    new_node: str


@dataclass(frozen=True)
class CatalogState:
    range_span: int
    nodes: Mapping[str, NodeInfo]
    groups: Mapping[str, tuple[str, ...]]
    """Every group's members; the first is to lead it, if it can."""
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
    """Which systems these are, by name, as far as their hosts have said so."""
    version: int = 0

    @cached_property
    def ranges(self) -> tuple[int, ...]:
        """The numbers of the live status ranges, the oldest first."""
        return tuple(sorted(int(name.removeprefix(_STATUS)) for name in self.groups if name.startswith(_STATUS)))

    def range_of(self, txn_id: TxnId) -> int:
        return txn_id // self.range_span

    def range_was_dropped(self, number: int) -> bool:
        return number < self.next_range and status_group(number) not in self.groups

    def replicas(self, group: str) -> tuple[str, ...]:
        """The members, and who is about to become one: it may lead the group before the catalog hears of it."""
        members, under_way = self.groups.get(group, ()), self.replacement
        if under_way is None or under_way.old_node not in members:
            return members
        return tuple(dict.fromkeys([*members, under_way.new_node]))

    def with_role(self, role: str) -> list[str]:
        return [node for node, info in self.nodes.items() if role in info.roles]


def initial(
    nodes: Mapping[str, NodeInfo], *, participant_shards: int, replication: int, range_span: int, options: Options
) -> CatalogState:
    """What a cluster begins with: a function of its configuration, the same on every node."""
    state = CatalogState(range_span, nodes, {}, replication, participant_shards, options=options)
    status, participants = state.with_role("status"), state.with_role("participant")
    groups = {
        CATALOG: placed(status, 0, replication),
        status_group(0): placed(status, 0, replication),
        **{shard_group(shard): placed(participants, shard, replication) for shard in range(participant_shards)},
    }
    return replace(state, groups=groups)


def placed(candidates: Sequence[str], number: int, replication: int) -> tuple[str, ...]:
    """The members of the `number`th group of a kind: from a start that differs by group, so that groups spread."""
    start = number % len(candidates)
    return tuple([*candidates[start:], *candidates[:start]][:replication])


_STATUS = "status-"


def status_group(number: int) -> str:
    return f"{_STATUS}{number}"


def shard_group(shard: int) -> str:
    return f"shard-{shard}"


# ---- commands


@dataclass(frozen=True, slots=True)
class Applied:
    state: CatalogState


@dataclass(frozen=True, slots=True)
class Rejected:
    error: TxnError


class Catalog:
    """Only `apply` and `restore` change it."""

    def __init__(self, state: CatalogState) -> None:
        self.state = state

    def apply(self, command: pb.CatalogCommand) -> Applied | Rejected:
        """A command that changes nothing, because it is done already, is applied."""
        try:
            changed = _changed(self.state, command)
        except TxnError as error:
            return Rejected(error)
        except ValueError as error:
            return Rejected(InvalidArgument(str(error)))
        if changed is not self.state:
            self.state = replace(changed, version=self.state.version + 1)
        return Applied(self.state)

    def restore(self, data: bytes) -> None:
        """Raises ValueError for a state of another version."""
        self.state = from_wire(pb.CatalogState.FromString(data))


def _changed(state: CatalogState, command: pb.CatalogCommand) -> CatalogState:
    kind = command.WhichOneof("command")
    if state.version == 0 and kind != "found":
        raise Unavailable("the catalog is not founded yet")
    match kind:
        case "found":
            # Configurations may differ a little between nodes; from here on the first leader's is everybody's.
            return replace(from_wire(command.found), version=0) if state.version == 0 else state
        case "add_range":
            return _add_range(state, command.add_range.number)
        case "drop_range":
            drop = command.drop_range
            return _drop_range(state, drop.number, checked_timestamp(drop.last_commit_timestamp))
        case "set_option":
            options = state.options.with_value(command.set_option.name, command.set_option.value)
            return state if options == state.options else replace(state, options=options)
        case "replace_node":
            wanted = command.replace_node
            return _replace_node(state, Replacement(wanted.old_node, wanted.new_node), wanted.address)
        case "move_replica":
            return _move_replica(state, command.move_replica.group)
        case "finish_replacement":
            return _finish_replacement(state)
        case "register_foreign":
            return _register_foreign(state, command.register_foreign)
        case "remove_foreign":
            return _remove_foreign(state, command.remove_foreign.name)
        case unknown:
            raise InvalidArgument(f"no catalog command of this version: {unknown!r}")


def _add_range(state: CatalogState, number: int) -> CatalogState:
    if number < state.next_range:
        return state
    if number > state.next_range:
        raise IllegalState(f"range {number} cannot be added: the next one is {state.next_range}")
    # Not on a node that is about to go: the new one may be a member of its own right, and no move could mend that.
    goes = state.replacement.old_node if state.replacement else None
    members = placed([node for node in state.with_role("status") if node != goes], number, state.replication)
    return replace(state, groups={**state.groups, status_group(number): members}, next_range=number + 1)


def _drop_range(state: CatalogState, number: int, last_commit: Timestamp) -> CatalogState:
    if state.range_was_dropped(number):
        return state
    if number >= state.next_range - 1:
        raise IllegalState(f"range {number} cannot be dropped: none follows it")
    groups = {name: members for name, members in state.groups.items() if name != status_group(number)}
    return replace(state, groups=groups, floor=max(state.floor, last_commit))


def _replace_node(state: CatalogState, wanted: Replacement, address: str) -> CatalogState:
    old, new = wanted.old_node, wanted.new_node
    if state.replacement == wanted:
        return state
    if state.replacement is not None:
        under_way = state.replacement
        raise IllegalState(
            f"{under_way.new_node} is still taking the place of {under_way.old_node}: one replacement at a time",
            hint="wait for it: txnctl status",
        )
    if old not in state.nodes:
        raise NotFound(f"no node {old!r}; there are {', '.join(state.nodes)}")
    if new in state.nodes:
        raise AlreadyExists(f"{new!r} is a node already: a new node needs a name that none has had")
    if address in {info.address for info in state.nodes.values()} - {state.nodes[old].address}:
        raise AlreadyExists(f"address {address} is another node's")
    if not (re.fullmatch(NODE_ID_PATTERN, new) and re.fullmatch(ADDRESS_PATTERN, address)):
        raise InvalidArgument(f"a new node needs a name and an address, host:port; not {new!r} and {address!r}")
    nodes = {**state.nodes, new: NodeInfo(address, state.nodes[old].roles)}
    return replace(state, nodes=nodes, replacement=wanted)


def _move_replica(state: CatalogState, group: str) -> CatalogState:
    if state.replacement is None or group not in state.groups:
        raise IllegalState(f"no replacement is under way in group {group!r}")
    old, new = state.replacement.old_node, state.replacement.new_node
    members = tuple(new if member == old else member for member in state.groups[group])
    return state if members == state.groups[group] else replace(state, groups={**state.groups, group: members})


def _finish_replacement(state: CatalogState) -> CatalogState:
    if state.replacement is None:
        return state
    old = state.replacement.old_node
    left = [name for name, members in state.groups.items() if old in members]
    if left:
        raise IllegalState(f"{old} is still a member of {', '.join(left)}")
    nodes = {node: info for node, info in state.nodes.items() if node != old}
    return replace(state, nodes=nodes, replacement=None)


def _register_foreign(state: CatalogState, wanted: pb.CatalogCommand.RegisterForeign) -> CatalogState:
    name, address, identity = wanted.name, wanted.address, wanted.identity
    check_foreign_name(name)
    check_identity(identity)
    if not re.fullmatch(ADDRESS_PATTERN, address):
        raise InvalidArgument(f"a foreign participant needs the address of its host, host:port; not {address[:100]!r}")
    if state.foreign.get(name) == "":
        # What it still has prepared, nobody may know the outcome of any more.
        raise IllegalState(f"the foreign participant {name} was removed: another one needs a name that none has had")
    known = state.identities.get(name, "")
    if known not in ("", identity):
        # What the one has prepared, the other cannot publish.
        raise IllegalState(
            f"the foreign participant {name} is {known}, whose host is at {state.foreign[name]}; "
            f"the host at {address} serves {identity or 'a system that it does not name'}",
            hint="start it with the system that the participant is, or choose another name",
        )
    if state.foreign.get(name) == address and known == identity:
        return state
    identities = {**state.identities, name: identity} if identity else state.identities
    return replace(state, foreign={**state.foreign, name: address}, identities=identities)


def _remove_foreign(state: CatalogState, name: str) -> CatalogState:
    if name not in state.foreign:
        raise NotFound(f"no foreign participant {name[:100]!r}; there are {', '.join(state.foreign) or 'none'}")
    return replace(state, foreign={**state.foreign, name: ""}) if state.foreign[name] else state


# ---- wire


def to_wire(state: CatalogState) -> pb.CatalogState:
    return pb.CatalogState(
        format=FORMAT,
        version=state.version,
        range_span=state.range_span,
        nodes=[
            pb.CatalogState.Node(node_id=node, address=info.address, roles=info.roles)
            for node, info in state.nodes.items()
        ],
        groups=[pb.CatalogState.Group(name=name, members=members) for name, members in state.groups.items()],
        next_range=state.next_range,
        floor=state.floor,
        options=[pb.CatalogState.Option(name=name, value=value) for name, value, _ in state.options.items()],
        replacement=_replacement_to_wire(state.replacement),
        replication=state.replication,
        participant_shards=state.participant_shards,
        foreign=[
            pb.CatalogState.Foreign(name=name, address=address, identity=state.identities.get(name, ""))
            for name, address in state.foreign.items()
        ],
    )


def _replacement_to_wire(replacement: Replacement | None) -> pb.CatalogState.Replacement | None:
    if replacement is None:
        return None
    return pb.CatalogState.Replacement(old_node=replacement.old_node, new_node=replacement.new_node)


def from_wire(wire: pb.CatalogState) -> CatalogState:
    """Raises ValueError for a state of another version."""
    if wire.format != FORMAT:
        raise ValueError(f"a catalog of format {wire.format}; this release reads {FORMAT}")
    if not (wire.range_span and wire.participant_shards and wire.replication and wire.nodes):
        raise ValueError("a catalog without nodes, shards, replicas or a span of ranges")
    known = {name for name, _, _ in Options().items()}
    return CatalogState(
        wire.range_span,
        {node.node_id: NodeInfo(node.address, tuple(node.roles)) for node in wire.nodes},
        {group.name: tuple(group.members) for group in wire.groups},
        wire.replication,
        wire.participant_shards,
        wire.next_range,
        Timestamp(wire.floor),
        Options(**{option.name: option.value for option in wire.options if option.name in known}),
        Replacement(wire.replacement.old_node, wire.replacement.new_node) if wire.HasField("replacement") else None,
        {foreign.name: foreign.address for foreign in wire.foreign},
        {foreign.name: foreign.identity for foreign in wire.foreign if foreign.identity},
        wire.version,
    )
