"""Following: a stream of what is committed to tables, commit by commit, from a timestamp on.

An offset is a timestamp: all at or below it was read. So what lies between two offsets is what has changed between two
snapshots, whoever has committed it, and nothing is ever left out. The records of transactions only say at which
commits to stop on the way; those that are forgotten come together with the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from txnclient.client.client import Client
from txnclient.datasource import parts
from txnclient.datasource.options import LATEST, Options
from txnclient.datasource.parts import COMMIT_TIMESTAMP, TABLE, Part
from txnclient.datasource.shown import Shown
from txnclient.snapshot import Snapshot
from txnstatus.errors import NotFound
from txnstatus.schema import Schema
from txnstatus.types import DECIDED_COMMIT, NO_TIMESTAMP, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from txnstatus.proto import table_pb2 as pb

AT = "timestamp"
"""The one key of an offset."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is kept for the query, at a timestamp."""

    snapshot: Snapshot
    tables: frozenset[str]
    """Tables that there were by then, with leases: a start may be before one was made."""

    def shows(self, table: str) -> pb.ScanResponse | None:
        """What the table had, to be compared; None: it was not there yet."""
        if table not in self.tables:
            return None
        found = self.snapshot.scan(table)
        found.ClearField("lease_millis")
        return found


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives as long as the query does, and keeps what that has not read: by leases at each offset since the last that
    the query has done with.
    """

    def __init__(self, asked: Options, schema: StructType, connect: Callable[[], Client]) -> None:
        self._asked, self._schema, self._connect = asked, schema, connect
        self._held: dict[Timestamp, Held] = {}
        self._end: Timestamp | None = None
        """What there was when a query that is to end was started."""
        client = connect()
        self._shown = {
            table: Shown.of(schema, client.table(table).schema, table, parts.OTHERS) for table in asked.tables
        }
        """The tables' columns, by the names that they had as the query was started."""

    # ---- what Spark asks for

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        start, client = self._asked.start, self._connect()
        if start is None:
            return {AT: NO_TIMESTAMP}
        at = client.snapshot(None if start == LATEST else start).timestamp
        self._hold(at)
        return {AT: at}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The one limit of Spark's that counts neither rows nor bytes stands for commits."""
        most = self._asked.max_commits
        return ReadAllAvailable() if most is None else ReadMaxFiles(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._end = self._connect().last_commit()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        above = Timestamp(start[AT])
        last = self._end if self._end is not None else self._connect().last_commit()
        if above == NO_TIMESTAMP:
            self._hold(last)
            return {AT: last}
        before = self._hold(above)
        if last <= above:
            return start
        after = self._hold(last)
        if all(before.shows(table) == after.shows(table) for table in self._asked.tables):
            self._let_go(last)
            return start
        if isinstance(limit, ReadMaxFiles):
            commits = sorted({at for at, _ in self._commits(above, last)})
            if len(commits) > limit.max_files:
                return {AT: commits[limit.max_files - 1]}
        return {AT: last}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        above, last = Timestamp(start[AT]), Timestamp(end[AT])
        if last <= above:
            return []
        if above == NO_TIMESTAMP:
            snapshot = self._hold(last).snapshot
            return [
                Part(each, self._called(table, each.schema), self._constants(table, last, each.schema))
                for table in self._asked.tables
                for each in parts.split(snapshot.table_files(table))
            ]
        held = self._hold(above)
        commits = sorted(self._commits(above, last))
        found: list[Part] = []
        for table in self._asked.tables:
            ends = [at for at, of in commits if of == table]
            old, was_there = held.snapshot, table in held.tables
            for at in [*ends, *([last] if last not in ends else [])]:
                if not was_there and table not in self._hold(at).tables:
                    continue
                new = held.snapshot.later(at) if was_there else self._hold(at).snapshot
                changes = new.changes_since(old, table)
                only = "" if self._asked.changes else table
                constants = self._constants(table, at, changes.schema)
                found.append(Part(changes, self._called(table, changes.schema), constants, only))
                old = new
        return sorted(found, key=lambda part: int(part.constants[COMMIT_TIMESTAMP]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        return parts.read(partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        for at in [at for at in self._held if at < end[AT]]:
            self._let_go(at)

    def stop(self) -> None:
        for at in list(self._held):
            self._let_go(at)

    # ---- inside

    def _called(self, table: str, schema: Schema) -> dict[str, str]:
        """Raises as `Shown` does."""
        return self._shown[table].called_in(schema)

    def _constants(self, table: str, at: Timestamp, schema: Schema) -> dict[str, Any]:
        return {**self._shown[table].absent_in(schema), COMMIT_TIMESTAMP: at, TABLE: table}

    def _commits(self, above: Timestamp, until: Timestamp) -> list[tuple[Timestamp, str]]:
        """The commits in between that are known to be on the tables."""
        client = self._connect()
        return [
            (txn.commit_timestamp, table)
            for table in self._asked.tables
            for txn in client.transactions(DECIDED_COMMIT, participant=table)
            if above < txn.commit_timestamp <= until
        ]

    def _hold(self, at: Timestamp) -> Held:
        """What there was then, by way of an older one where new readers come too late.

        Raises NotFound where a table that there was before is no more.
        """
        if at not in self._held:
            before = [each for each in self._held if each < at]
            older = self._held[max(before)] if before else None
            if older is not None and older.tables.issuperset(self._asked.tables):
                snapshot = older.snapshot.later(at)
            else:
                snapshot = self._connect().snapshot(at)
            known = older.tables if older is not None else frozenset[str]()
            self._held[at] = Held(snapshot, self._leased(snapshot, known))
        return self._held[at]

    def _leased(self, snapshot: Snapshot, known: frozenset[str]) -> frozenset[str]:
        """The tables on which the snapshot has leases now: all that are there, of which the known have to be."""
        found = set[str]()
        for table in self._asked.tables:
            try:
                snapshot.scan(table)
            except NotFound:
                if table in known:
                    raise
            else:
                found.add(table)
        return frozenset(found)

    def _let_go(self, at: Timestamp) -> None:
        self._held.pop(at).snapshot.close()
