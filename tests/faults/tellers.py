"""Client processes that contend for accounts (see teller.py), some of them killed, and whether they saw isolation."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults.history import now
from tests.faults.teller import ACCOUNTS, Told, create_tables, from_line, lists, read_accounts
from tests.faults.till import Till
from tests.sim.judges.isolation import Observed, anomalies
from tests.support import connect
from txndeploy.local.cluster import LocalCluster

PROCESSES = 2
STOP_SECONDS = 120.0
ROOT = Path(__file__).parents[2]
FLOORS = {"committed": 5, "Conflict": 1, "audits": 2}
"""Least counts for each fault, and once more: with less a run says nothing."""


class Tellers:
    """Runs from `__enter__` to `__exit__`."""

    def __init__(
        self, cluster: LocalCluster, seed: int, stale: float | None = None, *, with_till: bool = False
    ) -> None:
        """`stale`: as of a teller. `with_till`: the till takes part; whoever asks for it enters it before."""
        self._cluster, self._seed = cluster, seed
        self._more = [] if stale is None else [str(stale)]
        self._with_till = with_till
        self.till = Till(cluster.directory, cluster)
        self._lock = threading.Lock()
        self._seen: dict[str, Told] = {}
        """The last word on each transaction, and every audit."""
        self._failed: Counter[str] = Counter()
        self._problems: list[str] = []
        self._started = 0
        self._running: list[tuple[subprocess.Popen[str], threading.Thread]] = []

    def __enter__(self) -> Self:
        with connect(self._cluster, timeout=60.0) as client:
            create_tables(client)
        for _ in range(PROCESSES):
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, _ in self._running:
            assert process.stdin is not None
            process.stdin.close()
        for process, listener in self._running:
            try:
                process.wait(STOP_SECONDS)
            finally:
                process.kill()
                listener.join()
            if process.returncode:
                self._problems.append(f"a teller ended with {process.returncode}")

    def start(self) -> None:
        self._started += 1
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.faults.teller", self._cluster.addresses),
                *(str(self._seed), str(self._started), str(self.till.program) if self._with_till else "-", *self._more),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        listener = threading.Thread(target=self._listen, args=(process,))
        listener.start()
        self._running.append((process, listener))

    def replace(self) -> None:
        """The oldest is killed, in the middle of whatever it does; another one begins. So does the till's host."""
        if self._with_till:
            self.till.kill()
            self.till.start()
        process, listener = self._running.pop(0)
        process.kill()
        process.wait()
        listener.join()
        self.start()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.endswith("\n"):
                return  # it was killed
            told = from_line(line)
            with self._lock:
                if told.problem:
                    self._problems.append(told.problem)
                elif told.seen is None:
                    self._failed[told.why] += 1
                else:
                    self._seen[told.seen.name] = told

    # ---- what was seen

    @property
    def commits(self) -> int:
        with self._lock:
            return sum(bool(told.seen and told.seen.committed and told.txn_id) for told in self._seen.values())

    @property
    def unexpected(self) -> Sequence[str]:
        return self._problems

    def counts(self) -> Counter[str]:
        with self._lock:
            counts = self._failed + Counter(_outcome(told) for told in self._seen.values())
        counts["client processes"] = self._started
        counts["in the till"] = sum(committed is True for committed, _ in self._outcomes_with_till().values())
        return counts

    def audit(self) -> None:
        """A last look, which nothing may be missing from that was acknowledged."""
        began_at = now()
        with connect(self._cluster) as client:
            found = read_accounts(client.snapshot(), *ACCOUNTS)
        seen = Observed("the last audit", True, lists(found), {}, began_at, now())
        self._seen[seen.name] = Told(seen)
        if total := sum(account.balance for account in found.values()):
            self._problems.append(f"the sum in the end is {total}: {found}")
        self._problems += self.till.contradictions(self._outcomes_with_till())

    def _outcomes_with_till(self) -> dict[int, tuple[bool | None, list[int]]]:
        told = (each for each in self._seen.values() if each.till and each.seen is not None)
        return {each.txn_id: (each.seen.committed, list(each.till)) for each in told if each.seen is not None}

    def anomalies(self) -> list[str]:
        """What the checker finds in the history so far."""
        with self._lock:
            history = [told.seen for told in self._seen.values() if told.seen is not None]
        return [str(anomaly) for anomaly in anomalies(history)]

    def shortfalls(self, faults: Mapping[str, int]) -> list[str]:
        """What a run lacks that would let it say something."""
        counts, times = self.counts(), 1 + sum(faults.values())
        return [f"{counts[what]} {what}" for what, floor in FLOORS.items() if counts[what] < floor * times]


def _outcome(told: Told) -> str:
    if not told.txn_id:
        return "audits"
    return told.why or "committed"
