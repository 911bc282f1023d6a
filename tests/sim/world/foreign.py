"""A foreign participant: another system, which prepares, and the process that hosts it for the cluster.

The system outlives its host. Programs prepare their work in it themselves, as they do in PostgreSQL.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence

from tests.sim.judges.ledger import Ledger
from tests.sim.world.clock import Clock
from tests.sim.world.disk import SimDisk
from tests.sim.world.loop import NoThreads, Process, VirtualLoop
from tests.sim.world.wire import Wire
from txnparticipant.foreign.host import ForeignHost
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.client import CatalogClient, learn_catalog
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.commands import RegisterForeign
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import IllegalState, TxnError
from txnstatus.foreign import ACTS, Act, Standing
from txnstatus.process.environment import Environment
from txnstatus.proto import participant_pb2
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.server import Registry
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import DECIDED_ABORT, ParticipantOpType, Timestamp, TxnId

TILL, HOST = "till", "f1"
RETRY_SECONDS = 0.5


class Till:
    """The system. What it is told is compared with what the status table has decided, at once."""

    def __init__(self, ledger: Ledger, rng: random.Random) -> None:
        self.failing = 0.0
        """Chance that what it is told fails."""
        self.standing: dict[int, Standing] = {}
        self.published: dict[int, int] = {}
        """Commit timestamps by transaction."""
        self._ledger, self._rng = ledger, rng

    def work(self, txn_id: int) -> None:
        """A program's: prepared when this returns."""
        if txn_id not in self.published:
            self.standing[txn_id] = Standing.PREPARED

    # ---- as a txnparticipant.foreign.protocol.Participant

    def prepare(self, txn_id: TxnId) -> None:
        self._act(txn_id, ParticipantOpType.BEGIN_COMMIT)

    def publish(self, txn_id: TxnId, commit_ts: Timestamp) -> None:
        txn = self._ledger.txn(txn_id)
        if not txn.committed or txn.commit_ts != commit_ts:
            self._ledger.violation("4 atomic", f"{TILL} publishes {txn_id} at {commit_ts}: it is {txn}")
        if self._act(txn_id, ParticipantOpType.FINALIZE_COMMIT) is Act.PUBLISH:
            self.standing[txn_id], self.published[txn_id] = Standing.PUBLISHED, commit_ts

    def discard(self, txn_id: TxnId) -> None:
        """What is published refuses: who was in doubt may hear late, and of a transaction that is forgotten by then."""
        if self._act(txn_id, ParticipantOpType.ABORT_TXN) is not Act.DISCARD:
            return
        txn = self._ledger.txn(txn_id)
        if txn.state is not None and txn.state not in DECIDED_ABORT:
            self._ledger.violation("4 atomic", f"{TILL} discards {txn_id}, which is {txn.state.name}")
        del self.standing[txn_id]

    def prepared(self) -> Iterable[TxnId]:
        return [TxnId(txn_id) for txn_id, standing in self.standing.items() if standing is Standing.PREPARED]

    def forget(self, first: TxnId, below: TxnId) -> None:
        for txn_id in [txn_id for txn_id in self.published if first <= txn_id < below]:
            self.standing.pop(txn_id, None)

    def _act(self, txn_id: TxnId, op: ParticipantOpType) -> Act:
        if self._rng.random() < self.failing:
            raise OSError(f"{TILL} does not answer")
        standing = self.standing.get(txn_id, Standing.ABSENT)
        act = ACTS[standing, op]
        if act is Act.ILLEGAL:
            raise IllegalState(f"{op.name} of transaction {txn_id}, of which {TILL} holds {standing}", txn_id=txn_id)
        return act

    def judge(self) -> Iterable[str]:
        """With every outcome known."""
        for txn_id in self.standing.keys() | self.published.keys():
            txn = self._ledger.txn(txn_id)
            if txn.committed != (txn_id in self.published):
                yield f"{TILL} has published {txn_id} at {self.published.get(txn_id)}: it is {txn}"


class Host:
    """The process, which keeps nothing."""

    def __init__(self, till: Till, loop: VirtualLoop, wire: Wire, rng: random.Random, addresses: Sequence[str]) -> None:
        self._till, self._loop, self._wire, self._rng, self._addresses = till, loop, wire, rng, addresses
        self._clock = Clock(rng.uniform(0, 1e5), rng.uniform(0.97, 1.03), rng.uniform(-300, 300))
        self._process: Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        if self._process is None or not self._process.alive:
            self._process = Process(HOST, self._clock)
            self._loop.post(self._process, self._boot, self._process)

    def kill(self) -> None:
        if self._process is not None and self._process.alive:
            self._loop.kill(self._process)
            self._wire.died(self._process, told=True)

    def unrest(self) -> str:
        left = list(self._till.prepared())
        return f"{TILL} has {left} prepared" if left else ""

    def _boot(self, process: Process) -> None:
        loop, clock = self._loop, self._clock
        environment = Environment(
            monotonic=lambda: clock.monotonic(loop.now),
            wall_micros=lambda: clock.wall_micros(loop.now),
            random=random.Random(self._rng.getrandbits(64)),
            blocking=NoThreads(),
            disk=SimDisk(self._rng),
        )
        self._tasks = [loop.create_task(self._run(process, environment))]

    async def _run(self, process: Process, environment: Environment) -> None:
        state = await self._learn()
        client = TxnSystemClient(ClusterMap(state), environment)
        host = ForeignHost(TILL, self._till, StatusRanges(client), environment)
        registry = Registry(HOST, lambda: state.cluster_id)
        registry.add(participant_pb2.DESCRIPTOR.services_by_name["Participant"], host)
        self._wire.listen(process, Listener(registry).protocol)
        await asyncio.gather(self._register(client), CatalogClient(client).run(), host.run())

    async def _learn(self) -> CatalogState:
        while True:
            try:
                return await learn_catalog(PeerChannel, self._addresses)
            except TxnError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _register(self, client: TxnSystemClient) -> None:
        while True:
            try:
                await CatalogClient(client).change(RegisterForeign(TILL, f"{HOST}:7050", TILL))
            except TxnError:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return
