"""Calls to managers, as every simulated program makes them, and what operators ask for."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import Message

from tests.sim.actors.bank import ACCOUNTS, KEYED_ACCOUNTS, Bank
from tests.sim.actors.books import Books
from tests.sim.actors.rolls import Rolls
from tests.sim.judges.annals import Annals
from tests.sim.judges.exclusion import Had
from tests.sim.judges.ledger import Ledger
from tests.sim.judges.points import Points
from tests.sim.judges.ruins import Ruins
from tests.sim.world.warehouse import Warehouse
from txnstatus.catalog.catalog import from_wire, shard_group
from txnstatus.errors import AlreadyExists, IllegalState, InvalidArgument, NotFound, Unavailable
from txnstatus.proto import admin_pb2, table_pb2, txn_manager_pb2, txn_savepoint_pb2
from txnstatus.rpc.channel import PeerChannel

ResponseT = TypeVar("ResponseT", bound=Message)

COMES_LATE: Mapping[type[Message], type[Message]] = {
    txn_manager_pb2.BeginTransactionRequest: txn_manager_pb2.BeginTransactionResponse,
    txn_manager_pb2.CommitTransactionRequest: txn_manager_pb2.CommitTransactionResponse,
    txn_manager_pb2.AbortTransactionRequest: txn_manager_pb2.AbortTransactionResponse,
    table_pb2.OpenWriteRequest: table_pb2.OpenWriteResponse,
    table_pb2.AddFilesRequest: table_pb2.AddFilesResponse,
    txn_savepoint_pb2.SetSavepointRequest: txn_savepoint_pb2.SetSavepointResponse,
    txn_savepoint_pb2.RollbackToRequest: txn_savepoint_pb2.RollbackToResponse,
}
"""Requests that programs may send again (see latecomer.py), and the answers to them."""
SHARED = (
    "changes_options", "groups", "writes_rows", "keeps_rolls", "looks_back", "rebuilds", "locks", "foreign", "lingers",
    "haste", "overwrites", "crowd", "comes_late", "carries", "goes_back", "chronicles",
)  # fmt: skip
"""What programs hear of a scenario."""
CALL_SECONDS = 4.0
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Sent:
    method: str
    request: Message


@dataclass
class Shared:
    """What the simulated programs have in common."""

    addresses: list[str]
    tables: Sequence[str]
    ledger: Ledger
    warehouse: Warehouse
    now: Callable[[], float]
    keepalive_millis: int
    annals: Annals
    tokens: list[bytes] = field(default_factory=list)
    """Tokens that go from program to program."""
    bank: Bank = field(init=False)
    books: Books = field(default_factory=Books)
    rolls: Rolls = field(default_factory=Rolls)
    points: Points = field(default_factory=Points)
    ruins: Ruins = field(default_factory=lambda: Ruins(lambda: 0.0, 1))
    writes_rows: bool = False
    keeps_rolls: bool = False
    looks_back: bool = False
    """Whether they take back what they did to these, and make savepoints."""
    locks: bool = False
    """Whether programs lock tables and partitions by themselves."""
    foreign: bool = False
    """Whether programs also work in a foreign participant."""
    lingers: bool = False
    """Whether they take long between that work and the end, and come back after it."""
    haste: float = 0.15
    """Chance that a transaction is ended while a first write of it is on its way."""
    overwrites: float = 0.2
    """Share of the writes with files that overwrite."""
    crowd: int = 1
    """How many of each kind are at work in each program, beside its sessions."""
    comes_late: bool = False
    """Whether programs send again what was answered long ago."""
    carries: bool = False
    """Whether begins carry first writes."""
    goes_back: bool = False
    """Whether transfers go back to savepoints."""
    chronicles: bool = False
    """Whether they read the timeline."""
    sent: deque[Sent] = field(default_factory=lambda: deque(maxlen=12))
    """What was sent, and may come again."""
    work: Callable[[int], None] = lambda _txn_id: None
    """Prepares a program's work there, for a transaction."""
    had: list[Had] = field(default_factory=list)
    """All locks that programs were granted."""
    rebuilds: bool = False
    """Whether programs drop tables, and make others of their names."""
    snapshots: list[int] = field(default_factory=list)
    changes_options: bool = False
    groups: int = 1
    """Groups that there are, as far as programs know: where there are several, a transaction begins near a table."""
    repeats: bool = False
    """Whether requests are carried out again that were answered."""
    holds_snapshots: bool = False
    """Whether programs also read under leases."""
    refused: Callable[[str, str], None] = lambda *_: None
    """Hears of every table that could not be read, and why."""
    stopping: bool = False
    calls: int = 0

    def __post_init__(self) -> None:
        self.bank = Bank({**ACCOUNTS, **KEYED_ACCOUNTS} if self.writes_rows else ACCOUNTS)


