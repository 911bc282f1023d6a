"""Programs that together change more rows than a shard has memory for, against real nodes."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from tests.support import connect
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

PROGRAMS = 5
LARGE, SMALL = 620, 140
"""Rows of 10,000 bytes. Five times the first have 31 of the 32 MiB, and no program has room for what it still has to
write; both are within the 8 MiB of one transaction."""


def test_programs_that_have_a_part_of_the_memory_each_all_commit(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str]
) -> None:
    table = new_table(primary_key=["id"])
    all_have_a_part = threading.Barrier(PROGRAMS, timeout=60)

    def program(number: int) -> None:
        with connect(cluster) as own, own.transaction() as txn:
            txn.upsert(table, large_rows(number, 0, LARGE))
            all_have_a_part.wait()
            txn.upsert(table, large_rows(number, LARGE, LARGE + SMALL))

    with ThreadPoolExecutor(PROGRAMS) as pool:
        list(pool.map(program, range(PROGRAMS)))
    assert client.snapshot().to_arrow(table, columns=["id"]).num_rows == PROGRAMS * (LARGE + SMALL)


def large_rows(number: int, start: int, end: int) -> pa.Table:
    """Rows that do not get smaller when they are packed."""
    ids = [1_000_000 * number + each for each in range(start, end)]
    notes = [base64.b64encode(os.urandom(7_500)).decode() for _ in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "note": notes})
