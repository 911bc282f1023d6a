"""Snapshot isolation as clients see it, on real nodes, while processes, disks and the network fail.

Client processes contend for accounts and their lists (tests/faults/teller.py); the checker that judges the simulator's
histories (tests.sim.judges.isolation) judges theirs. `make isolation SECONDS=600 SEED=7` runs it for longer.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tests.faults.disks import can_mount
from tests.faults.history import now
from tests.faults.nemesis import draw, torment
from tests.faults.planted_node import planted
from tests.faults.rig import Rig, working
from tests.faults.tellers import Tellers
from tests.support import FAST_TXN, connect, wait_until
from txndeploy.local.namespaces import best_network

SECONDS = float(os.environ.get("TXN_ISOLATION_SECONDS", "20"))
SEED = int(os.environ.get("TXN_SEED", "1"))

FLUSHED_OFTEN = FAST_TXN.model_copy(update={"row_flush_bytes": 4_000})


@pytest.mark.campaign
@pytest.mark.timeout(300 + 4 * SECONDS)
def test_transactions_are_isolated_whatever_fails(tmp_path: Path) -> None:
    network = best_network(SEED)
    with working(tmp_path / "cluster", SEED, Tellers, network=network, disks=can_mount(), txn=FLUSHED_OFTEN) as (
        rig,
        tellers,
    ):
        with tellers:
            rig.await_progress()
            while now() - rig.started < SECONDS or sum(rig.faults.values()) < 3:
                tellers.replace()
                torment(rig, [draw(rig)])
            # A slow host needs longer for as much.
            wait_until(lambda: not tellers.shortfalls(rig.faults) or tellers.unexpected, "enough was done", 60)
        finish(rig, tellers)


def finish(rig: Rig, tellers: Tellers) -> None:
    with connect(rig.cluster) as client:
        rig.await_rest(client)
    tellers.audit()
    print(rig.report())
    found = [*tellers.unexpected, *tellers.anomalies()]
    assert not found, f"{len(found)} anomalies, seed {rig.seed}:\n" + "\n".join(found[:20])


# ---- the rig itself: a checker that finds nothing proves nothing


FOUND_SECONDS = 60.0
"""A planted fault is in the history by then, or nobody would find it."""


def first_anomaly(tellers: Tellers) -> str:
    return wait_until(lambda: next(iter(tellers.anomalies()), ""), "the fault is found", FOUND_SECONDS)


@pytest.mark.parametrize(
    "fault",
    [
        "an overwrite forgets its base",
        pytest.param("keys never conflict", marks=pytest.mark.campaign),
        pytest.param("a snapshot below the last commit", marks=pytest.mark.campaign),
    ],
)
def test_a_fault_of_the_nodes_is_found(fault: str, tmp_path: Path) -> None:
    with planted(fault), working(tmp_path / "cluster", SEED, Tellers) as (_, tellers), tellers:
        print(fault, "->", first_anomaly(tellers))


def test_a_client_that_reads_what_is_stale_is_found(tmp_path: Path) -> None:
    """No node can know what it goes by."""
    with working(tmp_path / "cluster", SEED, partial(Tellers, stale=2.0)) as (_, tellers), tellers:
        print(first_anomaly(tellers))
