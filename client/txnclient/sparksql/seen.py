"""What the tables of a plan are seen at: a snapshot that is leased as long as Spark needs it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from txnclient.info import TableInfo, table_info
from txnclient.read.table_files import TableFiles
from txnclient.snapshot import Snapshot
from txnclient.sparksql.scopes import Scope
from txnclient.transaction.blocks import Block
from txnstatus.errors import IllegalState
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import Timestamp


class Seen:
    """Tables as a statement sees them, however late it reads."""

    def __init__(self, snapshot: Snapshot, scope: Scope) -> None:
        """`scope`: the transaction of a statement that reads here, and writes."""
        self.scope = scope
        self._snapshot = snapshot
        self._loaded: dict[str, pb.ScanResponse] = {}
        self._tables: dict[str, TableInfo] = {}

    @property
    def timestamp(self) -> Timestamp:
        return self._snapshot.timestamp

    def load(self, table: str) -> TableInfo:
        """The table, which can be read from now on. Raises as `Snapshot.files`."""
        self.require(table)
        found = self._snapshot.scan(table)
        if isinstance(self.scope, Block):
            self._loaded[table] = found  # later writes of the transaction are no part of what was planned before
        self._tables[table] = table_info(found.table)
        return self._tables[table]

    def table(self, name: str) -> TableInfo:
        """The table as it was loaded, or is now. Raises as `load`."""
        return self._tables.get(name) or self.load(name)

    def files(self, table: str) -> TableFiles:
        """Raises as `require`."""
        self.require(table)
        if table not in self._loaded:
            return self._snapshot.table_files(table)
        with self.explained(table):
            return TableFiles.of(self._loaded[table], self.timestamp)

    def require(self, table: str) -> None:
        """Raises IllegalState for what was planned in a block that has ended, or by a client that is closed, and why
        the snapshot is not kept any more.
        """
        if isinstance(self.scope, Block):
            self.scope.require()
        else:
            self._snapshot.require(table)

    def require_last(self, table: str) -> None:
        """Raises IllegalState where the transaction has written to the table since it was loaded, as statements of
        other threads do: what was found in it may have been changed since.
        """
        if not isinstance(self.scope, Block):
            return  # a transaction of its own writes once
        if self._snapshot.scan(table).own_writes != self._loaded[table].own_writes:
            raise IllegalState(
                f"another statement of {self.scope!r} has written to {table} since this one has read it",
                txn_id=self.scope.txn.handle.id,
                hint="run one after the other what writes to the same table, unless all of it adds rows",
            )

    def explained(self, table: str) -> AbstractContextManager[None]:
        return self._snapshot.explained(table)

    def release(self) -> None:
        """The snapshot of a transaction is its own."""
        if not isinstance(self.scope, Block):
            self._snapshot.close()
