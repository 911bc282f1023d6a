"""Two sessions of Spark with transactions of their own, statement by statement at random, against a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.sessions_model import Played, play, steps
from txnclient import Client
from txnclient.sparksql import attach, detach
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]
KINDS = pytest.mark.parametrize("key", [(), ("k",)], ids=["by place", "by key"])


@pytest.fixture
def sessions(spark: SparkSession, client: Client) -> Iterator[list[SparkSession]]:
    both = [spark.newSession(), spark.newSession()]
    for each in both:
        attach(each, client, name="mine")
    yield both
    if client.transactions([TxnState.OPEN]):  # the test has failed
        for each in both:
            each.sql("ROLLBACK")
    for each in both:
        detach(each, name="mine")


@KINDS
def test_a_few_statements(
    sessions: list[SparkSession], client: Client, new_table: NewTable, key: tuple[str, ...]
) -> None:
    played = run(sessions, client, new_table("k bigint, v bigint", primary_key=list(key)), seed=267, count=18)
    assert min(played.conflicts, played.went_back, played.failed) > 0


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10, 18))
@KINDS
def test_many_statements(
    sessions: list[SparkSession], client: Client, new_table: NewTable, key: tuple[str, ...], seed: int
) -> None:
    run(sessions, client, new_table("k bigint, v bigint", primary_key=list(key)), seed, count=80)


def run(sessions: list[SparkSession], client: Client, table: str, seed: int, count: int) -> Played:
    def speaker(spark: SparkSession) -> Callable[[str], list[tuple[object, ...]]]:
        return lambda said: [tuple(row) for row in spark.sql(said).collect()]

    named = f"mine.{table}"
    fails = f"INSERT INTO {named} SELECT 1 DIV (id - id), 0 FROM range(2)"
    return play([speaker(each) for each in sessions], client, table, named, fails, steps(seed, count))
