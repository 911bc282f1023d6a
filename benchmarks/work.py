"""What a transaction is to each node, in the two measures that a busy machine moves least.

python -m benchmarks.work calls --in-flight 64
python -m benchmarks.work cpu --in-flight 64 --seconds 30

`calls`: function calls of Python a transaction, by module; the interpreter's own functions count for the module that
makes them. Counting makes all of it slow, so times are no part of what is shown. `cpu`: in which function a node is
whenever it has used a millisecond of CPU (the kernel's clock may make that four). It shows what no count does, such as
what making an object costs; the garbage collector's time is that of whoever was running.

Whole transactions over two tables, as the suite's workload has them, on three nodes.
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
from collections.abc import Callable
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
SAMPLE_SECONDS = 0.001
SHOWN = {"calls": 12, "cpu": 25}
"""Lines for each node."""

Counts = Counter[str]
"""Calls by module, or samples by function."""


# ---- in a node


def count_calls() -> Callable[[], Counts]:
    """Begins; the answer tells of all since then."""
    profile = cProfile.Profile()
    profile.enable()

    def counted() -> Counts:
        profile.snapshot_stats()
        counts: Counts = Counter()
        for (file, _, _), (_, count, _, _, callers) in profile.stats.items():
            if file == "~":  # the interpreter's own
                for (caller, _, _), (made, *_) in callers.items():
                    counts[_module(caller)] += made
            else:
                counts[_module(file)] += count
        return counts

    return counted


def sample_cpu() -> Callable[[], Counts]:
    """Likewise."""
    samples: Counts = Counter()

    def sample(_signum: int, frame: FrameType | None) -> None:
        if frame is not None:
            samples[f"{_module(frame.f_code.co_filename)} {frame.f_code.co_qualname}"] += 1

    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    return samples.copy


MEASURES = {"calls": count_calls, "cpu": sample_cpu}


def be_a_node(measure: str, directory: Path, parent: int, config: Path) -> int:
    """Runs a node that writes what it has counted when SIGUSR2 asks for it."""
    counted = MEASURES[measure]()

    def write(_signum: int, _frame: FrameType | None) -> None:
        partial = directory / f"{os.getpid()}.new"
        partial.write_bytes(marshal.dumps(dict(counted())))
        partial.rename(directory / str(os.getpid()))

    signal.signal(signal.SIGUSR2, write)
    return tethered.main(parent, config)


def _module(file: str) -> str:
    path = Path(file)
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1]
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else "the standard library"


# ---- beside the nodes


def read(directory: Path, pid: int) -> Counts:
    """All since the process began."""
    written = directory / str(pid)
    written.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    wait_until(written.exists, f"process {pid} says what it has counted")
    return Counter(marshal.loads(written.read_bytes()))


def run(cluster: LocalCluster, directory: Path, in_flight: int, seconds: float) -> tuple[int, dict[str, Counts]]:
    """Returns how many transactions there were, and what was counted meanwhile by node."""

    async def load(for_seconds: float) -> int:
        channel = PeerChannel(cluster.address(cluster.leader(STATUS)))
        try:
            return len((await drive(lambda _number: transact(channel), in_flight, for_seconds)).latencies)
        finally:
            await channel.close()

    asyncio.run(load(WARM_UP_SECONDS))
    before = {node: read(directory, cluster.pid(node)) for node in cluster.configs}
    transactions = asyncio.run(load(seconds))
    return transactions, {node: read(directory, cluster.pid(node)) - before[node] for node in cluster.configs}


def role(cluster: LocalCluster, node: str, tables_leader: str) -> str:
    leads = [what for what, leader in (("status", cluster.leader(STATUS)), ("tables", tables_leader)) if leader == node]
    return f"{node}, leads {' and '.join(leads)}" if leads else f"{node}, follows"


def show(measure: str, title: str, counts: Counts, transactions: int) -> None:
    what, unit, per = (
        ("module", "calls a transaction", transactions) if measure == "calls" else ("function", "samples", 1)
    )
    total, top = counts.total(), counts.most_common(SHOWN[measure])
    others = f"{len(counts) - len(top)} others", total - sum(count for _, count in top)
    shown = Table(what, unit, "share", title=title)
    for name, count in [*top, others, ("all", total)]:
        shown.add_row(name, f"{count / per:.0f}", f"{count / max(total, 1):.1%}")
    Console().print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        launcher = [sys.executable, "-m", "benchmarks.work", AS_NODE, arguments.measure, temporary]
        cluster = LocalCluster(directory / "cluster", environment={"PYTHONPATH": str(ROOT)}, launcher=launcher)
        cluster.start()
        try:
            with txnclient.connect(cluster.addresses) as client:
                (shard, *_) = {client.create_table(table, COLUMNS).table_id.partition(".")[0] for table in TABLES}
            transactions, counts = run(cluster, directory, arguments.in_flight, arguments.seconds)
            tables_leader = cluster.leader(f"shard-{shard}")
            for node in sorted(cluster.configs):
                show(arguments.measure, role(cluster, node, tables_leader), counts[node], transactions)
            each = sum(node.total() for node in counts.values()) / transactions
            calls = f": {each:.0f} calls each on the three nodes" if arguments.measure == "calls" else ""
            print(f"{transactions} transactions, {arguments.in_flight} in flight{calls}")
        finally:
            cluster.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == [AS_NODE]:
        raise SystemExit(be_a_node(sys.argv[2], Path(sys.argv[3]), int(sys.argv[-2]), Path(sys.argv[-1])))
    main()
