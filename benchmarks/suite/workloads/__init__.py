"""The workloads. A new one is a module here that makes a `Workload`, and a name in this list."""

from __future__ import annotations

from benchmarks.suite.model import Workload
from benchmarks.suite.workloads import begins, clients, reads, transactions

ALL: tuple[Workload, ...] = (transactions.WORKLOAD, clients.WORKLOAD, begins.WORKLOAD, reads.WORKLOAD)
