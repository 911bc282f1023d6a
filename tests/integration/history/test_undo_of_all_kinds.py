"""Undo and restore against a naive model (past.py): of tables with keys and without, compacted, imported, altered."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.history.past import Past
from tests.support import FAST_TXN, fast_cluster
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

SEEDS = 500
ALWAYS = 8
"""Seeds that every run of the tests plays: two of each kind of table."""
SLICE = 50
STEPS = 14


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One on which nobody expires: a campaign fills the machine, and this is not about heartbeats that come late."""
    patient = FAST_TXN.model_copy(update={"keepalive_default_ms": 120_000})
    with fast_cluster(tmp_path_factory.mktemp("past"), txn=patient) as running:
        yield running


def play(client: Client, seed: int, directory: Path) -> Counter[str]:
    dice = random.Random(seed)
    past = Past(client, f"past.seed_{seed}", dice, directory, keyed=bool(seed % 2), parted=bool(seed // 2 % 2))
    past.create()
    try:
        for _ in range(STEPS):
            past.step()
        past.check_past()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {past.done}: {error}") from error
    client.drop_table(past.table)
    return Counter(past.done)


def test_whatever_became_of_a_table_is_taken_back(client: Client, tmp_path: Path) -> None:
    done = sum((play(client, seed, tmp_path) for seed in range(ALWAYS)), Counter[str]())
    assert {"undo", "undo refused", "restore"} <= done.keys()


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(ALWAYS, SEEDS, SLICE))
def test_many_pasts_are_taken_back(client: Client, tmp_path: Path, first: int) -> None:
    seeds = range(first, min(first + SLICE, SEEDS))
    done = sum((play(client, seed, tmp_path) for seed in seeds), Counter[str]())
    print(f"\nseeds {seeds[0]} to {seeds[-1]}: " + ", ".join(f"{count} {what}" for what, count in sorted(done.items())))
