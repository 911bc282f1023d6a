"""How many function calls of Python a transaction is on each node, and of which modules: a measure that a busy machine
does not move, where times do.

python -m benchmarks.calls --in-flight 64 --seconds 5

Whole transactions over two tables, as the suite's workload has them, on three nodes that count their calls. Those of
the interpreter's own functions count for the module that makes them. Counting makes all of it slow: times are no part
of what is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import marshal
import os
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

import txnclient
from benchmarks.suite.drive import drive
from benchmarks.suite.ours import COLUMNS, STATUS, TABLES, transact
from txndeploy import tethered
from txndeploy.local_cluster import LocalCluster, wait_until
from txnstatus.rpc.channel import PeerChannel

ROOT = Path(__file__).parent.parent
AS_NODE = "--as-node"
WARM_UP_SECONDS = 2.0
SHOWN = 12
"""Modules of each node."""

Calls = Counter[str]
"""By module."""


def be_a_node(directory: Path, parent: int, config: Path) -> int:
    """Runs a node that counts its calls, and writes what it has counted when SIGUSR2 asks for it."""
    profile = cProfile.Profile()

    def write(_signum: int, _frame: FrameType | None) -> None:
        profile.snapshot_stats()
        partial = directory / f"{os.getpid()}.new"
        partial.write_bytes(marshal.dumps(profile.stats))
        partial.rename(directory / str(os.getpid()))

    signal.signal(signal.SIGUSR2, write)
    profile.enable()
    return tethered.main(parent, config)


def counted(directory: Path, pid: int) -> Calls:
    """All since the process began."""
    written = directory / str(pid)
    written.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    wait_until(written.exists, f"process {pid} says what it has counted")
    calls: Calls = Counter()
    for (file, _, _), (_, count, _, _, callers) in marshal.loads(written.read_bytes()).items():
        if file == "~":  # the interpreter's own
            for (caller, _, _), (made, *_) in callers.items():
                calls[_module(caller)] += made
        else:
            calls[_module(file)] += count
    return calls


def _module(file: str) -> str:
    path = Path(file)
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1]
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else "the standard library"


def measure(cluster: LocalCluster, directory: Path, in_flight: int, seconds: float) -> tuple[int, dict[str, Calls]]:
    """Returns how many transactions there were, and the calls meanwhile by node."""

    async def load(for_seconds: float) -> int:
        channel = PeerChannel(cluster.address(cluster.leader(STATUS)))
        try:
            return len((await drive(lambda _number: transact(channel), in_flight, for_seconds)).latencies)
        finally:
            await channel.close()

    asyncio.run(load(WARM_UP_SECONDS))
    before = {node: counted(directory, cluster.pid(node)) for node in cluster.configs}
    transactions = asyncio.run(load(seconds))
    return transactions, {node: counted(directory, cluster.pid(node)) - before[node] for node in cluster.configs}


def role(cluster: LocalCluster, node: str, tables_leader: str) -> str:
    leads = [what for what, leader in (("status", cluster.leader(STATUS)), ("tables", tables_leader)) if leader == node]
    return f"{node}, leads {' and '.join(leads)}" if leads else f"{node}, follows"


def show(title: str, calls: Calls, transactions: int) -> None:
    shown = Table("module", "calls a transaction", "share", title=title)
    total = calls.total()
    for module, count in calls.most_common(SHOWN):
        shown.add_row(module, f"{count / transactions:.0f}", f"{count / total:.0%}")
    rest = total - sum(count for _, count in calls.most_common(SHOWN))
    shown.add_row(f"{len(calls) - SHOWN} others", f"{rest / transactions:.0f}", f"{rest / total:.0%}")
    shown.add_row("all", f"{total / transactions:.0f}", "")
    Console().print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        launcher = [sys.executable, "-m", "benchmarks.calls", AS_NODE, temporary]
        cluster = LocalCluster(directory / "cluster", environment={"PYTHONPATH": str(ROOT)}, launcher=launcher)
        cluster.start()
        try:
            with txnclient.connect(cluster.addresses) as client:
                (shard, *_) = {client.create_table(table, COLUMNS).table_id.partition(".")[0] for table in TABLES}
            transactions, calls = measure(cluster, directory, arguments.in_flight, arguments.seconds)
            tables_leader = cluster.leader(f"shard-{shard}")
            for node in sorted(cluster.configs):
                show(role(cluster, node, tables_leader), calls[node], transactions)
            total = sum(each.total() for each in calls.values())
            print(
                f"{transactions} transactions, {arguments.in_flight} in flight: {total / transactions:.0f} calls each "
                "on the three nodes"
            )
        finally:
            cluster.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == [AS_NODE]:
        raise SystemExit(be_a_node(Path(sys.argv[2]), int(sys.argv[-2]), Path(sys.argv[-1])))
    main()
