"""A world under one seed: machines, network, storage, clients and faults; runs a scenario and judges it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.sim.actors.caller import SHARED, Shared
from tests.sim.actors.client import Client
from tests.sim.actors.operator import Operator
from tests.sim.actors.reader import LEASE_SECONDS
from tests.sim.campaign.fault import NODES
from tests.sim.campaign.result import Result
from tests.sim.campaign.scenario import OLDER, Scenario
from tests.sim.judges import annals, checks, exclusion
from tests.sim.judges.leaders import watched_status
from tests.sim.judges.ledger import Ledger
from tests.sim.judges.levels import Legibility
from tests.sim.judges.promises import Promises
from tests.sim.judges.retention import Retention
from tests.sim.judges.ruins import Ruins
from tests.sim.judges.shards import watched_shards
from tests.sim.judges.watch import Violation, Watch
from tests.sim.world import memory, seams
from tests.sim.world.clock import Clock
from tests.sim.world.cluster import Cluster, Failpoints, Machine
from tests.sim.world.disk import SimDisk
from tests.sim.world.foreign import Host, Till
from tests.sim.world.log_handler import LogHandler
from tests.sim.world.loop import Process, VirtualLoop
from tests.sim.world.nemesis import Nemesis
from tests.sim.world.server import Server
from tests.sim.world.warehouse import ROOT, Warehouse
from tests.sim.world.wire import Wire
from txndeploy.node.config import NodeConfig, NodeEntry, RaftSection, TxnSection
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.measures import Measures
from txnstatus.process import stop
from txnstatus.raft.machine import StateMachine

SETTLE_SECONDS = 60.0
STOP_SECONDS = 15.0
SHARDS = 2
ZOMBIE_GRACE_SECONDS = 1.0
STALENESS_MILLIS = 200
CLOCK_RATES = (0.97, 1.03)
LATE_SECONDS = 3.0
"""When this has passed since its client ended, no request is carried out any more."""
TABLES = ("a.one", "a.two", "b.three", "b.four")
Log = Callable[[float, str, str], None]


def run(scenario: Scenario, log: Log | None = None, planted: Sequence[tuple[str, Any]] = ()) -> Result:
    """`planted`: seams of a fault to be found (see seams.replaced)."""
    world = World(scenario, log)
    with seams.no_collection(), seams.replaced([*world.seams(), *planted]):
        try:
            with seams.quiet() if log is None else contextlib.nullcontext():
                world.play()
        except Violation as violation:
            world.violations.append(str(violation))
        finally:
            world.loop.close()
    return world.result()


class World:
    def __init__(self, scenario: Scenario, log: Log | None) -> None:
        self.scenario = scenario
        self.violations: list[str] = []
        self.clients: dict[str, Process] = {}
        self._log = log
        self._client_lives = 0
        seed = scenario.seed
        self.loop = loop = VirtualLoop(seed)  # type: ignore[abstract]  # what is not there is not used
        self.wire = Wire(loop, self._rng("wire"))
        self.warehouse = Warehouse(self._rng("warehouse"), lambda: loop.now)
        self.ledger = Ledger(lambda: loop.now, self.violated)
        self.watch = Watch(self.violated, lambda: loop.current, lambda: loop.now, self._applied, self._check_core)
        self.watch.derived_every = scenario.derived_every
        self._machines = self._rng("machines")
        machines = [self._machine(name) for name in NODES]
        if scenario.two_versions:
            for machine in machines:
                machine.levels = OLDER
        self.cluster = Cluster(
            loop,
            self.wire,
            seed,
            self._config,
            machines,
            chronicles=scenario.chronicles,
            registers=scenario.two_versions,
        )
        legibility = Legibility(lambda name: self.cluster.machines[name].levels, self.violated)
        self.watch.on_entry, self.cluster.on_catalog = legibility.entry, legibility.catalog
        self.cluster.on_stop = self._stopped
        self.cluster.on_survival = lambda name: self.violated("a failed sync ends the process", f"{name} goes on")
        self.retention = Retention(
            scenario.snapshot_retention_seconds, SHARDS, self.ledger, self.watch, lambda: loop.now
        )
        self.note_clocks()
        self.nemesis = nemesis = Nemesis(self, self._rng("nemesis"))
        self._status = watched_status(lambda: loop.now, self.violated, lambda: nemesis.quiet_since, self.ledger.txns)
        self.operator = Operator(self, self._machine)
        self.warehouse.on_delete = self.ledger.deletes
        self.annals = annals.Annals(TABLES, scenario.range_span, self.ledger, lambda: loop.now, self.warehouse)
        loop.on_error = self._callback_failed
        self.till = Till(self.ledger, self._rng("till"))
        self.ruins = Ruins(lambda: loop.now, scenario.range_span)
        published, span = self.till.published.__contains__, scenario.range_span
        self.promises = Promises(self.ledger, published, self.ruins.make, span, retires=scenario.retires)
        addresses = [f"{name}:7050" for name in NODES]  # those of new nodes are added
        self.host = Host(self.till, loop, self.wire, self._rng("host"), addresses)
        self.shared = Shared(
            addresses,
            TABLES,
            self.ledger,
            self.warehouse,
            lambda: loop.now,
            scenario.keepalive_millis,
            repeats=scenario.duplicates > 0,
            holds_snapshots=scenario.retires,
            **{name: getattr(scenario, name) for name in SHARED},
            work=self.till.work,
            refused=self.retention.refused,
            ruins=self.ruins,
            annals=self.annals,
        )

    def note_clocks(self) -> None:
        """To be called when a wall clock has changed, or a machine has come."""
        self.retention.note_clocks({name: each.clock for name, each in self.cluster.machines.items()})

    def _rng(self, purpose: str) -> random.Random:
        return random.Random(f"{self.scenario.seed} {purpose}")

    def _machine(self, name: str) -> Machine:
        chance = self._machines
        clock = Clock(chance.uniform(0, 1e5), chance.uniform(*CLOCK_RATES), chance.uniform(-300, 300))
        return Machine(name, Path("/") / name, SimDisk(self._rng(f"disk {name}")), clock)

    def _config(self, node: str, directory: Path) -> NodeConfig:
        joins = node not in NODES
        names = [*(machine.name for machine in self.cluster.living if machine.name != node), node] if joins else NODES
        return NodeConfig(
            cluster_name="sim",
            node_id=node,
            data_dir=directory,
            warehouse=ROOT,
            participant_shards=SHARDS,
            groups=self.scenario.groups,
            joins=joins,
            replication=self.scenario.replication,
            nodes={name: NodeEntry(address=f"{name}:7050") for name in names},
            raft=RaftSection(
                heartbeat_seconds=0.15,
                promise_seconds=0.46,
                election_min_seconds=0.5,
                election_max_seconds=1.0,
                snapshot_entries=self.scenario.snapshot_entries,
                segment_bytes=self.scenario.segment_bytes,
            ),
            txn=TxnSection(
                keepalive_default_ms=1000,
                keepalive_min_ms=500,
                staleness_interval_ms=STALENESS_MILLIS,
                max_open_transactions=self.scenario.max_open,
                snapshot_retention_seconds=self.scenario.snapshot_retention_seconds,
                snapshot_lease_seconds=LEASE_SECONDS,
                retention_ms=self.scenario.retention_millis,
                range_span=self.scenario.range_span,
                zombie_grace_seconds=ZOMBIE_GRACE_SECONDS,
                **memory.options(self.scenario.row_flush_bytes),
            ),
        )

    def seams(self) -> list[tuple[str, Any]]:
        """The world's stand-ins, by the name that each replaces."""
        return [
            ("pysyncobj.syncobj:monotonicTime", self.loop.look),
            ("pysyncobj.syncobj:random", self._rng("pysyncobj")),
            *((f"asyncio{module}:get_running_loop", lambda: self.loop) for module in ("", ".events")),
            ("asyncio.events:_get_running_loop", lambda: self.loop),  # asyncio's own asks the kernel each time
            *seams.everywhere("stop_process", stop.stop_process, self.cluster.stop_process),
            ("txndeploy.node.loop_watch:LOOK_SECONDS", 1.0),
            ("txnparticipant.leader.service:FORGET_PASS_SECONDS", self.scenario.upkeep_seconds),
            ("txnparticipant.leader.service:PASS_SECONDS", self.scenario.upkeep_seconds),
            ("txnstatus.process.failpoints:_armed", Failpoints(self.cluster)),
            *self.warehouse.seams(),
            *annals.SEAMS,
            *memory.seams(writes_rows=self.scenario.writes_rows, keeps_rolls=self.scenario.keeps_rolls),
            ("txndeploy.node.roles:RaftGroup", self.watch.group_class()),
            ("txndeploy.node.roles:StatusService", self._status),
            ("txndeploy.node.roles:ShardService", watched_shards(self.violated)),
            ("txndeploy.node.roles:Registry", self._server),
        ]

    def _server(self, node: str, cluster_id: Callable[[], str], _measures: Measures) -> Server:
        return Server(node, cluster_id, self.scenario, self._rng("server"))

    # ---- playing

    def play(self) -> None:
        """Raises Violation."""
        loop, scenario = self.loop, self.scenario
        handler = LogHandler(lambda text: self.log(self.loop.current.name, text))
        logging.root.addHandler(handler)
        try:
            if scenario.slow_links:
                for one in NODES:
                    for other in NODES:
                        self.wire.link(one, other).delay = (0.005, 0.05)
            for name in NODES:
                self.cluster.start(name)
            if scenario.foreign:
                self.host.start()
            for number in range(scenario.clients):
                self.start_client(f"c{number + 1}")
            if scenario.examined:
                self.launch_client("doctor", lambda client: client.examine(SHARDS, ZOMBIE_GRACE_SECONDS))
            for fault in scenario.faults:
                loop.post_at(fault.at, loop.world, self.nemesis.inflict, fault)
            loop.run(scenario.seconds, self._is_over)
            self._settle()
        finally:
            logging.root.removeHandler(handler)

    def _settle(self) -> None:
        """All faults end; all that was begun must end, and replicas must become alike."""
        self._judge()
        self.log("world", "heals")
        self.nemesis.end_all()
        self.shared.stopping = True
        self.operator.install_everywhere()
        for machine in self.cluster.living:
            if not machine.is_up:
                self.cluster.start(machine.name)
        if self.scenario.foreign:
            self.host.start()
        # Programs that are told to stop do not stop in the middle; what begins after the rest would not be at rest.
        loop = self.loop
        loop.run(STOP_SECONDS, lambda: self._is_over() or not any(process.alive for process in self.clients.values()))
        for name in self.clients:
            self.kill_client(name)
        if self.scenario.changes_options:
            loop.run(LATE_SECONDS, self._is_over)
            self._do("operator", lambda client: client.set_option("staleness_interval_ms", STALENESS_MILLIS))
        if self.scenario.two_versions:
            self._do("operator", lambda client: self.operator.finish_upgrade(client))
        reason = "it never looked"

        def at_rest() -> bool:
            nonlocal reason
            reason = checks.unrest(self.watch.histories, self.cluster) or self.host.unrest() or self.operator.unrest()
            return not reason

        end = loop.now + SETTLE_SECONDS
        while loop.now < end and not self.violations and not at_rest():
            loop.run(0.25, self._is_over)
        self._judge()
        if reason:
            raise Violation("everything ends", f"{SETTLE_SECONDS:.0f} s after all faults, {reason}")
        loop.run(SETTLE_SECONDS, lambda: not self.annals.unwritten or self._is_over())
        if self.annals.unwritten:
            self.violated("timeline", f"{self.annals.unwritten} ended, and are not written down")
        self._do("reader", lambda client: client.read_everything())  # all that was acknowledged
        self._judge()
        checks.options(self.cluster, self.watch.histories, self.violated)
        for anomaly in self.shared.bank.judge(self.ledger):
            self.violated("isolation", anomaly)
        for rule, story in (*self.shared.books.judge(self.ledger), *self.shared.rolls.judge(self.ledger)):
            self.violated(rule, story)
        exact = not (self.scenario.faults or self.scenario.duplicates or self.scenario.late)
        for story in self.shared.points.judge(checks.held_savepoints(self.watch.histories), exact=exact):
            self.violated("savepoints", story)
        for story in self.till.judge():
            self.violated("4 atomic", story)
        for story in exclusion.clashes(self.shared.had, self.ledger):
            self.violated("locks", story)
        for rule, story in self.shared.ruins.judge(self.ledger, retires=self.scenario.retires):
            self.violated(rule, story)
        checks.final(self.watch.histories, self.ledger, self.warehouse, ZOMBIE_GRACE_SECONDS, self.violated)
        self._judge()

    def _do(self, name: str, work: Callable[[Client], Awaitable[None]]) -> None:
        """One more program, until it has what it wants."""
        self.shared.stopping = False
        done = self.launch_client(name, work)
        if not self.loop.run(SETTLE_SECONDS, lambda: bool(done or self.violations)):
            raise Violation("everything ends", f"the {name} got no answer")
        self.shared.stopping = True

    def _is_over(self) -> bool:
        return bool(self.violations)

    def _judge(self) -> None:
        if self.violations:
            raise Violation(*self.violations.pop().split(": ", 1))

    # ---- clients

    def start_client(self, name: str) -> None:
        old = self.clients.get(name)
        if old is not None and old.alive:
            self.kill_client(name)
        self._client_lives += 1
        process = self.clients[name] = Process(name, Clock())
        life = f"{name}x{self._client_lives}"
        client_rng = self._rng(life)

        async def work() -> None:
            await Client(life, client_rng, self.shared, lambda text: self.log(name, text)).work()

        self.loop.post(process, self._launch, process, work)

    def launch_client(self, name: str, work: Callable[[Client], Awaitable[None]]) -> list[bool]:
        """Runs work in a process of its own; the list holds something once it is done."""
        self._client_lives += 1
        life = f"{name}x{self._client_lives}"
        process = Process(name, Clock())
        done: list[bool] = []

        async def run() -> None:
            await work(Client(life, self._rng(life), self.shared, lambda text: self.log(name, text)))
            done.append(True)

        self.loop.post(process, self._launch, process, run)
        return done

    def _launch(self, process: Process, work: Callable[[], Any]) -> None:
        task = self.loop.create_task(work())
        task.add_done_callback(lambda task: self._client_ended(process, task))

    def _client_ended(self, process: Process, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._callback_failed(process, "a client failed", error)
        if self.shared.stopping and process.alive:
            self.loop.kill(process)
            self.wire.died(process, told=True)

    def kill_client(self, name: str) -> None:
        process = self.clients.get(name)
        if process is not None and process.alive:
            self.loop.kill(process)
            self.wire.died(process, told=True)

    # ---- what goes wrong

    def violated(self, rule: str, story: str) -> None:
        self.log("VIOLATION", f"{rule}: {story}")
        self.violations.append(f"{rule}: {story}")

    def _stopped(self, node: str, story: str, error: BaseException, must: bool) -> None:
        self.log(node, f"ends itself: {story}: {error!r}")
        if not must:
            self.violated("no process ends itself", f"{node}: {story}: {error!r}")

    def _callback_failed(self, process: Process, message: str, error: BaseException | None) -> None:
        if process.alive and not isinstance(error, asyncio.CancelledError):
            self.violated("nothing fails unheard", f"{process.name}: {message}: {error!r}")

    def _applied(self, group: str, machine: StateMachine, command: bytes, outcome: object) -> None:
        self.ledger.applied(group, machine, command, outcome)
        self.promises.applied(group, machine, command, outcome)
        if self.scenario.chronicles:
            self.annals.applied(machine, outcome)

    def _check_core(self, _group: str, _node: str, machine: StateMachine) -> None:
        core = getattr(machine, "table", None) or getattr(machine, "shard", None)
        if core is not None:
            core.check_invariants()
        if isinstance(core, ParticipantShard):
            memory.check(core, self.violated)

    def log(self, who: str, text: str) -> None:
        if self._log is not None:
            self._log(self.loop.now, who, text)

    def result(self) -> Result:
        return Result(
            self.scenario,
            self.loop.digest,
            self.violations,
            self.loop.now,
            self.ledger.commands,
            self.shared.calls,
            self.ledger.acked_commits,
            len(self.ledger.reads),
            self.ledger.refused_begins,
            self.nemesis.inflicted,
        )
