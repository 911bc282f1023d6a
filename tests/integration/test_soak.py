"""Writers and readers while nodes are killed, paused and restarted at random: acknowledged means visible.

Every writer adds one row to each table, in one transaction, and remembers what it was told. Readers compare the tables
of one snapshot with each other, and with the snapshot before. `make soak SECONDS=600` runs it for longer.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import SCHEMA, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import CommitUnknown, Transaction, TxnAborted, Unavailable
from txndeploy.local_cluster import LocalCluster
from txnstatus.types import TERMINAL

SECONDS = float(os.environ.get("TXN_SOAK_SECONDS", "20"))
SEED = int(os.environ.get("TXN_SOAK_SEED", "1"))
WRITERS = 3
TABLES = ("soak.one", "soak.two", "soak.three")


@dataclass
class History:
    """What the programs were told."""

    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    unknown: dict[int, Transaction] = field(default_factory=dict)
    polls: int = 0
    faults: int = 0
    problems: list[str] = field(default_factory=list)


def test_acknowledged_means_visible_whatever_happens_to_the_nodes(tmp_path: Path) -> None:
    history, stop = History(), threading.Event()
    with fast_cluster(tmp_path / "cluster") as cluster, connect(cluster) as client:
        for table in TABLES:
            client.create_table(table, SCHEMA)
        threads = [threading.Thread(target=_guarded, args=(history, _read, cluster, stop))]
        for writer in range(WRITERS):
            threads.append(threading.Thread(target=_guarded, args=(history, _write, cluster, stop, writer)))
        for thread in threads:
            thread.start()
        try:
            _torment(cluster, history)
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)
        cluster.start()
        for row, txn in history.unknown.items():
            _ask_again(history, row, txn)
        wait_until(lambda: all(txn.state in TERMINAL for txn in client.transactions()), "all end", 60)
        print(
            f"\n{history.faults} faults, {len(history.committed)} commits, {len(history.aborted)} aborts, "
            f"{history.polls} polls of all tables, {len(history.problems)} problems"
        )
        assert not history.problems, history.problems
        seen = visible(client, *TABLES)
        assert seen == [sorted(history.committed)] * len(TABLES)
        wait_until(lambda: settled(cluster), "all replicas hold the same state", 60)
        # A run without load, faults or readers says nothing. A poll reads a file for every row there is.
        assert history.faults >= SECONDS / 10
        assert len(history.committed) >= SECONDS
        assert history.polls >= SECONDS / 4


def _torment(cluster: LocalCluster, history: History) -> None:
    """One fault at a time, so that a majority is always there to come back to."""
    dice = random.Random(SEED)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        victim = dice.choice([*cluster.configs, "leader"])
        node = cluster.leader() if victim == "leader" else victim
        if dice.random() < 0.6:
            cluster.kill(node)
            _for(dice.uniform(0.2, 1.5))
            cluster.start_node(node)
        else:
            cluster.pause(node)
            _for(dice.uniform(0.2, 2.0))
            cluster.resume(node)
        history.faults += 1
        wait_until(lambda node=node: cluster.status(node) is not None, f"{node} answers")  # type: ignore[misc]
        _for(dice.uniform(0.1, 1.0))


def _for(seconds: float) -> None:
    """The length of a fault; nothing is waited for."""
    threading.Event().wait(seconds)


def _write(cluster: LocalCluster, history: History, stop: threading.Event, writer: int) -> None:
    row = writer
    with connect(cluster) as client:
        while not stop.is_set():
            row += WRITERS
            try:
                txn = client.begin(label=f"row {row}")
                for table in TABLES:
                    txn.write(rows(row), table)
            except (Unavailable, TxnAborted):
                continue  # it never asked for a commit, so the row must not be there
            _ask_again(history, row, txn)


def _ask_again(history: History, row: int, txn: Transaction) -> None:
    try:
        txn.commit(timeout=15)
    except TxnAborted:
        history.aborted.add(row)
    except CommitUnknown:
        history.unknown[row] = txn
        return
    else:
        history.committed.add(row)


def _read(cluster: LocalCluster, history: History, stop: threading.Event) -> None:
    last: set[int] = set()
    with connect(cluster) as client:
        while not stop.is_set():
            known = set(history.committed)
            try:
                seen = [set(ids) for ids in visible(client, *TABLES)]
            except Unavailable:
                continue
            history.polls += 1
            _check(history, seen, known, last)
            last = seen[0]


def _check(history: History, seen: list[set[int]], known: set[int], last: set[int]) -> None:
    if any(ids != seen[0] for ids in seen):
        history.problems.append(f"a snapshot saw {[len(ids) for ids in seen]} rows")
    if not known <= seen[0]:
        history.problems.append(f"acknowledged before the snapshot, and not in it: {sorted(known - seen[0])[:5]}")
    if not last <= seen[0]:
        history.problems.append(f"seen before, and gone: {sorted(last - seen[0])[:5]}")


def _guarded(history: History, work: Callable[..., None], cluster: LocalCluster, *arguments: object) -> None:
    try:
        work(cluster, history, *arguments)
    except BaseException as error:
        history.problems.append(f"{work.__name__}: {error!r}")
        raise
