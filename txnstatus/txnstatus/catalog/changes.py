"""What a command does to the catalog. `Catalog.apply` is total and deterministic."""

from __future__ import annotations

import re
from dataclasses import replace

from txnstatus import features, revocation
from txnstatus.catalog import commands as cmd
from txnstatus.catalog import membership, migrations, reserving
from txnstatus.catalog.catalog import (
    ADDRESS_PATTERN,
    CATALOG,
    FIRST_GROUP,
    CatalogState,
    from_wire,
    group_name,
    shard_group,
    status_group,
)
from txnstatus.catalog.founding import placed
from txnstatus.catalog.grants import grants_after
from txnstatus.catalog.limits import limits_after
from txnstatus.catalog.nodes import Drain
from txnstatus.codec import wholly_known
from txnstatus.errors import IllegalState, InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.features import Levels
from txnstatus.foreign import check_foreign_name, check_identity
from txnstatus.limits import KEPT_TICKET_KEYS, TICKET_KEY_BYTES
from txnstatus.names import is_database_name
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.replicated import Rejected
from txnstatus.types import Timestamp
from txnstatus.wire import checked_timestamp

MAX_VERSION = 100
"""Characters of a node's version that are kept."""


class Catalog:
    """Only `apply` and `restore` change it."""

    def __init__(self, state: CatalogState) -> None:
        self.state = state

    def apply(self, command: cmd.Command) -> CatalogState | Rejected:
        """The state as it is then; also where the command changes nothing, because it is done already."""
        try:
            changed = _changed(self.state, command)
        except TxnError as error:
            return Rejected(error)
        if changed is not self.state:
            self.state = replace(changed, version=self.state.version + 1)
        return self.state

    def restore(self, data: bytes) -> None:
        """Raises ValueError for a state of another version."""
        self.state = from_wire(wholly_known(pb.CatalogState.FromString(data)))


def _changed(state: CatalogState, command: cmd.Command) -> CatalogState:
    if state.version == 0 and not isinstance(command, cmd.Found):
        raise Unavailable("the catalog is not founded yet")
    match command:
        case cmd.Found(founded):
            # Configurations may differ a little between nodes; from here on the first leader's is everybody's.
            return replace(founded, version=0) if state.version == 0 else state
        case cmd.AddRange(after):
            return _add_range(state, after)
        case cmd.DropRange(number, last_commit_ts):
            return _drop_range(state, number, checked_timestamp(last_commit_ts))
        case cmd.AddGroup(name):
            return _add_group(state, name)
        case cmd.PlaceDatabase(database, group):
            return _place_database(state, database, group)
        case cmd.SetOption(name, value):
            options = state.options.with_value(name, value)
            return state if options == state.options else replace(state, options=options)
        case cmd.TurnTicketKey(after, key):
            return _turn_ticket_key(state, after, key)
        case cmd.Distrust(what, restores):
            return _distrust(state, what, restores=restores)
        case (
            cmd.ReplaceNode()
            | cmd.MoveReplica()
            | cmd.FinishReplacement()
            | cmd.AddNode()
            | cmd.DrainNode()
            | cmd.RemoveNode()
            | cmd.Rebalance()
        ):
            return membership.changed(state, command)
        case cmd.RegisterForeign():
            return _register_foreign(state, command)
        case cmd.RemoveForeign(name):
            return _remove_foreign(state, name)
        case cmd.RaiseLevel(level):
            return _raise_level(state, level)
        case cmd.RegisterNode():
            return _register_node(state, command)
        case cmd.Grant() | cmd.Revoke() | cmd.ForgetGrants():
            grants = grants_after(state.grants, command)
            return state if grants == state.grants else replace(state, grants=grants)
        case cmd.MigrateShard() | cmd.SplitShard() | cmd.FinishMigration():
            return migrations.changed(state, command)
        case cmd.SetLimit():
            limits = limits_after(state.limits, command)
            return state if limits == state.limits else replace(state, limits=limits)
        case cmd.ReservePlace(wanted, ended):
            reserved = reserving.with_reservation(state.reserved, wanted, ended)
            return state if reserved == state.reserved else replace(state, reserved=reserved)
        case cmd.FreePlace(number):
            reserved = reserving.without_reservation(state.reserved, number)
            return state if reserved == state.reserved else replace(state, reserved=reserved)


def _add_range(state: CatalogState, after: int) -> CatalogState:
    if after >= state.next_range:
        raise IllegalState(f"no range can follow range {after}: the next one is {state.next_range}")
    group = state.parts.get(status_group(after), "")
    if state.last_ranges.get(group) != after:  # one follows it already; a dropped one was followed before
        return state
    waiting = state.without_ranges if group == FIRST_GROUP else ()
    added = {status_group(number): each for number, each in enumerate((group, *waiting), start=state.next_range)}
    return replace(
        state,
        parts={**state.parts, **added},
        next_range=state.next_range + len(added),
        joined={**state.joined, **dict.fromkeys(waiting, after)},
    )


