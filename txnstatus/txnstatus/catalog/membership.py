"""Which nodes there are, and which replicas each of them has: what commands about that do to the catalog."""

from __future__ import annotations

import re
from dataclasses import replace

from txnstatus import revocation
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import (
    ADDRESS_PATTERN,
    NODE_ID_PATTERN,
    CatalogState,
    Replacement,
)
from txnstatus.catalog.nodes import Drain, NodeInfo
from txnstatus.catalog.placement import Move, after, emptying, moved, plan
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound

MAX_PORT = 65_535
NODE_ROLES = ("manager", "status", "participant")
Command = (
    cmd.ReplaceNode
    | cmd.MoveReplica
    | cmd.FinishReplacement
    | cmd.AddNode
    | cmd.DrainNode
    | cmd.RemoveNode
    | cmd.Rebalance
)


def changed(state: CatalogState, command: Command) -> CatalogState:
    """Raises TxnError."""
    match command:
        case cmd.ReplaceNode(old_node, new_node, address):
            return _replace_node(state, Replacement(old_node, new_node), address)
        case cmd.MoveReplica(group, old_node, new_node):
            return _move_replica(state, Move(group, old_node, new_node))
        case cmd.FinishReplacement():
            return _finish_replacement(state)
        case cmd.AddNode(node, address, roles):
            return _add_node(state, node, NodeInfo(address, roles))
        case cmd.DrainNode(node, drain):
            return _drain_node(state, node, drain)
        case cmd.RemoveNode(node):
            return _remove_node(state, node)
        case cmd.Rebalance(stops):
            return _stop_moves(state) if stops else _rebalance(state)


def drain_of(number: int) -> Drain:
    """What is to be taken from a node, by its number on the wire. Raises InvalidArgument."""
    try:
        return Drain(number)
    except ValueError:
        raise InvalidArgument(f"a node serves (0), leads nothing (1) or leaves (2); not {number}") from None


def check_address(address: str) -> str:
    """Before it is proposed: what was proposed once is taken by every replica. Raises InvalidArgument."""
    port = address.rpartition(":")[2]
    if re.fullmatch(ADDRESS_PATTERN, address) and not 0 < int(port) <= MAX_PORT:
        raise InvalidArgument(f"address {address!r}: nobody listens at port {port}; 1 to {MAX_PORT} are possible")
    return address


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
    if state.moves:
        move = state.moves[0]
        raise IllegalState(
            f"a replica of {move.group} is moved from {move.old_node} to {move.new_node}: no node is replaced then",
            hint="wait for it, or take it back: txnctl rebalance --stop",
        )
    _check_known(state, old)
    _check_new(state, new, address, {info.address for info in state.nodes.values()} - {state.nodes[old].address})
    nodes = {**state.nodes, new: NodeInfo(address, state.nodes[old].roles)}
    return replace(state, nodes=nodes, replacement=wanted)


def _move_replica(state: CatalogState, move: Move) -> CatalogState:
    replaces = state.replacement == Replacement(move.old_node, move.new_node)
    if move.group not in state.groups or not (replaces or state.move_of(move.group) == move):
        raise IllegalState(
            f"no replacement of {move.old_node or 'nobody'} by {move.new_node or 'nobody'} is under way "
            f"in group {move.group[:100]!r}"
        )
    members = state.groups[move.group]
    if replaces:
        members = tuple(move.new_node if member == move.old_node else member for member in members)
        return state if members == state.groups[move.group] else _with_members(state, move.group, members)
    left = list(state.moves)
    left.remove(move)
    return replace(_with_members(state, move.group, moved(members, move)), moves=tuple(left))


def _with_members(state: CatalogState, group: str, members: tuple[str, ...]) -> CatalogState:
    return replace(state, groups={**state.groups, group: members})


def _finish_replacement(state: CatalogState) -> CatalogState:
    if state.replacement is None:
        return state
    old = state.replacement.old_node
    left = [name for name, members in state.groups.items() if old in members]
    if left:
        raise IllegalState(f"{old} is still a member of {', '.join(left)}")
    nodes = {node: info for node, info in state.nodes.items() if node != old}
    return replace(state, nodes=nodes, replacement=None, revoked=state.revoked | {revocation.of_name("node", old)})


