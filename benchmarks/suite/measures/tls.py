"""What TLS costs, and knowing who calls: whole transactions on three nodes with TLS, of a user whose roles are asked
for each call, and on three without, in turns; and a handshake. A certificate, or a token in its place, is looked at
once for each connection.

Both clusters are there all the time, and each is given the same number of transactions, one after the other: what else
the machine does meanwhile is the same for both. CPU time is that of all threads of the nodes, as the kernel's scheduler
counts it, and of this process, which is the client.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from rich.console import RenderableType

from benchmarks.suite.options import at_least
from benchmarks.suite.ours import COLUMNS, OWNER, STATUS, TABLES, running, transact
from benchmarks.suite.report import table_of
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Purpose
from txnstatus.security import tls
from txnstatus.security.principals import Kind
from txnstatus.security.stream import TlsStream
from txnstatus.security.tls import Tls

HANDSHAKES = 300
FRAMES = 5_000
FRAME_BYTES = 1_000


@dataclass(slots=True)
class Side:
    cluster: LocalCluster
    shown: Tls | None
    """What this process shows as a client; None: there is no TLS."""
    serves: Tls | None = None
    """What a node shows."""
    nodes: list[float] = field(default_factory=list)
    """Seconds of CPU of all nodes, by round."""
    client: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def measure(
    in_flight: Annotated[int, at_least(1, "Transactions at once.")] = 64,
    transactions: Annotated[int, at_least(1, "In each round, on each side.")] = 3_000,
    rounds: Annotated[int, at_least(1)] = 5,
) -> Iterator[RenderableType]:
    with ExitStack() as stack:
        sides = {name: _side(stack, secure=name == "TLS") for name in ("plain", "TLS")}
        asyncio.run(_run(sides, in_flight, transactions, rounds))
        serves = sides["TLS"].serves
        assert serves is not None, "one side has TLS"
        alone = list(_alone(serves))  # while its files are there
    yield table_of(
        f"{rounds} x {transactions} transactions, {in_flight} in flight",
        ("", "nodes, ms CPU each", "client, ms CPU each", "a second"),
        [_row(name, side, transactions * rounds) for name, side in sides.items()],
    )
    for what, of in (("nodes", _nodes), ("nodes and client", _all)):
        shares = [plain / with_tls for plain, with_tls in zip(of(sides["plain"]), of(sides["TLS"]), strict=True)]
        median, least, most = statistics.median(shares), min(shares), max(shares)
        yield f"CPU without TLS / with, {what}: {median:.2f} ({least:.2f} to {most:.2f})"
    rates = [plain / with_tls for plain, with_tls in zip(sides["plain"].wall, sides["TLS"].wall, strict=True)]
    median, least, most = statistics.median(rates), min(rates), max(rates)
    yield f"transactions a second with TLS / without: {median:.2f} ({least:.2f} to {most:.2f})"
    yield from alone


def _side(stack: ExitStack, *, secure: bool) -> Side:
    cluster, client = stack.enter_context(running(secure=secure))
    for table in TABLES:
        client.create_table(table, COLUMNS)
    if not secure:
        return Side(cluster, None)
    shown = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    authority = Authority.load(cluster.directory / "authority")
    authority.issue(Kind.USER, OWNER, shown / "user")
    authority.issue(Kind.NODE, OWNER, shown / "node")
    client.grant("writer", OWNER, on=None)
    return Side(cluster, tls.within(shown / "user"), tls.within(shown / "node"))


async def _run(sides: dict[str, Side], in_flight: int, transactions: int, rounds: int) -> None:
    """Fills the sides in."""
    channels = {
        name: PeerChannel(side.cluster.address(side.cluster.leader(STATUS)), tls=side.shown, purpose=Purpose.CALLS)
        for name, side in sides.items()
    }
    for name in sides:
        await _transact(channels[name], in_flight, transactions // 5 + 1)
    for _ in range(rounds):
        for name, side in sides.items():
            nodes, client, wall = _cpu(side.cluster), time.process_time(), time.monotonic()
            await _transact(channels[name], in_flight, transactions)
            side.nodes.append(_cpu(side.cluster) - nodes)
            side.client.append(time.process_time() - client)
            side.wall.append(time.monotonic() - wall)
    for channel in channels.values():
        await channel.close()


async def _transact(channel: PeerChannel, in_flight: int, transactions: int) -> None:
    left = iter(range(transactions))

    async def work() -> None:
        for _ in left:
            await transact(channel)

    await asyncio.gather(*(work() for _ in range(in_flight)))


def _cpu(cluster: LocalCluster) -> float:
    """Seconds of CPU that the nodes' threads have had (Linux)."""
    tasks = (task for node in cluster.configs for task in Path(f"/proc/{cluster.pid(node)}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _nodes(side: Side) -> list[float]:
    return side.nodes


def _all(side: Side) -> list[float]:
    return [nodes + client for nodes, client in zip(side.nodes, side.client, strict=True)]


def _row(name: str, side: Side, transactions: int) -> tuple[str, str, str, str]:
    nodes, client = sum(side.nodes) / transactions * 1_000, sum(side.client) / transactions * 1_000
    return name, f"{nodes:.3f}", f"{client:.3f}", f"{transactions / sum(side.wall):,.0f}"


def _alone(shown: Tls) -> Iterator[str]:
    """What TLS does by itself, both ends together."""
    contexts = shown.contexts()

    def shake() -> tuple[TlsStream, TlsStream]:
        serves, dials = TlsStream(contexts, serves=True), TlsStream(contexts, serves=False)
        serves.take(dials.outgoing())
        dials.take(serves.outgoing())
        serves.take(dials.outgoing())
        return serves, dials

    serves, dials = shake()
    data = bytes(FRAME_BYTES)
    yield f"a handshake: {_seconds(shake, HANDSHAKES) * 1e3:.1f} ms CPU"
    frame = _seconds(lambda: serves.take(dials.seal(data)), FRAMES)
    yield f"a frame of {FRAME_BYTES:,} bytes, sealed and taken: {frame * 1e6:.1f} us CPU"


def _seconds(act: Callable[[], object], times: int) -> float:
    """Seconds of CPU that it takes once."""
    began = time.process_time()
    for _ in range(times):
        act()
    return (time.process_time() - began) / times
