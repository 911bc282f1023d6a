"""Transactions over a table and PostgreSQL while everything is killed in turn: both end up with the same rows."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from tests.postgres.rig import NAME, Host
from tests.postgres.server import PostgresServer
from tests.support import commit_until_known, connect, rows, visible, wait_until
from txnclient import Client, Transaction, TxnAborted, TxnError, Unavailable
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.programs import Programs

ROUNDS = int(os.environ.get("TXN_POSTGRES_KILLS", "10"))
"""Rounds of one kill of each kind."""
SEED = int(os.environ.get("TXN_SEED", "1"))
WORKERS = 3
COMMITS_BETWEEN = 5
PATIENCE_SECONDS = 60.0


class Work(Programs):
    """Writers that put each row into both, and remember what they were told."""

    def __init__(self, cluster: LocalCluster, server: PostgresServer, table: str) -> None:
        super().__init__(WORKERS)
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.problems: list[str] = []
        self._cluster = cluster
        self._server = server
        self._table = table

    def await_commits(self, count: int) -> None:
        goal = len(self.committed) + count
        wait_until(lambda: len(self.committed) >= goal, f"{count} more commits", PATIENCE_SECONDS)

    def run(self, number: int) -> None:
        dice = random.Random(f"{SEED}/{number}")
        with connect(self._cluster) as client:
            for row in range(number, 10**9, WORKERS):
                if self.ended.is_set():
                    return
                try:
                    committed = self._one(client, dice, row)
                except Exception as error:  # noqa: BLE001
                    self.problems.append(f"row {row}: {error!r}")
                else:
                    (self.committed if committed else self.aborted).add(row)

    def _one(self, client: Client, dice: random.Random, row: int) -> bool:
        """Whether it is committed; that is asked until it is known. Whatever fails before is aborted."""
        try:
            txn = client.begin()
        except Unavailable:
            return False
        try:
            txn.write(rows(row), self._table)
            with txn.postgres(NAME, self._server.conninfo) as connection:
                connection.execute("INSERT INTO killed VALUES (%s)", (row,))
        except (TxnError, psycopg.Error):
            self._abort(txn)
            return False
        if dice.random() < 0.2:
            self._abort(txn)
            return False
        try:
            commit_until_known(txn, PATIENCE_SECONDS)
        except TxnAborted:
            return False
        return True

    def _abort(self, txn: Transaction) -> None:
        with suppress(Unavailable, TxnAborted):  # if it does not arrive, the transaction expires
            txn.abort()


@pytest.mark.timeout(300 + 60 * ROUNDS)
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.campaign)])
def test_both_have_the_same_rows_whatever_is_killed(
    rounds: int, cluster: LocalCluster, client: Client, server: PostgresServer, host: Host, new_table: Callable[[], str]
) -> None:
    server.query("DROP TABLE IF EXISTS killed")
    server.query("CREATE TABLE killed (id bigint PRIMARY KEY)")
    table = new_table()

    def kill_a_leader() -> None:
        cluster.kill(cluster.leader())
        cluster.start()

    with Work(cluster, server, table) as work:
        for _ in range(rounds):
            for kill in (host.restart, server.restart, kill_a_leader):
                work.await_commits(COMMITS_BETWEEN)
                kill()
        work.await_commits(COMMITS_BETWEEN)
    assert not work.problems
    wait_until(lambda: server.prepared() == [], "nothing is left prepared", PATIENCE_SECONDS)
    stored = {row for (row,) in server.query("SELECT id FROM killed")}
    assert stored == set(visible(client, table)[0])
    assert work.committed <= stored
    assert not work.aborted & stored
