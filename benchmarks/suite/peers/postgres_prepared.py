"""Two-phase commit over two PostgreSQL databases, with PREPARE TRANSACTION and a decision in a row."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Settings, Tally
from benchmarks.suite.peers.pool import Pool
from benchmarks.suite.peers.postgres import Connection
from benchmarks.suite.peers.postgres_servers import PostgresServers

DATABASES = ("first", "second")
"""The first also has the transactions and their decisions."""
MOST_CONNECTIONS = 16
"""Connections to each database; with 64 the server is slower."""
SCHEMA = """
CREATE TABLE txns (id bigint PRIMARY KEY, state text NOT NULL) WITH (fillfactor = 50);
CREATE TABLE rows (txn_id bigint NOT NULL, note text NOT NULL);
"""
BEGIN = "INSERT INTO txns VALUES ($1, 'open') RETURNING id"
DECIDE = "UPDATE txns SET state = 'committed' WHERE id = $1 AND state = 'open' RETURNING id"


class PreparedTransactions(Contender):
    """Begin; a row in each database, prepared; the decision; both committed."""

    name = "pg-2pc"
    about = "a row in two databases, PREPARE TRANSACTION in both, decision row, COMMIT PREPARED in both; unreplicated"

    def __init__(self, settings: Settings) -> None:
        self._servers = PostgresServers(settings.fsync_ms, replicated=False)
        self._ids = itertools.count(1)

    def missing(self) -> str | None:
        return self._servers.missing()

    def version(self) -> str:
        return self._servers.version()

    def start(self, directory: Path) -> None:
        self._servers.start(directory)
        with psycopg.connect(self._servers.url(), autocommit=True) as connection:
            for database in DATABASES:
                connection.execute(f"CREATE DATABASE {database}".encode())
        for database in DATABASES:
            with psycopg.connect(self._servers.url(database), autocommit=True) as connection:
                connection.execute(SCHEMA)

    def stop(self) -> None:
        self._servers.stop()

    def pids(self) -> Mapping[str, Sequence[int]]:
        return self._servers.pids()

    async def run(self, point: int, seconds: float) -> Tally:
        """Every transaction keeps its two connections: the phases of another one cannot use them meanwhile."""
        import asyncpg

        urls = {name: self._servers.url(name) for name in DATABASES}
        pairs = [
            {name: await asyncpg.connect(url) for name, url in urls.items()}
            for _ in range(min(point, MOST_CONNECTIONS))
        ]
        pool = Pool(pairs)

        async def transact(_: int) -> None:
            async with pool.one() as pair:
                await self._transact(pair)

        try:
            return await drive(transact, point, seconds)
        finally:
            for pair in pairs:
                for connection in pair.values():
                    await connection.close()

    async def _transact(self, pair: Mapping[str, Connection]) -> None:
        txn = next(self._ids)
        coordinator = pair[DATABASES[0]]
        await coordinator.fetch(BEGIN, txn)
        await asyncio.gather(*(connection.execute(_prepare(name, txn)) for name, connection in pair.items()))
        if not await coordinator.fetch(DECIDE, txn):
            raise RuntimeError(f"transaction {txn} was not open")
        await asyncio.gather(
            *(connection.execute(f"COMMIT PREPARED '{name}-{txn}'") for name, connection in pair.items())
        )


def _prepare(database: str, txn: int) -> str:
    """One round trip. No two prepared transactions in the whole server have the same name."""
    return f"BEGIN; INSERT INTO rows VALUES ({txn}, 'benchmark'); PREPARE TRANSACTION '{database}-{txn}'"
