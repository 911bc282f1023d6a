"""LocalCluster: real node processes on one host, to run a demo or a test on; kill, pause and restart them at will."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from txnclient import connect
from txnclient.calls.channel import ManagerChannel
from txnclient.calls.connections import Connections
from txndeploy.local import spawning
from txndeploy.local.certificates import LocalCertificates
from txndeploy.local.claim import Claim
from txndeploy.local.compactor import LocalCompactor
from txndeploy.local.network import Network, free_ports
from txndeploy.local.spawning import Spawn, Spawned
from txndeploy.node import config as configuration
from txndeploy.node import tethered
from txndeploy.node.config import NodeConfig, NodeEntry, RaftSection, TxnSection
from txnstatus.errors import TxnError
from txnstatus.process import failpoints
from txnstatus.process.durable import make_directory, write_file
from txnstatus.proto import admin_pb2
from txnstatus.security import tls

ResultT = TypeVar("ResultT")

READY_SECONDS = 60.0
POLL_SECONDS = 0.05
ARM_SECONDS = 10.0


class LocalCluster:
    """Nodes n1..nN, each a process of its own with its data below `directory`.

    A context manager: leaving it ends every process; the data stays with whoever owns the directory. However this
    process ends, the nodes end with it.
    """

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        *,
        cluster_name: str = "local",
        participant_shards: int = 4,
        groups: int = 1,
        raft: RaftSection | None = None,
        txn: TxnSection | None = None,
        warehouse: str | None = None,
        table_roots: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        network: Network | None = None,
        launcher: Sequence[str] = (),
        grpc: bool = False,
        http: bool = False,
        compactor: bool = True,
        secure: bool = True,
        spawn: Spawn = spawning.fresh,
    ) -> None:
        """`groups`: groups of the shards. `table_roots`: where tables may be besides the warehouse. `environment`:
        variables of the node processes besides this process's own. `launcher`: words before each node's command; it
        must stay the process's child. `grpc`, `http`: whether new nodes serve those, at addresses that their
        configurations have. `compactor`: whether a process beside them does compactions. `secure`: whether a new
        cluster has TLS, and an authority of its own, as one always has whose nodes are not on loopback. `spawn`: how
        processes are started (see `txndeploy.local.spawning`). `network`: by what nodes reach each other; without, by
        loopback. Raises DirectoryInUse where somebody else runs the nodes in the directory.
        """
        self.directory = directory.absolute()
        self.warehouse = warehouse or (self.directory / "warehouse").as_uri()
        self.environment = dict(environment or {})
        self.node_environment: dict[str, dict[str, str]] = {}
        """Variables for single nodes, when they are started next."""
        self._network, self._launcher = network or Network(), tuple(launcher)
        self._spawn = spawning.fresh if self._network.places_processes else spawn
        self._doors, self._processes = dict[str, str](), dict[str, Spawned]()
        self._admin: dict[str, ManagerChannel] = {}
        self._claim = _claimed(self.directory)
        if known := sorted(self.directory.glob("n*/node.toml")):
            self.configs = {path.parent.name: configuration.load(path) for path in known}
            self.warehouse = next(iter(self.configs.values())).warehouse
        else:
            addresses = self._network.addresses([f"n{number}" for number in range(1, nodes + 1)])
            entries = {node: NodeEntry(address=address) for node, address in addresses.items()}
            free = _other_addresses(entries, (grpc + http) * len(entries))
            self.configs = {
                node: NodeConfig(
                    cluster_name=cluster_name,
                    node_id=node,
                    data_dir=self.directory / node / "data",
                    warehouse=self.warehouse,
                    table_roots=tuple(table_roots),
                    participant_shards=participant_shards,
                    groups=groups,
                    nodes=entries,
                    raft=raft or RaftSection(),
                    txn=txn or TxnSection(),
                    insecure=not (secure or self._network.places_processes),
                    grpc_address=next(free) if grpc else None,
                    http_address=next(free) if http else None,
                )
                for node in entries
            }
        self._certificates = self._certified()
        for node in self.configs:
            self._connect(node)
        self._claim.tell(self.addresses)
        self._has_compactor = compactor
        self.compactor = self._worker()

    def _certified(self) -> LocalCertificates | None:
        first = next(iter(self.configs.values()))
        return None if first.insecure else LocalCertificates(first.cluster_name, self.directory)

    def _worker(self) -> LocalCompactor:
        shown = {tls.VARIABLE: str(self.credentials)} if self.credentials else {}
        environment = {**self.environment, **shown}
        return LocalCompactor(self.addresses, self.directory / "compactor.log", environment, self._spawn)

    @property
    def credentials(self) -> Path | None:
        """For `txnclient.connect`; None: connections go without TLS."""
        return self._certificates.credentials if self._certificates else None

    def _connect(self, node: str) -> None:
        """Gives the node its place in the network, and writes down how it reaches the others."""
        config = self.configs[node]
        self._doors[node] = self._network.attach(node, config.nodes[node].address)
        others = {other: entry.address for other, entry in config.nodes.items() if other != node}
        ways = {other: self._network.reach(node, other, address) for other, address in others.items()}
        reach = {other: way for other, way in ways.items() if way != others[other]}
        section = self._certificates.issue(node) if self._certificates else None
        own = (self._certificates.user,) if self._certificates else ()
        admins = tuple(dict.fromkeys((*config.admins, *own)))
        if reach or (section, admins) != (config.tls, config.admins) or not self.config_path(node).exists():
            self.configs[node] = config.model_copy(update={"reach": reach, "tls": section, "admins": admins})
            make_directory(self.directory / node)
            write_file(self.config_path(node), configuration.dump(self.configs[node]).encode())

    # ---- the whole

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts every node that does not run, and waits until every group has a leader. Raises DirectoryInUse."""
        self._claim.take()
        self._claim.tell(self.addresses)
        for node in self.configs:
            if not self.running(node):
                self.start_node(node)
        self.wait_ready()
        if self._has_compactor:
            self.compactor.start()

    def stop(self) -> None:
        """Ends every process, and waits for it."""
        self.compactor.stop()
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
        for channel in self._admin.values():
            channel.close()
        self._admin.clear()
        self._claim.release()

    def stop_in_turn(self) -> None:
        """As `stop`, node after node: each hands over, and answers what is under way, while there are others."""
        self.compactor.stop()
        for node in self.configs:
            if self.running(node):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.stop_node(node)
        self.stop()

    @property
    def addresses(self) -> str:
        """For `txnclient.connect`."""
        return ",".join(self.address(node) for node in self.configs)

    # ---- one node

    def add_node(self, node: str) -> str:
        """Makes and starts a node that is to take another one's place; returns its address."""
        example = next(iter(self.configs.values()))
        entry = NodeEntry(address=self._network.addresses([node])[node])
        update = {
            "node_id": node,
            "joins": True,
            "grpc_address": None,
            "http_address": None,
            "data_dir": self.directory / node / "data",
            "nodes": {**example.nodes, node: entry},
        }
        self.configs[node] = example.model_copy(update=update)
        self._connect(node)
        self.start_node(node)
        return entry.address

    def add_group(self) -> str:
        """Adds a group; returns its name when it has a leader, and tables can be placed there."""
        with connect(self.addresses, credentials=self.credentials) as client:
            name = client.add_group()
        self.leader(name)
        return name

    def forget_node(self, node: str) -> None:
        """A dead node that was replaced: it is not started or asked any more."""
        if self.running(node):
            raise ValueError(f"{node} is running")
        del self.configs[node]
        self._processes.pop(node, None)  # it may have ended by itself, which is no failure of a start

    def config_path(self, node: str) -> Path:
        return self.directory / node / "node.toml"

    def log_path(self, node: str) -> Path:
        return self.directory / node / "node.log"

    def address(self, node: str) -> str:
        """Where this process reaches the node."""
        return self._doors[node]

    def running(self, node: str) -> bool:
        process = self._processes.get(node)
        return process is not None and process.poll() is None

    def exit_code(self, node: str) -> int | None:
        """How the process ended, as in subprocess; None: it runs, or never did."""
        process = self._processes.get(node)
        return process.poll() if process else None

    def pid(self, node: str) -> int:
        return self._processes[node].pid

    def start_node(self, node: str) -> None:
        self._processes[node] = self._network.start(node, lambda: self._start(node))

    def _start(self, node: str) -> Spawned:
        environment = {
            **os.environ,
            failpoints.FILE_VARIABLE: str(self._failpoints_path(node)),
            **self.environment,
            **self.node_environment.get(node, {}),
        }
        command = [*self._launcher, *tethered.command(self.config_path(node))]
        return self._spawn(command, self.log_path(node), environment)

    def stop_node(self, node: str) -> int:
        """A clean shutdown; returns the exit code."""
        self._processes[node].terminate()
        return self._processes[node].wait(20)

    def kill(self, node: str) -> None:
        """kill -9."""
        self._processes[node].kill()
        self._processes[node].wait()

    def pause(self, node: str) -> None:
        self._processes[node].send_signal(signal.SIGSTOP)

    def resume(self, node: str) -> None:
        self._processes[node].send_signal(signal.SIGCONT)

    def restart(self, node: str) -> None:
        if self.running(node):
            self.kill(node)
        self.start_node(node)

    def resident_bytes(self, node: str) -> int:
        """The memory of the node's process (Linux)."""
        pages = int(Path(f"/proc/{self._processes[node].pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def arm(self, node: str, specification: str) -> None:
        """Arms failpoints in the running node, in place of those armed before; see txnstatus.process.failpoints.

        Raises TimeoutError when the node does not take them up.
        """
        path = self._failpoints_path(node)
        path.write_text(specification)
        self._processes[node].send_signal(signal.SIGUSR1)
        wait_until(lambda: not path.exists(), f"{node} arms {specification!r}", ARM_SECONDS)

    def _failpoints_path(self, node: str) -> Path:
        return self.directory / node / "failpoints"

    # ---- who leads what

    def status(self, node: str, *, digests: bool = False) -> admin_pb2.GetNodeResponse | None:
        """None: it does not answer."""
        channel = self._admin.get(node)
        if channel is None:
            connections = Connections(tls.within(self.credentials) if self.credentials else None)
            channel = self._admin[node] = ManagerChannel([self.address(node)], connections)
        try:
            return channel.call(
                "txnstatus.Admin/GetNode",
                admin_pb2.GetNodeRequest(digests=digests),
                admin_pb2.GetNodeResponse,
                timeout=1.0,
            )
        except TxnError:
            return None

    def leader(self, group: str = "status-0", timeout: float = READY_SECONDS) -> str:
        """The node that leads the group and is ready to serve; waits for one. Raises TimeoutError."""
        return wait_until(lambda: self._leader_now(group), f"a leader of {group}", timeout)

    def wait_ready(self, timeout: float = READY_SECONDS) -> None:
        """Until every group has a leader. Raises TimeoutError, or RuntimeError for a node that ended."""

        def all_led() -> bool:
            for node, process in self._processes.items():
                if process.poll() == 2:
                    story = self.log_path(node).read_text().splitlines()[-5:]
                    first = f"node {node} could not start; its log is {self.log_path(node)}:"
                    raise RuntimeError("\n".join([first, *story]))
            answers = [self.status(node) for node in self.configs if self.running(node)]
            groups = [entry for answer in answers if answer for entry in answer.groups]
            return bool(groups) and {entry.group for entry in groups} == {e.group for e in groups if e.leader}

        wait_until(all_led, f"a leader of every group (the nodes' logs are {self.log_path('*')})", timeout)

    def _leader_now(self, group: str) -> str:
        best, best_term = "", -1
        for node in self.configs:
            if not self.running(node):
                continue
            status = self.status(node)
            for entry in status.groups if status else ():
                if group in (entry.group, *entry.parts) and entry.leader and entry.term > best_term:
                    best, best_term = node, entry.term
        return best


def wait_until(condition: Callable[[], ResultT], what: str, timeout: float = 60.0) -> ResultT:
    """Polls until the condition holds, and returns what it returned. Raises TimeoutError."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout:.0f} s")
        time.sleep(POLL_SECONDS)


def default_directory() -> Path:
    """Where `txnctl up` keeps its data unless told otherwise."""
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "txnstatus" / "local"


def _claimed(directory: Path) -> Claim:
    """Raises DirectoryInUse."""
    directory.mkdir(parents=True, exist_ok=True)
    claim = Claim(directory)
    claim.take()
    return claim


def _other_addresses(entries: Mapping[str, NodeEntry], count: int) -> Iterator[str]:
    """Free ones of loopback whose ports are no node's own."""
    taken = {entry.address.rpartition(":")[2] for entry in entries.values()}
    free = free_ports(count + len(entries)) if count else []
    return (f"127.0.0.1:{port}" for port in free if str(port) not in taken)
