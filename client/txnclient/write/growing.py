"""Columns that data has and its table has not: they are added to the table before the data is written."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from txnclient.calls.requests import build
from txnclient.formats import schemas
from txnclient.session import Session
from txnstatus.ddl import VOID
from txnstatus.errors import InvalidArgument
from txnstatus.names import fold
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema
from txnstatus.schema_changes import ColumnChange


def columns_of(data: Any) -> Sequence[Column]:
    """The columns of a Spark DataFrame, or of data as `Transaction.write` takes it. Raises InvalidArgument."""
    schema = getattr(data, "schema", None)
    if type(data).__module__.partition(".")[0] not in ("pyarrow", "pyspark"):
        from txnclient.formats import arrow

        schema = arrow.as_table(data).schema
    schemas.require_nothing_inside(schema)
    return schemas.to_columns(schema)


def grow(session: Session, table: str, columns: Sequence[Column]) -> None:
    """Adds to the table those of the columns that it has not, as the last ones: at once, whatever becomes of who asks.

    Of several programs that add the same ones at a time each goes on. Raises InvalidArgument, naming the column, for
    one that no table can have, and where the table's columns cannot be changed; NotFound.
    """
    missing = _missing(columns, session.table(table).schema)
    for column in missing:
        if column.type == VOID:
            raise InvalidArgument(
                f"column {column.name!r} of the data is new to table {table}, and has no type: there are only nulls",
                hint="cast it: CAST(NULL AS int)",
            )
    while missing:
        changes = [ColumnChange(column.name, column.type, column.comment).to_wire() for column in missing]
        request = build(pb.AlterTableRequest, table=table, columns=changes, request_id=uuid.uuid4().hex)
        try:
            session.call("txnstatus.Table/AlterTable", request, pb.AlterTableResponse)
        except InvalidArgument:
            left = _missing(columns, session.table(table).schema)
            if len(left) == len(missing):
                raise  # nobody else has added them
            missing = left
        else:
            return


def _missing(columns: Sequence[Column], schema: Schema) -> list[Column]:
    known = {fold(column.name) for column in schema.columns}
    return [column for column in columns if fold(column.name) not in known]
