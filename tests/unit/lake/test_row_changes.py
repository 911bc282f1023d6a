"""Row changes as one table: each in its place, whatever its kind."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from txnstatus.lake.rows import COMMIT_TS, DELETED, Change, changes_schema, changes_table, rows_schema, to_ipc
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp

SCHEMA = Schema((Column("id", "bigint", nullable=False), Column("v", "string")), primary_key=("id",))


def upsert(at: int, *ids: int) -> Change:
    rows = pa.table({"id": ids, "v": [f"v{id_}" for id_ in ids]}, schema=rows_schema(SCHEMA, deletes=False))
    return Change(Timestamp(at), False, to_ipc(rows))


def delete(at: int, *ids: int) -> Change:
    return Change(Timestamp(at), True, to_ipc(pa.table({"id": ids}, schema=rows_schema(SCHEMA, deletes=True))))


def told(*changes: Change) -> list[tuple[int, int, bool, str | None]]:
    found = changes_table(changes, SCHEMA)
    assert found.schema.equals(changes_schema(SCHEMA))
    return [(row[COMMIT_TS], row["id"], row[DELETED], row["v"]) for row in found.to_pylist()]


def test_all_kinds_are_in_their_order() -> None:
    """A row that is deleted and comes again in one commit is there: what is later counts."""
    nothing = Change(Timestamp(3), True, b"")
    assert told(upsert(1, 1, 2), delete(2, 2, 1), upsert(2, 1), nothing, delete(3, 1), delete(4), upsert(4, 9, 8)) == [
        (1, 1, False, "v1"),
        (1, 2, False, "v2"),
        (2, 2, True, None),
        (2, 1, True, None),
        (2, 1, False, "v1"),
        (3, 1, True, None),
        (4, 9, False, "v9"),
        (4, 8, False, "v8"),
    ]


def test_one_kind_and_none() -> None:
    assert told(delete(1, 3), delete(2, 1)) == [(1, 3, True, None), (2, 1, True, None)]
    assert told() == []


def test_rows_from_before_a_column_have_what_it_came_with() -> None:
    """As a flush writes them: those of before, a null that was written since, and a row that is deleted."""
    columns = (
        *SCHEMA.columns,
        Column("n", "int", added=True, default="6", initial="5"),
        Column("m", "int", added=True),
    )
    later = replace(SCHEMA, columns=columns)
    row = {"id": [2], "v": ["w"], "n": [None], "m": [7]}
    changes = [
        upsert(1, 1),
        Change(Timestamp(2), False, to_ipc(pa.table(row, rows_schema(later, deletes=False)))),
        delete(3, 1),
    ]
    found = changes_table(changes, later)
    assert found.select(["id", "n", "m"]).to_pylist()[:2] == [
        {"id": 1, "n": 5, "m": None},
        {"id": 2, "n": None, "m": 7},
    ]
    assert found["id"].to_pylist() == [1, 2, 1]
