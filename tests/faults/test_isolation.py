"""Snapshot isolation as clients see it, on real nodes, while processes, disks and the network fail.

Client processes contend for accounts and their lists (tests/faults/teller.py); the checker that judges the simulator's
histories (tests.sim.judges.isolation) judges theirs. `make isolation SECONDS=600 SEED=7` runs it for longer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.faults.disks import can_mount
from tests.faults.history import now
from tests.faults.moves import migrate_under_kills, spread_under_kills
from tests.faults.nemesis import draw, torment
from tests.faults.planted_node import planted
from tests.faults.rig import RECOVERY_SECONDS, Rig, working
from tests.faults.teller import LEASE_SECONDS, RETENTION_SECONDS
from tests.faults.tellers import Tellers
from tests.support import FAST_TXN, connect, wait_until
from txndeploy.local.namespaces import best_network
from txndeploy.local.proxies import Proxies

SECONDS = float(os.environ.get("TXN_ISOLATION_SECONDS", "20"))
SEED = int(os.environ.get("TXN_SEED", "1"))
ROUNDS = 4
"""Nodes that come and go one after the other, in a campaign."""

LITTLE_KEPT = FAST_TXN.model_copy(
    update={
        "row_flush_bytes": 4_000,
        "snapshot_retention_seconds": RETENTION_SECONDS,
        "snapshot_lease_seconds": LEASE_SECONDS,
    }
)
"""What is overwritten goes within the run, unless somebody reads it under a lease."""


@pytest.mark.campaign
@pytest.mark.timeout(300 + 4 * SECONDS)
def test_transactions_are_isolated_whatever_fails(tmp_path: Path) -> None:
    options = {"network": best_network(SEED), "disks": can_mount(), "txn": LITTLE_KEPT}
    with working(tmp_path / "cluster", SEED, Tellers, **options) as (rig, tellers):
        _play(rig, tellers, SECONDS, 3)
        finish(rig, tellers)


@pytest.mark.timeout(300 + 4 * SECONDS)
@pytest.mark.parametrize(("seconds", "faults"), [(1.0, 1), pytest.param(SECONDS, 3, marks=pytest.mark.campaign)])
def test_a_foreign_participant_is_part_of_its_transactions(tmp_path: Path, seconds: float, faults: int) -> None:
    """Its host is on loopback, where nodes in namespaces of their own would not reach it."""
    made = partial(Tellers, with_till=True)
    cluster = working(tmp_path / "cluster", SEED, made, network=Proxies(SEED), txn=LITTLE_KEPT)
    with cluster as (rig, tellers), tellers.till:
        _play(rig, tellers, seconds, faults)
        finish(rig, tellers)
    assert tellers.counts()["in the till"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.campaign)])
def test_transactions_are_isolated_while_nodes_come_and_go(rounds: int, tmp_path: Path) -> None:
    """Nodes join and get replicas, are drained and leave, and are killed meanwhile."""
    _play_moves(tmp_path, rounds, spread_under_kills)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.campaign)])
def test_transactions_are_isolated_while_shards_go_to_other_groups(rounds: int, tmp_path: Path) -> None:
    """And back, while nodes are killed."""
    _play_moves(tmp_path, rounds, migrate_under_kills)


def _play(rig: Rig, tellers: Tellers, seconds: float, faults: int) -> None:
    """For so long, and through so many faults, at least."""
    with tellers:
        rig.await_progress()
        while now() - rig.started < seconds or sum(rig.faults.values()) < faults:
            tellers.replace()
            torment(rig, [draw(rig)])
        _await_enough(rig, tellers)


def _play_moves(tmp_path: Path, rounds: int, move: Callable[[Rig], None]) -> None:
    with working(tmp_path / "cluster", SEED, Tellers, txn=LITTLE_KEPT) as (rig, tellers):
        with tellers:
            rig.await_progress()
            for _ in range(rounds):
                tellers.replace()
                move(rig)
                rig.await_progress()
            _await_enough(rig, tellers)
        finish(rig, tellers)


def _await_enough(rig: Rig, tellers: Tellers) -> None:
    """A slow host needs longer for as much."""
    wait_until(lambda: not tellers.shortfalls(rig.faults) or tellers.unexpected, "enough was done", 60)


def finish(rig: Rig, tellers: Tellers) -> None:
    with connect(rig.cluster) as client:
        rig.await_rest(client)
    wait_until(lambda: not tellers.till.prepared, "nothing is prepared in the till", RECOVERY_SECONDS)
    tellers.audit()
    print(rig.report())
    found = [*tellers.unexpected, *tellers.anomalies()]
    assert not found, f"{len(found)} anomalies, seed {rig.seed}:\n" + "\n".join(found[:20])


# ---- the rig itself: a checker that finds nothing proves nothing


FOUND_SECONDS = 60.0
"""A planted fault is in the history by then, or nobody would find it."""


def first_anomaly(tellers: Tellers) -> str:
    found = lambda: next(iter([*tellers.anomalies(), *tellers.unexpected]), "")  # noqa: E731
    return wait_until(found, "the fault is found", FOUND_SECONDS)


@pytest.mark.parametrize(
    "fault",
    [
        "an overwrite forgets its base",
        pytest.param("keys never conflict", marks=pytest.mark.campaign),
        pytest.param("a snapshot below the last commit", marks=pytest.mark.campaign),
        pytest.param("leases ignored", marks=pytest.mark.campaign),
    ],
)
def test_a_fault_of_the_nodes_is_found(fault: str, tmp_path: Path) -> None:
    with (
        planted(fault),
        working(tmp_path / "cluster", SEED, Tellers, txn=LITTLE_KEPT) as (_, tellers),
        tellers.till,
        tellers,
    ):
        print(fault, "->", first_anomaly(tellers))


def test_a_client_that_reads_what_is_stale_is_found(tmp_path: Path) -> None:
    """No node can know what it goes by."""
    with working(tmp_path / "cluster", SEED, partial(Tellers, stale=2.0)) as (_, tellers), tellers:
        print(first_anomaly(tellers))