class Caller:
    """One process's way to the managers."""

    def __init__(self, name: str, rng: random.Random, shared: Shared, log: Callable[[str], None]) -> None:
        self._name, self._rng, self._shared, self._log = name, rng, shared, log
        self._ledger = shared.ledger
        self._channels = [PeerChannel(address) for address in shared.addresses]
        self._numbers = 0

    async def _call(
        self, method: str, request: Message, response: type[ResponseT], timeout: float = CALL_SECONDS
    ) -> ResponseT:
        """Asks a manager, and after a retriable answer another one. Raises the last answer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self._shared.calls += 1
        if self._shared.comes_late:
            self._note(method, request)
        while True:
            channel = self._rng.choice(self._channels)
            try:
                return await channel.call(method, request, response, self._rng.uniform(0.3, timeout))
            except Unavailable:
                if isinstance(request, txn_manager_pb2.BeginTransactionRequest):
                    request.is_retry = True
                if loop.time() > deadline or self._shared.stopping:
                    raise
            await asyncio.sleep(self._rng.uniform(0.01, 0.2))

    def _note(self, method: str, request: Message) -> None:
        """What may come again is as it was when it was sent for the first time."""
        if type(request) in COMES_LATE:
            self._shared.sent.append(Sent(method, copy.deepcopy(request)))

    def _id(self) -> str:
        self._numbers += 1
        return f"{self._name}-{self._numbers}"

    async def set_option(self, name: str, value: int) -> None:
        """Until it is acknowledged."""
        while True:
            with contextlib.suppress(Unavailable):
                return await self._set_option(name, value)

    async def _set_option(self, name: str, value: int) -> None:
        request = admin_pb2.SetOptionRequest(name=name, value=value)
        await self._call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)
        self._log(f"set {name} to {value}")

    async def add_group(self) -> None:
        """As `txnctl group add`: returns when tables can be placed there, or the operator is to wait."""
        name = ""
        while True:
            try:
                if not name:
                    seen = await self._call(
                        "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
                    )
                    name = f"group-{len(seen.catalog.groups) - 1}"
                order = admin_pb2.AddGroupRequest(name=name)
                await self._call("txnstatus.Admin/AddGroup", order, admin_pb2.AddGroupResponse)
            except IllegalState as error:
                self._log(f"no group is added: {error.message}")
                return
            except Unavailable as error:
                self._log(f"{name} is not there yet: {error.message}")
            else:
                self._log(f"added {name}")
                self._shared.groups += 1
                return

    async def migrate(self, which: float) -> None:
        """As `txnctl shard move`, of a shard that is not alone in its group; nothing, where there is no other group."""
        asked, answer = admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
        seen = from_wire((await self._until_heard("txnstatus.Admin/GetCluster", asked, answer)).catalog)
        ways = [
            (shard, group)
            for shard in seen.shards
            for group in seen.shards_of
            if group != seen.parts[shard_group(shard)]
        ]
        if not ways:
            return
        shard, group = ways[int(which * len(ways))]
        order = admin_pb2.MigrateShardRequest(shard=shard, group=group)
        try:
            await self._until_heard("txnstatus.Admin/MigrateShard", order, admin_pb2.MigrateShardResponse)
        except IllegalState as error:
            self._log(f"shard {shard} stays: {error.message}")
        else:
            self._log(f"shard {shard} goes to {group}")

    async def split(self, which: float) -> None:
        """As `txnctl shard split`."""
        asked, answer = admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
        seen = from_wire((await self._until_heard("txnstatus.Admin/GetCluster", asked, answer)).catalog)
        shard, new = seen.shards[int(which * len(seen.shards))], seen.shards[-1] + 1
        order = admin_pb2.SplitShardRequest(shard=shard, new_shard=new)
        try:
            await self._until_heard("txnstatus.Admin/SplitShard", order, admin_pb2.SplitShardResponse)
        except (IllegalState, InvalidArgument) as error:
            self._log(f"shard {shard} stays whole: {error.message}")
        else:
            self._log(f"shard {shard} is split into {shard} and {new}")

    async def raise_level(self, level: int) -> bool:
        """As `txnctl upgrade finish`; False: not all nodes do it, as far as anybody can tell."""
        order = admin_pb2.RaiseLevelRequest(level=level)
        try:
            await self._until_heard("txnstatus.Admin/RaiseLevel", order, admin_pb2.RaiseLevelResponse)
        except (IllegalState, InvalidArgument) as error:
            self._log(f"the level stays: {error.message}")
            await asyncio.sleep(POLL_SECONDS)
            return False
        self._log(f"the level is {level}")
        return True

    async def drain_node(self, node: str, drain: str) -> admin_pb2.DrainNodeResponse:
        """As `txnctl node drain` and `undrain`, until it is acknowledged."""
        order = admin_pb2.DrainNodeRequest(node_id=node, drain=drain)
        answer = await self._until_heard("txnstatus.Admin/DrainNode", order, admin_pb2.DrainNodeResponse)
        self._log(f"{node}: {drain}")
        return answer

    async def drain_if_it_may(self, node: str, drain: str) -> None:
        """The same of a node that may not have joined yet, or be gone."""
        with contextlib.suppress(NotFound):
            await self.drain_node(node, drain)

    async def spread(self, new: str, address: str, old: str) -> bool:
        """As `txnctl node add`, `rebalance`, `node drain --move` and `node remove`, one after the other. False: it has
        to stay, for its replicas may go nowhere."""
        order = admin_pb2.AddNodeRequest(node_id=new, address=address, roles=("manager", "status", "participant"))
        await self._until_heard("txnstatus.Admin/AddNode", order, admin_pb2.AddNodeResponse)
        self._shared.addresses.append(address)
        wanted = admin_pb2.RebalanceRequest()
        await self._until_nothing_moves(
            await self._until_heard("txnstatus.Admin/Rebalance", wanted, admin_pb2.RebalanceResponse)
        )
        self._log(f"{new} has its part")
        try:
            leaving = await self.drain_node(old, "LEAVES")
        except IllegalState as error:
            self._log(error.message)
            return False
        await self._until_nothing_moves(leaving)
        gone = admin_pb2.RemoveNodeRequest(node_id=old)
        await self._until_heard("txnstatus.Admin/RemoveNode", gone, admin_pb2.RemoveNodeResponse)
        self._log(f"{old} has left")
        return True

    async def _until_heard(self, method: str, request: Message, response: type[ResponseT]) -> ResponseT:
        while True:
            with contextlib.suppress(Unavailable):
                return await self._call(method, request, response)
            await asyncio.sleep(POLL_SECONDS)

    async def _until_nothing_moves(self, asked: admin_pb2.RebalanceResponse | admin_pb2.DrainNodeResponse) -> None:
        """Whoever is asked may know of a catalog from before."""
        while True:
            with contextlib.suppress(Unavailable):
                request, response = admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
                found = (await self._call("txnstatus.Admin/GetCluster", request, response)).catalog
                if found.version >= asked.catalog.version and not found.moves:
                    return
            await asyncio.sleep(POLL_SECONDS)

    async def replace_node(self, old: str, new: str, address: str) -> None:
        """As `txnctl node replace`: returns when the old one is gone from the catalog."""
        order = admin_pb2.ReplaceNodeRequest(old_node=old, new_node=new, address=address)
        ordered = False
        while True:
            try:
                if not ordered:
                    await self._call("txnstatus.Admin/ReplaceNode", order, admin_pb2.ReplaceNodeResponse)
                    ordered = True
                seen = await self._call(
                    "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
                )
            except (AlreadyExists, NotFound):
                ordered = True  # by an attempt of which the answer was lost
            except Unavailable as error:
                self._log(f"{new} in the place of {old}: {error.message}")
            else:
                if old not in {node.node_id for node in seen.catalog.nodes}:
                    self._log(f"{new} has the place of {old}")
                    self._shared.addresses.append(address)
                    return
            await asyncio.sleep(POLL_SECONDS)
