"""Rows of files that were changed later, beside a dictionary of rows by key."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txnclient.formats import arrow, schemas
from txnclient.read import row_reads, superseded
from txnclient.read.row_reads import RowChanges
from txnstatus.errors import DataDamaged
from txnstatus.lake import data_files, dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import Change, rows_schema, to_ipc
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

VALUES: dict[str, Any] = {
    "bigint": st.integers(-9, 9),
    "string": st.sampled_from(["", "a", "a,b", "b", "é", "x" * 70]),
    "date": st.integers(-3, 6).map(lambda day: date.fromordinal(719_163 + day)),
    "timestamp": st.integers(-3, 6).map(lambda second: datetime.fromtimestamp(second, UTC)),
    "decimal(9,2)": st.integers(-5, 5).map(lambda cents: Decimal(cents) / 100),
    "boolean": st.booleans(),
    "binary": st.sampled_from([b"", b"a", b"\xff"]),
}
Keys = Sequence[tuple[Any, ...]]


def a_schema(kinds: Sequence[str]) -> Schema:
    names = [f"k{number}" for number in range(len(kinds))]
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, kind in zip(names, kinds, strict=True))
    return Schema(schemas.to_columns(f"v bigint, {columns}"), primary_key=tuple(names))


def table(keys: Keys, schema: Schema, value: int | None) -> pa.Table:
    """Rows with these keys, and one value; or the keys alone."""
    target = rows_schema(schema, deletes=value is None)
    columns = {name: [key[number] for key in keys] for number, name in enumerate(schema.primary_key)}
    return pa.Table.from_pydict({**columns, "v": [value] * len(keys)} if value is not None else columns, target)


@settings(deadline=None, max_examples=40)
@given(
    data=st.data(),
    kinds=st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=2),
    per_group=st.sampled_from([2, 99]),
)
def test_a_row_counts_until_its_key_is_changed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kinds: list[str], per_group: int
) -> None:
    schema, directory = a_schema(kinds), tmp_path_factory.mktemp("table")
    key = st.tuples(*(VALUES[kind] for kind in kinds))
    expected: dict[tuple[Any, ...], int] = {}
    files: list[DataFile] = []
    times: list[Timestamp] = []
    changes: list[Change] = []
    for ts in range(1, 1 + data.draw(st.integers(0, 6))):
        match data.draw(st.sampled_from(["file", "upsert", "delete"])):
            case "file":
                new = sorted(data.draw(st.sets(key, max_size=8)) - expected.keys())
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(arrow, "ROWS_PER_GROUP", per_group)
                    files += arrow.write_files(
                        table(new, schema, ts), (directory / f"delta_{ts}_w").as_uri(), schema, "t"
                    )
                times += [Timestamp(ts)] * (len(files) - len(times))
                expected.update(dict.fromkeys(new, ts))
            case "upsert":
                new = sorted(data.draw(st.sets(key, min_size=1, max_size=4)))
                changes.append(Change(Timestamp(ts), False, to_ipc(table(new, schema, ts))))
                expected.update(dict.fromkeys(new, ts))
            case _:
                new = sorted(data.draw(st.sets(key, min_size=1, max_size=4)))
                changes.append(Change(Timestamp(ts), True, to_ipc(table(new, schema, None))))
                expected = {each: value for each, value in expected.items() if each not in new}
    seen = RowChanges(tuple(changes), (), Timestamp(0), Timestamp(9), tuple(times))

    def by_key(rows: pa.Table) -> list[tuple[Any, ...]]:
        return sorted(zip(*(rows[name].to_pylist() for name in (*schema.primary_key, "v")), strict=True))

    wanted = sorted((*each, value) for each, value in expected.items())
    assert by_key(row_reads.read(files, seen, schema, None)) == wanted
    where = pc.field("v") > 2
    assert by_key(row_reads.read(files, seen, schema, None, where)) == [row for row in wanted if row[-1] > 2]
    found = row_reads.settled(files, seen, schema, dead_rows.NONE)
    assert found is not None
    rows, dead = found
    left = arrow.read_files(files, schema, None, dead=dead)
    assert by_key(pa.concat_tables([rows.cast(to_arrow(schema)), left])) == wanted


def ten_files(tmp_path: Path, schema: Schema) -> list[DataFile]:
    """With keys 0 to 9, 10 to 19, and so on."""
    return list(
        itertools.chain.from_iterable(
            arrow.write_files(
                table([(key,) for key in range(first, first + 10)], schema, 0),
                (tmp_path / f"delta_{first}_w").as_uri(),
                schema,
                "t",
            )
            for first in range(0, 100, 10)
        )
    )


def test_only_files_in_which_a_changed_key_can_be_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = a_schema(["bigint"])
    files = ten_files(tmp_path, schema)
    keys = table([(35,), (95,), (1_000,)], schema, None)
    assert superseded.meeting(files, keys, schema) == [number in (3, 9) for number in range(10)]
    changes = RowChanges(
        (Change(Timestamp(5), True, to_ipc(keys)),),
        (),
        Timestamp(0),
        Timestamp(9),
        (Timestamp(4),) * 9 + (Timestamp(6),),
    )
    opened: list[str] = []
    check = data_files.check
    monkeypatch.setattr(
        data_files, "check", lambda files, *rest: opened.extend(file.path for file in files) or check(files, *rest)
    )
    found = row_reads.settled(files, changes, schema, dead_rows.NONE)
    assert found is not None
    rows, dead = found
    assert opened == [files[3].path]
    assert rows.num_rows == 0
    assert {path: list(gone) for path, gone in dead.items()} == {files[3].path: [5]}


def test_too_much_to_find_ahead_is_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = a_schema(["bigint"])
    files = ten_files(tmp_path, schema)
    changes = RowChanges(
        (Change(Timestamp(5), True, to_ipc(table([(35,)], schema, None))),),
        (),
        Timestamp(0),
        Timestamp(9),
        (Timestamp(4),) * 10,
    )
    monkeypatch.setattr(row_reads, "MAX_KEYS", 9)
    assert row_reads.settled(files, changes, schema, dead_rows.NONE) is None
    monkeypatch.setattr(row_reads, "MAX_KEYS", 10)
    assert row_reads.settled(files, changes, schema, dead_rows.NONE) is not None


def test_damage_to_a_file_shows_where_keys_are_looked_for(tmp_path: Path) -> None:
    schema = a_schema(["bigint"])
    files = ten_files(tmp_path, schema)
    changes = RowChanges(
        (Change(Timestamp(5), True, to_ipc(table([(35,)], schema, None))),),
        (),
        Timestamp(0),
        Timestamp(9),
        (Timestamp(4),) * 10,
    )
    path = tmp_path / "delta_30_w" / files[3].path.rsplit("/", 1)[1]
    path.write_bytes(path.read_bytes()[:-9] + b"?" + path.read_bytes()[-8:])
    with pytest.raises(DataDamaged, match="delta_30_w"):
        row_reads.settled(files, changes, schema, dead_rows.NONE)
