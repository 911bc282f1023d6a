"""The tables of a cluster: they are created, found, altered and dropped."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from txnclient.calls.requests import build, checked_seconds
from txnclient.client.defaults import with_default, with_defaults
from txnclient.formats import schemas
from txnclient.formats.schemas import to_columns
from txnclient.info import TableInfo, placed_info, table_info
from txnclient.session import Session
from txnclient.showing import Shown
from txnclient.transaction.beginning import begin
from txnclient.write import drop as dropping
from txnclient.write import renaming
from txnstatus.errors import AlreadyExists, Forgotten, InvalidArgument, NotFound
from txnstatus.lake import locations
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.schema import Schema
from txnstatus.schema_changes import FIRST, ColumnChange
from txnstatus.types import ConflictStrategy

PropertyValue = str | int | None
"""The value of a table's property: text, or the number or truth that it says; None: the table has none of its own."""


class Tables:
    """What a `Client` does with tables as a whole."""

    session: Session

    def create_table(
        self,
        name: str,
        schema: Any,
        *,
        partition_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        location: str | None = None,
        conflicts: ConflictStrategy | str = ConflictStrategy.FIRST_COMMITTER_WINS,
        if_not_exists: bool = False,
        properties: Mapping[str, PropertyValue] | None = None,
        placement: str | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> TableInfo:
        """Creates a table. `schema`: a pyarrow Schema, a PySpark StructType, DDL text, or a name-to-type mapping.

        `location`: a URI that nodes and writers reach, in one of the places that the nodes' configuration allows (its
        `table_roots`); by default under the cluster's warehouse. `conflicts`: how writes to the same part are settled,
        by their commits or by locks that they take: a ConflictStrategy, or the name of one that the cluster's nodes are
        configured with.

        `if_not_exists`: a table of this name that is there already is answered as it is, if all that is asked for here
        is so: its columns, their order, types, defaults, and which may be null, what it is partitioned by, its key, its
        way with conflicts, and the location, where one is given. It may be in another group than `placement`, as
        operators move tables. Of any number of programs that create it at once one does.

        `properties`: NO_AUTO_COMPACTION (true: on request only), compact_delta_num, compact_delta_pct: see alter_table.

        `defaults`: column → its value in rows that are written without it, a Python value or its text: as DEFAULT in
        DDL.

        `placement`: the group that it is to be in, such as "group-1"; by default where `place_database` has
        put its database's new tables, or else where the hash of its name says. A transaction all of whose tables are in
        one group, and which begins with one of them (`tables`), commits in one entry of a log.

        Raises AlreadyExists: with `if_not_exists`, for a table that differs, and it says in what. Raises
        InvalidArgument, naming the column, or the groups that there are; IllegalState where a table of this name was
        placed in another group before, or is still read from there though it is dropped.
        """
        schemas.require_nothing_inside(schema)
        columns = with_defaults(to_columns(schema), defaults or {})
        checked = Schema(columns, schemas.named(partition_by, columns), schemas.named(primary_key, columns))
        checked.check()
        if location:
            locations.parse(location)
        request = build(
            table_pb.CreateTableRequest,
            name=name,
            schema=checked.to_wire(),
            location=location or "",
            conflicts=conflicts,
            request_id=uuid.uuid4().hex,
            properties=[each for each in _to_wire(properties or {}) if each.value],
            placement=placement or "",
        )
        while True:
            try:
                answer = self.session.call("txnstatus.Table/CreateTable", request, table_pb.CreateTableResponse)
                return placed_info(answer)
            except AlreadyExists:
                if not if_not_exists:
                    raise
            with contextlib.suppress(NotFound):  # dropped in between
                found = self.table(name)
                found.require_same(checked, str(conflicts), location)
                return found
            request.request_id = uuid.uuid4().hex

    def alter_table(
        self,
        name: str,
        *,
        properties: Mapping[str, PropertyValue] | None = None,
        add: Any = None,
        comments: Mapping[str, str] | None = None,
        move: Mapping[str, str | None] | None = None,
        drop_not_null: Sequence[str] = (),
        rename: Mapping[str, str] | None = None,
        drop: Sequence[str] = (),
        widen: Mapping[str, str] | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> TableInfo:
        """Changes a table's columns, and what it has for itself, all of it or nothing; returns the table as it is then.

        `add`: columns, as a schema of `create_table`, that come last. They take nulls, and are null in the rows that
        there are, or have the default that they are added with; data that does not have them goes on to be written,
        with that there. `comments`: column → comment.
        `move`: column → the column that it comes after, or None for the first one. `drop_not_null`: columns that take
        nulls from now on. `rename`: column → what it is called from now on. `drop`: columns that are there no more; a
        later one of the same name is another one. `widen`: column → its type from now on, which has room for all values
        of the one that it has: a wider whole number, double for float, a decimal with more digits before the point.
        `defaults`: column → its value in rows that are written without it from now on, a Python value or its text, or
        None for null; rows that there are stay as they are, but for the columns of `add`.
        Columns are dropped, renamed and widened first, then changed in this order, at one timestamp, in no transaction:
        readers below it, as transactions and snapshots that are open, see the columns of before. Nothing is rewritten,
        and nobody waits. A write that was begun before, and has columns that were dropped, is refused as it is added.

        `properties`: NO_AUTO_COMPACTION, true or false: whether it is compacted on request only. compact_delta_num and
        compact_delta_pct, whole numbers: as the cluster's options of these names. None: the table goes by the cluster's
        options again. What is not named stays. It holds from now on; a compaction that is under way goes on.

        Raises NotFound; InvalidArgument, naming the property, its value and what is possible, or the column.
        """
        changes = [
            *(ColumnChange(column, drop=True) for column in schemas.listed(drop)),
            *(ColumnChange(column, rename=new) for column, new in (rename or {}).items()),
            *(ColumnChange(column, widen=kind) for column, kind in (widen or {}).items()),
            *(added := _added({} if add is None else add, defaults or {})),
            *(ColumnChange(column, comment=text) for column, text in (comments or {}).items()),
            *(ColumnChange(column, after=before or FIRST) for column, before in (move or {}).items()),
            *(ColumnChange(column, takes_nulls=True) for column in schemas.listed(drop_not_null)),
            *(with_default(*each) for each in (defaults or {}).items() if each[0] not in {one.name for one in added}),
        ]
        return self.change_columns(name, changes, properties or {})

    def change_columns(
        self, name: str, changes: Sequence[ColumnChange], properties: Mapping[str, PropertyValue]
    ) -> TableInfo:
        """As `alter_table`, in the words of the service, in whatever order."""
        request = build(
            table_pb.AlterTableRequest,
            table=name,
            properties=_to_wire(properties),
            columns=[each.to_wire() for each in changes],
            request_id=uuid.uuid4().hex if changes else "",
        )
        answer = self.session.call("txnstatus.Table/AlterTable", request, table_pb.AlterTableResponse)
        return placed_info(answer)

    def rename_table(self, name: str, new_name: str, *, timeout: float | None = None) -> TableInfo:
        """Gives a table another name in its database, at one timestamp, in no transaction; returns it as it is then.

        All that the table has stays, and so does its directory. Snapshots of before go on to read it by the name that
        it had, and by the new one as well, unless another table had that then. The old name is free at once. What was
        granted on the table holds under the new name.

        It waits for those that are at work on the table, or hold locks there, for `timeout` seconds (by default as for
        calls). A transaction that began before the rename and comes to the table after it is refused, by either name.

        Raises NotFound; AlreadyExists; InvalidArgument for a name of another database; Locked, naming who is at work on
        the table, which is called as it was; IllegalState where the new name was another table's, and stays elsewhere.
        """
        timeout = self.session.timeout if timeout is None else checked_seconds(timeout)
        return renaming.rename(self.session, name, new_name, timeout)

    def drop_table(self, name: str, *, ignore_missing: bool = False, timeout: float | None = None) -> None:
        """Drops a table, in a transaction of its own: readers at a timestamp below its commit still see the table, as
        long as what was overwritten is kept. Its files are removed then, and the name is free at once.

        It waits its turn for the table's lock, and for those that are prepared on the table, for `timeout` seconds (by
        default as for calls). Who has written to the table and not committed by then is told Conflict at its commit.

        Raises NotFound, unless `ignore_missing`; Locked, naming who is in the way: the table is as it was. Raises
        CommitUnknown when the outcome did not arrive: drop it again.
        """
        timeout = self.session.timeout if timeout is None else checked_seconds(timeout)
        try:
            self.table(name)
            (txn,), _ = begin(self.session, 1, f"drop table {name}"[:100], 0, uuid.uuid4().hex, near=name)
            with txn:
                dropping.drop(txn.handle, name, timeout)
        except Forgotten:
            raise
        except NotFound:
            if not ignore_missing:
                raise

    def table(self, name: str) -> TableInfo:
        """Raises NotFound."""
        return self.session.table(name)

    def tables(self) -> list[TableInfo]:
        found: list[TableInfo] = Shown("Tables", "name conflicts location", ())
        more = True
        while more:
            request = table_pb.ListTablesRequest(after=found[-1].name if found else "")
            answer = self.session.call("txnstatus.Table/ListTables", request, table_pb.ListTablesResponse)
            found += map(table_info, answer.tables)
            more = answer.more
        return found


def _added(schema: Any, defaults: Mapping[str, object]) -> list[ColumnChange]:
    """Raises InvalidArgument, naming the column."""
    schemas.require_nothing_inside(schema)
    columns = to_columns(schema)
    names = {column.name for column in columns}
    for column in columns:
        if not column.nullable:
            raise InvalidArgument(
                f"column {column.name!r} cannot be added with NOT NULL: the rows that there are have nulls in it",
                hint="add it without NOT NULL",
            )
    columns = with_defaults(columns, {name: value for name, value in defaults.items() if name in names})
    return [ColumnChange(column.name, column.type, column.comment, default=column.default) for column in columns]


def _to_wire(properties: Mapping[str, PropertyValue]) -> list[common.TableProperty]:
    """Raises InvalidArgument for what no text says."""
    if not isinstance(properties, Mapping):
        raise InvalidArgument(f"properties {properties!r:.100}: a mapping from names to values is possible")
    found = []
    for name, value in properties.items():
        if not isinstance(name, str) or (value is not None and not isinstance(value, str | int)) or value == "":
            raise InvalidArgument(
                f"table property {name!r:.100} = {value!r:.100}: text, whole numbers, bools are possible"
            )
        text = str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
        found.append(common.TableProperty(name=name, value=text))
    return found
