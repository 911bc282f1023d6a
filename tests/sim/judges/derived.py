"""Whether a state machine is what its snapshot makes anew: every index, counter and cache, not only what is saved.

What a snapshot says is compared among replicas, byte by byte. What it leaves out, because it follows from the rest, is
compared here: the state in force with one that was restored from its snapshot this moment, attribute by attribute.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from txnparticipant.leader.machine import ShardMachine
from txnparticipant.rows.changed_keys import ChangedKeys
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.service import CatalogMachine
from txnstatus.raft.machine import StateMachine
from txnstatus.replicated import Story
from txnstatus.status.finished import Finished
from txnstatus.status.machine import StatusMachine
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import HybridClock

MAX_TOLD = 5
_OWN: Mapping[type, frozenset[str]] = {
    TableState: frozenset({"_info", "fresh"}),
    ChangedKeys: frozenset({"_places"}),  # its runs go by the order in which the commits came
    TxnStatusTable: frozenset({"_oldest_kept"}),
    Finished: frozenset({"gone"}),  # for who leads, and writes down what has ended since he looked
}
"""What a process has of its own: what it made, of whom it told, how far it has looked, and what went."""
_PLAIN = (int, str, bytes, float, bool, type(None))
_State = ParticipantShard | TxnStatusTable | Catalog


def faults(machine: StateMachine) -> list[str]:
    """Differences between the machine's state and what its snapshot restores, some of them."""
    state = _state(machine)
    anew = _anew(machine)
    if state is None or anew is None:
        return []
    restoring = anew.restoring()
    for chunk in machine.snapshot():
        restoring.add(chunk)
    restoring.finish()
    found = _differences(state, _state(anew), type(state).__name__)
    return [story for story, _ in zip(found, range(MAX_TOLD), strict=False)]


def _state(machine: StateMachine) -> _State | None:
    match machine:
        case ShardMachine():
            return machine.shard
        case StatusMachine():
            assert machine.table.oldest_kept <= machine.table.end_txn_id
            return machine.table
        case CatalogMachine():
            return machine.catalog
    return None


def _anew(machine: StateMachine) -> StateMachine | None:
    match machine:
        case ShardMachine():
            return ShardMachine(machine.shard.shard, machine.range_of)
        case StatusMachine():
            table = TxnStatusTable(machine.table.first_txn_id, machine.table.end_txn_id)
            return StatusMachine(table, HybridClock(lambda: 0), lambda _txn_id, _id: None)
        case CatalogMachine():
            return CatalogMachine(machine.catalog.state, lambda _state: None)
    return None


def _differences(one: Any, other: Any, path: str) -> Iterator[str]:
    if one is other or isinstance(one, Story):
        return
    if isinstance(one, _PLAIN) or type(one) is not type(other):
        if one != other:
            yield f"{path} is {one!r}; made anew it is {other!r}"
    elif isinstance(one, Mapping):
        yield from _of_mappings(one, other, path)
    elif isinstance(one, (set, frozenset)):
        if one != other:
            yield f"{path} is {one!r}; made anew it is {other!r}"
    elif isinstance(one, (list, tuple)) or hasattr(one, "popleft"):
        if len(one) != len(other):
            yield f"{path} is {one!r}; made anew it is {other!r}"
        for number, pair in enumerate(zip(one, other, strict=False)):
            yield from _differences(*pair, f"{path}[{number}]")
    else:
        names = _attributes(one)
        for name in names if names else ():
            ours, theirs = getattr(one, name), getattr(other, name)
            if isinstance(one, ChangedKeys) and name == "_commits":
                ours, theirs = sorted(ours), sorted(theirs)  # a heap
            elif isinstance(one, ChangedKeys) and name == "_prepared_places":
                ours, theirs = set(ours), set(theirs)  # each is put in order when it is first looked into
            yield from _differences(ours, theirs, f"{path}.{name}")
        if not names and one != other:
            yield f"{path} is {one!r}; made anew it is {other!r}"


def _of_mappings(one: Mapping[Any, Any], other: Mapping[Any, Any], path: str) -> Iterator[str]:
    """The order of keys is no part of it; nor is what counts nothing."""
    if isinstance(one, Counter):
        one, other = +Counter(one), +Counter(other)
    for key in [*one, *(key for key in other if key not in one)]:
        if key not in other:
            yield f"{path} has {key!r}: {one[key]!r}; made anew it has not"
        elif key not in one:
            yield f"{path} has no {key!r}; made anew it has: {other[key]!r}"
        else:
            yield from _differences(one[key], other[key], f"{path}[{key!r}]")


@functools.cache
def _fields(kind: type) -> list[str]:
    own = _OWN.get(kind, frozenset())
    names = getattr(kind, "__struct_fields__", None) or [field.name for field in dataclasses.fields(kind)]
    return [name for name in names if name not in own]


def _attributes(thing: Any) -> list[str]:
    kind: Any = type(thing)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "__struct_fields__"):
        return _fields(kind)
    own = _OWN.get(kind, frozenset())
    return [name for name, value in getattr(thing, "__dict__", {}).items() if name not in own and not callable(value)]