def _add_group(state: CatalogState, name: str) -> CatalogState:
    if name in state.groups and name != CATALOG:
        return state
    number = len(state.groups) - 1  # beside the catalog's
    if name != group_name(number):
        raise InvalidArgument(f"no group can be called {name[:100]!r}: the next one is {group_name(number)}")
    if state.replacement is not None:
        raise IllegalState(
            f"{state.replacement.new_node} is taking the place of {state.replacement.old_node}: no group begins then",
            hint="wait for it: txnctl status",
        )
    first, count = state.shards[-1] + 1, len(state.shards) // len(state.shards_of)
    shards = {shard_group(first + more): name for more in range(count)}
    staying = [node for node in state.with_role("participant") if state.nodes[node].drain != Drain.LEAVES]
    members = placed(staying, number, state.replication)
    return replace(state, groups={**state.groups, name: members}, parts={**state.parts, **shards})


def _place_database(state: CatalogState, database: str, group: str) -> CatalogState:
    if not is_database_name(database):
        raise InvalidArgument(f"{database[:200]!r} is no name of a database")
    if group:
        state.check_placement(group)
    others = {name: placed for name, placed in state.placements.items() if name != database}
    placements = {**others, database: group} if group else others
    return state if placements == state.placements else replace(state, placements=placements)


def _turn_ticket_key(state: CatalogState, after: int, key: bytes) -> CatalogState:
    if after > state.ticket_key:
        raise IllegalState(f"no key of tickets can follow number {after}: the newest is {state.ticket_key}")
    if len(key) != TICKET_KEY_BYTES:
        raise InvalidArgument(f"a key of tickets has {TICKET_KEY_BYTES} bytes, not {len(key)}")
    if after < state.ticket_key:
        return state  # another one has followed already
    newest = sorted({**state.ticket_keys, after + 1: key}.items())[-KEPT_TICKET_KEYS:]
    return replace(state, ticket_keys=dict(newest))


def _distrust(state: CatalogState, what: str, *, restores: bool) -> CatalogState:
    kind, name = revocation.parse(what)
    if kind == "node" and name in state.nodes and not restores:
        raise IllegalState(
            f"{name} is a node of the cluster: it would be cut off",
            hint="revoke a certificate of it by its serial number, or replace the node",
        )
    revoked = state.revoked - {what} if restores else state.revoked | {what}
    if len(revoked) > revocation.MAX_REVOKED:
        raise InvalidArgument(
            f"{revocation.MAX_REVOKED} names and certificates are revoked, and no more can be",
            hint="have an authority follow the one that has issued them, and those count again that it has not",
        )
    return state if revoked == state.revoked else replace(state, revoked=revoked)


def _drop_range(state: CatalogState, number: int, last_commit: Timestamp) -> CatalogState:
    if state.range_was_dropped(number):
        return state
    if number >= state.next_range or number in state.last_ranges.values():
        raise IllegalState(f"range {number} cannot be dropped: none follows it")
    parts = {part: group for part, group in state.parts.items() if part != status_group(number)}
    return replace(state, parts=parts, floor=max(state.floor, last_commit))


def _raise_level(state: CatalogState, level: int) -> CatalogState:
    """What nodes have said in the catalog counts, and no more: by that alone all replicas decide alike."""
    if level == state.level:
        return state
    if level < state.level:
        raise IllegalState(f"the cluster is at feature level {state.level}, which only goes up: not to {level}")
    said = {node: info.levels for node, info in state.nodes.items() if info.levels or state.level > features.FIRST}
    if found := features.hindrances(said, level):
        raise IllegalState(
            f"feature level {level} is not for all nodes: {'; '.join(found)}",
            hint="txnctl upgrade show: start each node with a version that does it",
        )
    return replace(state, level=level)


def _register_node(state: CatalogState, wanted: cmd.RegisterNode) -> CatalogState:
    known = state.nodes.get(wanted.node_id)
    if known is None:
        raise NotFound(f"no node {wanted.node_id[:100]!r}; there are {', '.join(state.nodes)}")
    levels = Levels(wanted.oldest_level, wanted.newest_level)
    if (refusal := features.refusal(wanted.node_id, levels, state.level)) is not None:
        raise IllegalState(refusal)
    info = replace(known, version=wanted.version[:MAX_VERSION], levels=levels)
    return state if info == known else replace(state, nodes={**state.nodes, wanted.node_id: info})


def _register_foreign(state: CatalogState, wanted: cmd.RegisterForeign) -> CatalogState:
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
