"""The workloads. A new one is a module here that makes a `Workload`, and a name in this list."""

from __future__ import annotations

from benchmarks.suite.model import Workload
from benchmarks.suite.workloads import (
    aged,
    appenders,
    asyncio_twin,
    begins,
    beside,
    changes,
    clients,
    compaction,
    failover,
    groups,
    heartbeats,
    reads,
    spark,
    spark_changes,
    sql,
    table_pairs,
    tables,
    tenants,
    tpch,
    transactions,
)

ALL: tuple[Workload, ...] = (
    transactions.WORKLOAD,
    clients.WORKLOAD,
    groups.WORKLOAD,
    asyncio_twin.WORKLOAD,
    begins.WORKLOAD,
    reads.WORKLOAD,
    table_pairs.WORKLOAD,
    changes.WORKLOAD,
    compaction.WORKLOAD,
    tables.WORKLOAD,
    tenants.WORKLOAD,
    appenders.WORKLOAD,
    failover.WORKLOAD,
    heartbeats.WORKLOAD,
    beside.OPEN,
    beside.GROWTH,
    spark.WORKLOAD,
    spark_changes.WORKLOAD,
    aged.APPENDED,
    aged.REFRESHED,
    sql.STATEMENTS,
    sql.POINT_QUERY,
    tpch.WORKLOAD,
)
