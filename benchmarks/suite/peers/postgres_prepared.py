"""Two-phase commit over two PostgreSQL databases, with PREPARE TRANSACTION and a decision in a row."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg import AsyncConnection

from benchmarks.suite.drive import drive
from benchmarks.suite.model import Contender, Settings, Tally
from benchmarks.suite.peers.pool import Pool
from benchmarks.suite.peers.postgres_servers import PostgresServers

DATABASES = ("first", "second")
"""The first also has the transactions and their decisions."""
MOST_CONNECTIONS = 16
"""To each database; with 64 the server is slower."""
SCHEMA = """
CREATE TABLE txns (id bigint PRIMARY KEY, state text NOT NULL) WITH (fillfactor = 50);
CREATE TABLE rows (txn_id bigint NOT NULL, note text NOT NULL);
"""
BEGIN = b"INSERT INTO txns VALUES (%s, 'open') RETURNING id"
DECIDE = b"UPDATE txns SET state = 'committed' WHERE id = %s AND state = 'open' RETURNING id"


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
        with psycopg.connect(self._servers.conninfo(), autocommit=True) as connection:
            for database in DATABASES:
                connection.execute(f"CREATE DATABASE {database}".encode())
        for database in DATABASES:
            with psycopg.connect(self._servers.conninfo(database), autocommit=True) as connection:
                connection.execute(SCHEMA)

    def stop(self) -> None:
        self._servers.stop()

    def pids(self) -> Mapping[str, Sequence[int]]:
        return self._servers.pids()

    async def run(self, point: int, seconds: float) -> Tally:
        """Every transaction keeps its two connections: the phases of another one cannot use them meanwhile."""
        pairs = [
            [await AsyncConnection.connect(self._servers.conninfo(name), autocommit=True) for name in DATABASES]
            for _ in range(min(point, MOST_CONNECTIONS))
        ]
        pool = Pool(pairs)

        async def transact(_: int) -> None:
            async with pool.one() as pair:
                await self._transact(pair)

        try:
            return await drive(transact, point, seconds)
        finally:
            for connection in itertools.chain(*pairs):
                await connection.close()

    async def _transact(self, pair: Sequence[AsyncConnection]) -> None:
        txn = next(self._ids)
        coordinator = pair[0].cursor()
        await coordinator.execute(BEGIN, (txn,), prepare=True)
        await asyncio.gather(*(connection.execute(_prepare(connection, txn)) for connection in pair))
        await coordinator.execute(DECIDE, (txn,), prepare=True)
        if await coordinator.fetchall() != [(txn,)]:
            raise RuntimeError(f"transaction {txn} was not open")
        commits = {connection: f"COMMIT PREPARED '{_name(connection, txn)}'".encode() for connection in pair}
        await asyncio.gather(*(connection.execute(commit) for connection, commit in commits.items()))


def _prepare(connection: AsyncConnection, txn: int) -> bytes:
    """One round trip."""
    insert = f"INSERT INTO rows VALUES ({txn}, 'benchmark')"
    return f"BEGIN; {insert}; PREPARE TRANSACTION '{_name(connection, txn)}'".encode()


def _name(connection: AsyncConnection, txn: int) -> str:
    """Of a prepared transaction; no two in the whole server have the same."""
    return f"{connection.info.dbname}-{txn}"
