"""What the tables of a plan are seen at: a snapshot that is leased as long as Spark needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

from txnclient.info import TableInfo, table_info
from txnclient.read.table_files import TableFiles
from txnclient.snapshot import Snapshot
from txnclient.sparksql.scopes import Scope
from txnclient.transaction.blocks import Block
from txnstatus.errors import IllegalState
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp


class Seen:
    """Tables as a statement sees them, however late it reads."""

    def __init__(self, snapshot: Snapshot, scope: Scope) -> None:
        """`scope`: the transaction of a statement that reads here, and writes."""
        self.scope = scope
        self._snapshot = snapshot
        self._loaded: dict[str, pb.ScanResponse] = {}
        self._tables: dict[str, TableInfo] = {}
        self._grown: dict[str, Schema] = {}
        """Columns of tables that the statement has added some to."""

    @property
    def timestamp(self) -> Timestamp:
        return self._snapshot.timestamp

    def load(self, table: str) -> TableInfo:
        """The table, which can be read from now on. Raises as `Snapshot.files`."""
        self.require(table)
        found = self._snapshot.scan(table)
        if isinstance(self.scope, Block):
            self._loaded[table] = found  # later writes of the transaction are no part of what was planned before
        info = table_info(found.table)
        self._tables[table] = replace(info, schema=self._grown.get(table, info.schema))
        return self._tables[table]

    def grow(self, table: str, schema: Schema) -> None:
        """From now on the table is read in these columns, to which the statement has added some: they are null.

        Raises IllegalState where somebody else has changed columns, too, since the statement sees the table.
        """
        now = {(column.name, column.in_files, column.type) for column in schema.columns}
        for column in self.load(table).schema.columns:
            if (column.name, column.in_files, column.type) not in now:
                raise IllegalState(
                    f"column {column.name!r} of table {table} was changed while a statement added columns to it",
                    hint="run the statement again",
                )
        self._grown[table] = schema

    def table(self, name: str) -> TableInfo:
        """The table as it was loaded, or is now. Raises as `load`."""
        return self._tables.get(name) or self.load(name)

    def files(self, table: str) -> TableFiles:
        """Raises as `require`."""
        self.require(table)
        if table not in self._loaded:
            found = self._snapshot.table_files(table)
            return replace(found, schema=self._grown[table]) if table in self._grown else found
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

    @contextmanager
    def reading(self, table: str) -> Iterator[None]:
        """What a plan reads is looked at. Where that fails, Spark asks for no write that was to come of it: so the
        statement fails here, if it is one of a block.
        """
        with ExitStack() as stack:
            if isinstance(self.scope, Block):
                txn = stack.enter_context(self.scope.using())
                stack.enter_context(txn.working(f"a read of {table}"))
            stack.enter_context(self.explained(table))
            yield

    def release(self) -> None:
        """The snapshot of a transaction is its own."""
        if not isinstance(self.scope, Block):
            self._snapshot.close()
