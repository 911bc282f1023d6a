"""PostgreSQL as the store of transactions' states, the way the Hive metastore keeps them: a row each, by state."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.suite.drive import Operation, drive
from benchmarks.suite.model import Contender, Settings, Tally
from benchmarks.suite.peers.batching import Batcher
from benchmarks.suite.peers.pool import Pool
from benchmarks.suite.peers.postgres_servers import PostgresServers

Connection = Any
"""A connection of asyncpg, which is loaded when it is used."""
SCHEMA = """
CREATE TABLE txns (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state text NOT NULL, owner text NOT NULL, started bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE txn_components (txn_id bigint NOT NULL, component text NOT NULL);
"""
"""The free space lets updates stay in their page."""
OWNER = "benchmark"
TABLES = ["bench.first", "bench.second"]
STATES = {
    4: ("open", "registered", "commit in progress", "committed"),
    2: ("registered", "committed"),
    1: ("open",),
}
"""States of a transaction, by its number of durable rounds. Each but the first is a compare-and-set on the last."""
POOLS = (16, 64)
"""Connections: in each round the warm-up finds out which is faster."""
MOST_ROWS = 1_000
"""Most rows in one statement."""
BATCHES = 1
"""Statements of one kind of step that are under way at once."""

BEGIN = "INSERT INTO txns (state, owner, started) VALUES ('open', $1, $2) RETURNING id"
BEGIN_REGISTERED = """
WITH t AS (INSERT INTO txns (state, owner, started) VALUES ('registered', $1, $2) RETURNING id),
     c AS (INSERT INTO txn_components SELECT id, name FROM t, unnest($3::text[]) name)
SELECT id FROM t"""
REGISTER = """
WITH t AS (UPDATE txns SET state = 'registered' WHERE id = $1 AND state = 'open' RETURNING id),
     c AS (INSERT INTO txn_components SELECT id, name FROM t, unnest($2::text[]) name)
SELECT id FROM t"""
CHANGE = "UPDATE txns SET state = $1 WHERE id = $2 AND state = $3 RETURNING id"

BEGIN_MANY = "INSERT INTO txns (state, owner, started) SELECT 'open', $1, t FROM unnest($2::bigint[]) t RETURNING id"
BEGIN_REGISTERED_MANY = """
WITH t AS (
       INSERT INTO txns (state, owner, started) SELECT 'registered', $1, t FROM unnest($2::bigint[]) t RETURNING id),
     c AS (INSERT INTO txn_components SELECT id, name FROM t, unnest($3::text[]) name)
SELECT id FROM t"""
REGISTER_MANY = """
WITH t AS (UPDATE txns SET state = 'registered' WHERE id = ANY($1::bigint[]) AND state = 'open' RETURNING id),
     c AS (INSERT INTO txn_components SELECT id, name FROM t, unnest($2::text[]) name)
SELECT id FROM t"""
CHANGE_MANY = "UPDATE txns SET state = $1 WHERE id = ANY($2::bigint[]) AND state = $3 RETURNING id"


class Statements:
    """Over connections that commit each statement by itself."""

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._pool = Pool(connections)

    @staticmethod
    async def connect(url: str, connections: int) -> Statements:
        import asyncpg

        return Statements([await asyncpg.connect(url) for _ in range(connections)])

    async def close(self) -> None:
        for connection in self._pool.things:
            await connection.close()

    async def ids(self, statement: str, *arguments: object) -> list[int]:
        """What the statement returns; it is prepared at its first use on each connection."""
        async with self._pool.one() as connection:
            return [row[0] for row in await connection.fetch(statement, *arguments)]


class Steps:
    """One transaction after the other, each step a statement of its own."""

    def __init__(self, statements: Statements, states: Sequence[str]) -> None:
        self._statements = statements
        self._states = states

    async def transact(self, _: int = 0) -> None:
        began = time.time_ns()
        if self._states[0] == "open":
            (txn,) = await self._statements.ids(BEGIN, OWNER, began)
        else:
            (txn,) = await self._statements.ids(BEGIN_REGISTERED, OWNER, began, TABLES)
        for before, state in itertools.pairwise(self._states):
            if state == "registered":
                changed = await self._statements.ids(REGISTER, txn, TABLES)
            else:
                changed = await self._statements.ids(CHANGE, state, txn, before)
            if changed != [txn]:
                raise RuntimeError(f"transaction {txn} was not {before}")


class BatchedSteps:
    """The same; steps of one kind that wait leave as one statement over many rows."""

    def __init__(self, statements: Statements, states: Sequence[str]) -> None:
        self._statements = statements
        self._begins: Batcher[int, int] = Batcher(self._begin, most=MOST_ROWS, parallel=BATCHES)
        self._first = states[0]
        self._changes: list[Batcher[int, bool]] = [
            Batcher(self._changer(before, state), most=MOST_ROWS, parallel=BATCHES)
            for before, state in itertools.pairwise(states)
        ]

    async def transact(self, _: int = 0) -> None:
        txn = await self._begins.step(time.time_ns())
        for change in self._changes:
            if not await change.step(txn):
                raise RuntimeError(f"transaction {txn} was in another state")

    async def _begin(self, started: Sequence[int]) -> Sequence[int]:
        if self._first == "open":
            return await self._statements.ids(BEGIN_MANY, OWNER, list(started))
        return await self._statements.ids(BEGIN_REGISTERED_MANY, OWNER, list(started), TABLES)

    def _changer(self, before: str, state: str) -> Any:
        async def change(txns: Sequence[int]) -> Sequence[bool]:
            if state == "registered":
                changed = set(await self._statements.ids(REGISTER_MANY, list(txns), TABLES))
            else:
                changed = set(await self._statements.ids(CHANGE_MANY, state, list(txns), before))
            return [txn in changed for txn in txns]

        return change


@dataclass(frozen=True)
class Client:
    """An independent one, with a connection of its own."""

    url: str
    rounds: int

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Operation]:
        statements = await Statements.connect(self.url, 1)
        try:
            yield Steps(statements, STATES[self.rounds]).transact
        finally:
            await statements.close()


class Postgres(Contender):
    """Over a pool of connections; with `replicated`, acknowledged by one of two standbys as well."""

    def __init__(
        self, settings: Settings, rounds: int, *, name: str, replicated: bool = False, batch: bool = False
    ) -> None:
        self.name = name
        one = "compare-and-set UPDATEs, a pool of 16 or 64 connections, whichever is faster"
        many = "multi-row compare-and-set statements, into which the client merges waiting steps"
        servers = "two standbys, ANY 1" if replicated else "one server, unreplicated"
        self.about = self.about or f"steps: {rounds}; {many if batch else one}; {servers}"
        self._states = STATES[rounds]
        self._batch = batch
        self._servers = PostgresServers(settings.fsync_ms, replicated=replicated)
        self._pool_size = len(self._states) * BATCHES if batch else max(POOLS)

    def missing(self) -> str | None:
        return self._servers.missing()

    def version(self) -> str:
        return self._servers.version()

    def start(self, directory: Path) -> None:
        self._servers.start(directory)
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(SCHEMA)

    def stop(self) -> None:
        self._servers.stop()

    @property
    def url(self) -> str:
        return self._servers.url()

    def pids(self) -> Mapping[str, Sequence[int]]:
        return self._servers.pids()

    async def warm_up(self, point: int, seconds: float) -> None:
        if self._batch:
            await self.run(point, seconds)
            return
        rates = {}
        for self._pool_size in POOLS:
            tally = await self.run(point, seconds / len(POOLS))
            rates[self._pool_size] = tally.count / tally.seconds
        self._pool_size = max(rates, key=lambda size: rates[size])

    async def run(self, point: int, seconds: float) -> Tally:
        size = self._pool_size if self._batch else min(point, self._pool_size)
        statements = await Statements.connect(self.url, size)
        try:
            return await self.measure(statements, point, seconds)
        finally:
            await statements.close()

    async def measure(self, statements: Statements, point: int, seconds: float) -> Tally:
        flow = (BatchedSteps if self._batch else Steps)(statements, self._states)
        return await drive(flow.transact, point, seconds)
