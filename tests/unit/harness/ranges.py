"""Status ranges and a catalog on one node, their Raft groups played by a list: whoever tests says what happens next.

Real are the catalog, the tables, the services, the registry with its messages as bytes, and TxnSystemClient. Each
client has a cluster map of its own, as old as it may be. Time is virtual: a wait costs nothing.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from tests.unit.harness.calls import AsyncChannel
from txnstatus.catalog import commands as catalog_cmd
from txnstatus.catalog.catalog import CATALOG, CatalogState, status_group
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.service import CatalogMachine, CatalogService
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotTheLeader, Unavailable
from txnstatus.process.environment import Environment
from txnstatus.proto import admin_pb2, catalog_pb2, txn_manager_pb2, txn_status_pb2
from txnstatus.proto.table_pb2 import AddFilesRequest
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.proposals import Proposal
from txnstatus.rpc.server import Registry
from txnstatus.status import commands as cmd
from txnstatus.status.machine import StatusMachine
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.records import Step as TxnStep
from txnstatus.status.service import StatusService
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import HybridClock, ParticipantId, TxnId

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)

NODE, ADDRESS = "n1", "n1:1"
BLOCKING = ThreadPoolExecutor(1)
SERVED = [
    service
    for module in (txn_manager_pb2, txn_status_pb2, admin_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
]
"""Services whose calls a range answers, or some of them."""


class _NoWaiting(selectors.SelectSelector):
    """Where the loop would wait, the time is over at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        self.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in which waiting takes no time."""

    def __init__(self) -> None:
        self._instant = _NoWaiting()
        super().__init__(self._instant)

    def time(self) -> float:
        return self._instant.now


def run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class World:
    """With `stepped`, each message and each log entry waits in `pending` until somebody lets it go on."""

    def __init__(
        self, span: int = 10, *, stepped: bool = False, options: Options | None = None, groups: int = 1
    ) -> None:
        nodes = {NODE: NodeInfo(ADDRESS, ("status", "participant"))}
        state = initial(
            nodes,
            participant_shards=groups,
            replication=1,
            range_span=span,
            options=options or Options(),
            groups=groups,
        )
        state = replace(state, version=1, cluster_id="c.1")  # founded
        self.initial = state
        self.stepped = stepped
        self.pending: list[Step] = []
        self.unavailable: set[str] = set()
        """Groups whose leader answers nobody."""
        self.calls: list[str] = []
        self.cluster = ClusterMap(state)
        """The node's own map: as new as its replica of the catalog."""
        self.wall_micros = 1_000_000
        self._environment = Environment(lambda: self.loop.time(), lambda: self.wall_micros, random.Random(0), BLOCKING)
        self._clock = HybridClock(lambda: self.wall_micros)
        self.machine = CatalogMachine(state, self._catalog_changed)
        self.services: dict[int, StatusService] = {}
        self.tables: dict[int, TxnStatusTable] = {}
        """Tables of all ranges, of those that were dropped, too."""
        self.group_of_range: dict[int, str] = {}
        """Likewise."""
        self.on_apply: Callable[[int, cmd.Command, TxnStatusTable], None] = lambda *_: None
        self._registry = Registry(NODE)
        driver = cast(RaftDriver, Driver(self, "catalog", self.machine.apply))
        catalog = CatalogService(self.machine, driver, self._client(self.cluster), lambda: "c.1")
        self._registry.add(catalog_pb2.DESCRIPTOR.services_by_name["Catalog"], catalog, CATALOG)
        self._align(state)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def state(self) -> CatalogState:
        return self.machine.catalog.state

    def client(self, *, knows: CatalogState | None = None) -> TxnSystemClient:
        """A client whose map is as old as the world, or as `knows`."""
        return self._client(ClusterMap(knows or self.initial))

    def _client(self, cluster: ClusterMap) -> TxnSystemClient:
        return TxnSystemClient(cluster, self._environment, lambda _address: Channel(self))

    def ranges(self, *, knows: CatalogState | None = None) -> StatusRanges:
        return StatusRanges(self.client(knows=knows))

    def apply(self, number: int, command: cmd.Command) -> StatusApplied:
        """Takes a command through the log of a range at once."""
        (outcome,) = self._apply_in(number)([cmd.encode(command)])
        assert isinstance(outcome, StatusApplied), outcome
        return outcome

    def add_group(self, name: str) -> None:
        (outcome,) = self.machine.apply([catalog_cmd.encode(catalog_cmd.AddGroup(name))])
        assert isinstance(outcome, CatalogState), outcome

    async def call(self, method: str, request: bytes, group: str = "") -> Message:
        return await self._registry.call(method, request, group)

    async def step(self, what: str) -> None:
        """Returns when it is let go on."""
        if not self.stepped:
            return
        done: asyncio.Future[None] = self.loop.create_future()
        self.add_step(what, lambda: None if done.done() else done.set_result(None))
        await done

    def add_step(self, what: str, go_on: Callable[[], None]) -> None:
        if self.stepped:
            self.pending.append(Step(what, go_on))
        else:
            go_on()

    def _catalog_changed(self, state: CatalogState) -> None:
        self.cluster.update(state)
        self._align(state)

    def _align(self, state: CatalogState) -> None:
        for number in set(self.services) - set(state.ranges):
            del self.services[number]
            self._registry.remove(status_group(number))
        for number in set(state.ranges) - set(self.services):
            table = TxnStatusTable(number * state.range_span, (number + 1) * state.range_span)
            machine = StatusMachine(table, self._clock, lambda _id: None)
            driver = cast(RaftDriver, Driver(self, status_group(number), self._apply_in(number)))
            client = self._client(self.cluster)
            service = StatusService(number, machine, driver, self._environment, self._clock, client, NobodyHere())
            self.services[number], self.tables[number] = service, table
            self.group_of_range[number] = state.parts[status_group(number)]
            for served in SERVED:
                self._registry.add(served, service, status_group(number))

    def _apply_in(self, number: int) -> Callable[[Sequence[bytes]], Sequence[object]]:
        def apply(commands: Sequence[bytes]) -> list[object]:
            return list(map(apply_one, commands))

        def apply_one(command: bytes) -> object:
            table, decoded = self.tables[number], cmd.decode(command)
            outcome = table.apply(decoded)
            table.check_invariants()
            self.on_apply(number, decoded, table)
            return outcome

        return apply


