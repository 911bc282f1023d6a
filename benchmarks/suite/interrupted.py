"""Load that goes on whatever happens to the servers: what was acknowledged when, and what was refused."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import grpc

from txnclient import TxnError
from txndeploy.local.cluster import wait_until
from txndeploy.local.programs import Programs

WRITERS = 8
NEXT_SECONDS = 60.0

Program = Callable[[], AbstractContextManager[Callable[[], int]]]
"""Connects; what it gives does one transaction, and returns its id. It raises TxnError or RpcError."""


class Load(Programs):
    """Writers that do one transaction after the other, and go on whatever happens."""

    def __init__(self, program: Program) -> None:
        super().__init__(WRITERS)
        self._program = program
        self.acknowledged: list[tuple[int, float, float]] = []
        """Transactions, each with the times of its begin and of its acknowledgement."""
        self.refused: list[Exception] = []

    def run(self, _number: int) -> None:
        with self._program() as transact:
            while not self.ended.is_set():
                began = time.monotonic()
                try:
                    txn = transact()
                except (TxnError, grpc.RpcError) as error:
                    self.refused.append(error)
                else:
                    self.acknowledged.append((txn, began, time.monotonic()))

    def next_after(self, moment: float) -> float:
        """Seconds from then until one that was begun after it was acknowledged."""

        def found() -> list[float]:
            return [ended - moment for _, began, ended in self.acknowledged if began > moment]

        return min(wait_until(found, "the next commit", NEXT_SECONDS))

    def longest_gap(self, since: float, until: float) -> float:
        """Seconds between two acknowledgements, of which the second one came in that time."""
        ended = sorted(ended for _, _, ended in self.acknowledged if ended < until)
        return max(after - before for before, after in itertools.pairwise(ended) if after > since)