def _check_new(state: CatalogState, node: str, address: str, others: set[str]) -> None:
    if node in state.nodes or revocation.of_name("node", node) in state.revoked:
        raise AlreadyExists(f"{node!r} is a node already, or was one: a new node needs a name that none has had")
    if address in others:
        raise AlreadyExists(f"address {address} is another node's")
    if not (re.fullmatch(NODE_ID_PATTERN, node) and re.fullmatch(ADDRESS_PATTERN, address)):
        raise InvalidArgument(f"a new node needs a name and an address, host:port; not {node!r} and {address!r}")


def _check_known(state: CatalogState, node: str) -> None:
    if node not in state.nodes:
        raise NotFound(f"no node {node[:100]!r}; there are {', '.join(state.nodes)}")


def _check_not_replacing(state: CatalogState, what: str) -> None:
    if (under_way := state.replacement) is not None:
        raise IllegalState(
            f"{under_way.new_node} is taking the place of {under_way.old_node}: {what} then",
            hint="wait for it: txnctl status",
        )


def _add_node(state: CatalogState, node: str, info: NodeInfo) -> CatalogState:
    known = state.nodes.get(node)
    if known is not None and (known.address, known.roles) == (info.address, info.roles):
        return state
    _check_new(state, node, info.address, {other.address for other in state.nodes.values()})
    wrong = [role for role in info.roles if role not in NODE_ROLES]
    if wrong or not info.roles:
        raise InvalidArgument(f"a node has some of the roles {', '.join(NODE_ROLES)}; not {', '.join(wrong) or 'none'}")
    return replace(state, nodes={**state.nodes, node: info})


def _drain_node(state: CatalogState, node: str, drain: Drain) -> CatalogState:
    _check_known(state, node)
    info = state.nodes[node]
    if info.drain == drain:
        return state
    drained = replace(state, nodes={**state.nodes, node: replace(info, drain=drain)})
    if drain != Drain.LEAVES:
        return drained
    _check_not_replacing(state, "no other one leaves")
    moves = emptying(drained.placement)
    staying = [group for group, members in after(drained.placement.groups, moves).items() if node in members]
    if staying:
        raise IllegalState(
            f"{node} cannot leave: its replica of {staying[0]} could go nowhere, all other nodes that may have one do",
            hint="add a node first (txnctl node add), or let a new one take its place (txnctl node replace)",
        )
    return replace(drained, moves=(*state.moves, *moves))


def _remove_node(state: CatalogState, node: str) -> CatalogState:
    gone = revocation.of_name("node", node)
    if node not in state.nodes and gone in state.revoked:
        return state
    _check_known(state, node)
    holds = [group for group, members in state.groups.items() if node in members]
    holds += [move.group for move in state.moves if node in (move.old_node, move.new_node)]
    if holds:
        raise IllegalState(
            f"{node} holds replicas, or is to: of {', '.join(dict.fromkeys(holds))}",
            hint=f"txnctl node drain {node} --move first; where it is dead, txnctl node replace",
        )
    _check_not_replacing(state, "no node is removed")
    nodes = {name: info for name, info in state.nodes.items() if name != node}
    return replace(state, nodes=nodes, revoked=state.revoked | {gone})


def _rebalance(state: CatalogState) -> CatalogState:
    _check_not_replacing(state, "nothing else moves")
    moves = plan(state.placement)
    return replace(state, moves=(*state.moves, *moves)) if moves else state


def _stop_moves(state: CatalogState) -> CatalogState:
    under_way = [move for group in state.groups if (move := state.move_of(group)) is not None]
    turned = tuple(_taken_back(state, move) for move in under_way)
    return state if turned == state.moves else replace(state, moves=turned)


def _taken_back(state: CatalogState, move: Move) -> Move:
    """Whoever was to go stays, and whoever has come goes: turned round, unless it is one that was turned before."""
    returns = not move.new_node or move.new_node in state.groups[move.group]
    return move if returns else Move(move.group, move.new_node, move.old_node)