class NobodyHere:
    """Implements ServicesHere where no shard is in the log."""

    def has(self, _txn_id: TxnId, _participant_id: ParticipantId) -> bool:
        return False

    def is_ready(self, _txn_id: TxnId, _participant_id: ParticipantId) -> bool:
        raise NotImplementedError

    async def make_ready(self, _txn_id: TxnId, _participant_id: ParticipantId) -> None:
        raise NotImplementedError

    async def last_write(self, _request: AddFilesRequest) -> None:
        return None

    def has_applied(self, _step: TxnStep) -> None:
        raise NotImplementedError


class Step(SimpleNamespace):
    """Something that can happen next."""

    def __init__(self, what: str, go_on: Callable[[], None]) -> None:
        super().__init__(what=what, go_on=go_on)


class Driver:
    """A Raft group of one replica. An entry applies when its step comes, also when its proposer has given up."""

    def __init__(self, world: World, name: str, apply: Callable[[Sequence[bytes]], Sequence[object]]) -> None:
        self._world = world
        self._apply = apply
        self.group = SimpleNamespace(group=name, has_lease=True)

    def check_lease(self) -> None:
        if self.group.group in self._world.unavailable:
            raise self.not_the_leader()

    def not_the_leader(self) -> NotTheLeader:
        return NotTheLeader(f"nobody leads {self.group.group}")

    def submit(self, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False) -> None:
        self.check_lease()
        self._world.add_step(f"entry of {self.group.group}", lambda: ended(Proposal(commands, self._apply(commands))))


class Channel(AsyncChannel):
    """The way to the node. An attempt that takes too long is given up; its request may be under way all the same."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def call(
        self, method: str, request: Message, response: type[ResponseT], timeout: float, group: str = ""
    ) -> ResponseT:
        self._world.calls.append(method)
        payload = request.SerializeToString()
        try:
            async with asyncio.timeout(timeout):
                await self._world.step(f"request {method}")
                answer = (await self._world.call(method, payload, group)).SerializeToString()
                await self._world.step(f"reply {method}")
        except TimeoutError:
            raise Unavailable(f"{method} took longer than {timeout} s") from None
        return response.FromString(answer)


async def finished(work: Awaitable[T], world: World) -> T:
    """The result, with every step taken in turn."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0.001)
        if world.pending:
            world.pending.pop(0).go_on()
    return task.result()
