"""What a transaction is to each node, in the measures that a busy machine moves least.

python -m benchmarks.work calls --in-flight 64
python -m benchmarks.work cpu --in-flight 64 --seconds 30
python -m benchmarks.work turns --in-flight 64 --seconds 30 --open 100000

`calls`: function calls of Python a transaction, by module; the interpreter's own functions count for the module that
makes them. Counting makes all of it slow, so times are no part of what is shown. `cpu`: in which function a node is
whenever it has used a millisecond of CPU (the kernel's clock may make that four). It shows what no count does, such as
what making an object costs; the garbage collector's time is that of whoever was running. `turns`: how late the node's
event loop came to timers of a millisecond, and how late it was by its own work, which is the CPU that it used in that
time: for the rest it waited for a core.

Whole transactions over two tables, as the suite's workload has them, on three nodes; beside others that are only open.
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
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

import txnclient
from benchmarks.suite.ballast import SILENT_MS, begin_batches, connected
from benchmarks.suite.drive import drive
from benchmarks.suite.ours import COLUMNS, STATUS, TABLES, transact
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.node import tethered
from txndeploy.node.config import TxnSection
from txndeploy.node.loop_watch import LoopWatch

ROOT = Path(__file__).parent.parent
AS_NODE = "--as-node"
WARM_UP_SECONDS = 2.0
SAMPLE_SECONDS = 0.001
SHOWN = {"calls": 12, "cpu": 25}
"""Lines for each node."""
LOOK_SECONDS = 0.001
LATE_MS = (1, 2, 5, 10, 20, 50)
UP_TO = (*(f"{ms} ms" for ms in LATE_MS), "more")
LATE, BY_ITSELF = "late", "by its own work"

Counts = Counter[str]
"""Calls by module, samples by function, or timers by how late they were."""


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


def time_turns() -> Callable[[], Counts]:
    """Likewise."""
    timers: Counts = Counter()

    async def watch(_watch: LoopWatch) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, used = loop.time() + LOOK_SECONDS, time.thread_time()
            await asyncio.sleep(LOOK_SECONDS)
            late = loop.time() - due
            timers[f"{LATE} {_up_to(late)}"] += 1
            timers[f"{BY_ITSELF} {_up_to(min(late, time.thread_time() - used))}"] += 1

    LoopWatch.run = watch  # type: ignore[assignment, method-assign]
    return timers.copy


def _up_to(seconds: float) -> str:
    return UP_TO[bisect_left(LATE_MS, 1000 * seconds)]


MEASURES = {"calls": count_calls, "cpu": sample_cpu, "turns": time_turns}


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


def run(
    cluster: LocalCluster, directory: Path, in_flight: int, seconds: float, others: int
) -> tuple[int, dict[str, Counts]]:
    """Returns how many transactions there were, and what was counted meanwhile by node. `others`: that are open."""
    leader = cluster.address(cluster.leader(STATUS))

    async def load(for_seconds: float) -> int:
        async with connected(leader) as channel:
            return len((await drive(lambda _number: transact(channel), in_flight, for_seconds)).latencies)

    async def begin_others() -> None:
        async with connected(leader) as channel:
            await begin_batches(channel, others, SILENT_MS)

    asyncio.run(begin_others())
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


def show_turns(title: str, counts: Counts) -> None:
    shown = Table("up to", LATE, BY_ITSELF, title=title)
    for bound in UP_TO:
        shown.add_row(bound, f"{counts[f'{LATE} {bound}']:,}", f"{counts[f'{BY_ITSELF} {bound}']:,}")
    Console().print(shown)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measure", choices=MEASURES)
    parser.add_argument("--in-flight", type=int, default=64, help="transactions at once")
    parser.add_argument("--seconds", type=float, default=5.0, help="of load that is measured")
    parser.add_argument("--open", type=int, default=0, help="transactions that are begun before, and left alone")
    arguments = parser.parse_args()
    if arguments.in_flight < 1 or arguments.seconds <= 0 or arguments.open < 0:
        parser.error("--in-flight must be at least 1, --seconds above 0, and --open not below 0")
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        launcher = [sys.executable, "-m", "benchmarks.work", AS_NODE, arguments.measure, temporary]
        cluster = LocalCluster(
            directory / "cluster",
            txn=TxnSection(max_open_transactions=0),
            environment={"PYTHONPATH": str(ROOT)},
            launcher=launcher,
        )
        cluster.start()
        try:
            with txnclient.connect(cluster.addresses) as client:
                (shard, *_) = {client.create_table(table, COLUMNS).table_id.partition(".")[0] for table in TABLES}
            transactions, counts = run(cluster, directory, arguments.in_flight, arguments.seconds, arguments.open)
            tables_leader = cluster.leader(f"shard-{shard}")
            for node in sorted(cluster.configs):
                title = role(cluster, node, tables_leader)
                if arguments.measure == "turns":
                    show_turns(title, counts[node])
                else:
                    show(arguments.measure, title, counts[node], transactions)
            calls = ""
            if arguments.measure == "calls":
                each = sum(node.total() for node in counts.values()) / transactions
                calls = f": {each:.0f} calls each on the three nodes"
            print(f"{transactions} transactions, {arguments.in_flight} in flight{calls}")
        finally:
            cluster.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == [AS_NODE]:
        raise SystemExit(be_a_node(sys.argv[2], Path(sys.argv[3]), int(sys.argv[-2]), Path(sys.argv[-1])))
    main()
