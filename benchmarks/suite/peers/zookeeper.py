"""ZooKeeper: three servers on loopback, a node a transaction, each durable step a versioned write of it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Settings, Tally
from benchmarks.suite.processes import INSTALL, Processes, needs, needs_modules, slow_disk
from txndeploy.local.network import free_ports

if TYPE_CHECKING:
    from kazoo.client import KazooClient

JAR = Path("/usr/share/java/zookeeper.jar")
LOGGING = Path("/usr/share/java/slf4j-nop.jar")
SERVERS = ("s1", "s2", "s3")
HEAP = "-Xmx1g"
PARENT = "/txns"
RECORD = bytes(range(100))
"""What is kept besides the state: as much as an owner, a start time and two participants take."""
STATES = {
    4: (b"open", b"registered", b"commit in progress", b"committed"),
    2: (b"registered", b"committed"),
    1: (b"open",),
}
ADMIN_SECONDS = 5.0


class ZooKeeperServers:
    """The servers, their processes and addresses."""

    def __init__(self, fsync_ms: float) -> None:
        self._launcher = slow_disk(fsync_ms)
        self._processes = Processes(Path())
        self._clients: dict[str, int] = {}
        self.leader = ""

    def missing(self) -> str | None:
        if not JAR.exists():
            return INSTALL["zookeeper"]
        return needs(*(("java", "strace") if self._launcher else ("java",))) or needs_modules("kazoo")

    def start(self, directory: Path) -> None:
        ports = free_ports(3 * len(SERVERS))
        self._clients = dict(zip(SERVERS, ports, strict=False))
        peers = zip(ports[len(SERVERS) :: 2], ports[len(SERVERS) + 1 :: 2], strict=False)
        ensemble = [f"server.{n}=127.0.0.1:{a}:{b}" for n, (a, b) in enumerate(peers, 1)]
        self._processes = Processes(directory, self._launcher)
        for number, name in enumerate(SERVERS, 1):
            self._start(directory / name, number, ensemble)
        self._processes.await_ready(self._has_leader, "ZooKeeper elects a leader")

    def _start(self, data: Path, number: int, ensemble: Sequence[str]) -> None:
        data.mkdir()
        (data / "myid").write_text(str(number))
        config = [
            f"dataDir={data}",
            f"clientPort={self._clients[data.name]}",
            "clientPortAddress=127.0.0.1",
            *("tickTime=2000", "initLimit=10", "syncLimit=5"),
            *("admin.enableServer=false", "4lw.commands.whitelist=*"),
            *ensemble,
        ]
        file = data / "zoo.cfg"
        file.write_text("\n".join(config))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        java = shutil.which("java") or "java"
        self._processes.start(data.name, [java, HEAP, "-cp", f"{LOGGING}:{JAR}", main, str(file)])

    def stop(self) -> None:
        self._processes.stop()

    @property
    def address(self) -> str:
        """The leader's address: no write has to be forwarded."""
        return f"127.0.0.1:{self._clients[self.leader]}"

    def pids(self) -> Mapping[str, Sequence[int]]:
        followers = [self._processes.pid(name) for name in SERVERS if name != self.leader]
        return {"leader": [self._processes.pid(self.leader)], "followers": followers}

    def version(self) -> str:
        first = self._ask(self.leader).partition("\n")[0]
        return first.removeprefix("Zookeeper version: ").partition("-")[0]

    def _has_leader(self) -> bool:
        modes = {name: self._ask(name) for name in SERVERS}
        leaders = [name for name, answer in modes.items() if "Mode: leader" in answer]
        self.leader = leaders[0] if leaders else ""
        return bool(leaders) and sum("Mode: follower" in answer for answer in modes.values()) == len(SERVERS) - 1

    def _ask(self, name: str) -> str:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._clients[name]), ADMIN_SECONDS) as connection,
        ):
            connection.sendall(b"srvr")
            return connection.makefile().read()
        return ""


class Flow:
    """Whole transactions over one session. The steps follow one another in the client's own thread."""

    def __init__(self, client: KazooClient, states: Sequence[bytes], name: str) -> None:
        self._client = client
        self._states = states
        self._name = name
        self._numbers = itertools.count()

    async def transact(self, _: int = 0) -> None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        path = f"{PARENT}/{self._name}-{next(self._numbers):012}"

        def end(error: Exception | None) -> None:
            loop.call_soon_threadsafe(_resolve, over, error)

        self._step(path, 0, end)
        await over

    def _step(self, path: str, number: int, end: Callable[[Exception | None], None]) -> None:
        """The state of that number; its version is one less, since the first one makes the node."""
        data = self._states[number] + RECORD

        def done(result: Any) -> None:
            if not result.successful():
                end(result.exception)
            elif number + 1 < len(self._states):
                self._step(path, number + 1, end)
            else:
                end(None)

        if number:
            self._client.set_async(path, data, version=number - 1).rawlink(done)
        else:
            self._client.create_async(path, data).rawlink(done)


def _resolve(over: asyncio.Future[None], error: Exception | None) -> None:
    if error is None:
        over.set_result(None)
    else:
        over.set_exception(error)


class ZooKeeper(Contender):
    """All transactions over one session, in which requests follow one another without waiting."""

    def __init__(self, settings: Settings, rounds: int, *, name: str = "zookeeper") -> None:
        self.name = name
        self.about = f"steps: {rounds}, each a create or a set with the expected version; one session"
        self._states = STATES[rounds]
        self._servers = ZooKeeperServers(settings.fsync_ms)
        self._runs = itertools.count()

    def missing(self) -> str | None:
        return self._servers.missing()

    def version(self) -> str:
        import kazoo

        return f"ZooKeeper {self._servers.version()}, {len(SERVERS)} servers; kazoo {kazoo.__version__}"

    def start(self, directory: Path) -> None:
        self._servers.start(directory)

    def stop(self) -> None:
        self._servers.stop()

    def pids(self) -> Mapping[str, Sequence[int]]:
        return self._servers.pids()

    async def warm_up(self, point: int, seconds: float) -> None:
        """Longer than others': three JVMs compile what they run often."""
        await self.run(point, 3 * seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        from kazoo.client import KazooClient

        client = KazooClient(self._servers.address)
        client.start()
        try:
            client.ensure_path(PARENT)
            flow = Flow(client, self._states, str(next(self._runs)))
            return await drive(flow.transact, point, seconds)
        finally:
            client.stop()
            client.close()
