"""A published log: its entries, whose they are, and what is read of it again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyroaring import BitMap

from txnstatus.lake import delta_actions, delta_log
from txnstatus.lake.delta_log import ForeignEntry, Log
from txnstatus.lake.manifest import ColumnRange, DataFile
from txnstatus.schema import Column, Schema
from txnstatus.types import NO_TIMESTAMP, Timestamp, timestamp

SCHEMA = Schema((Column("id", "bigint"), Column("m", "map<string,array<int>>"), Column("d", "decimal(5,2)")))
FILE = DataFile("file:///x/delta_1_w/part.parquet", 10, 100, columns={"id": ColumnRange("1", "9", 2)})
AT = timestamp(5_000_000)


def entry(at: Timestamp = AT, dead: BitMap | None = None, *, first: bool = True) -> list[delta_actions.Action]:
    heading = [
        delta_actions.protocol(SCHEMA, deletion_vectors=dead is not None),
        delta_actions.metadata("1.t", "a.t", SCHEMA, at),
    ]
    file = delta_actions.added("delta_1_w/part.parquet", FILE, SCHEMA, dead, at, rows_change=True)
    return [*(heading if first else ()), file]


def later(number: int) -> Timestamp:
    return Timestamp(AT + number)


def test_a_log_reads_as_it_was_written(tmp_path: Path) -> None:
    uri = tmp_path.as_uri()
    log = Log.read(uri, "1.t")
    assert (log.version, log.commit_ts, log.files) == (-1, NO_TIMESTAMP, {})
    log.append(AT, entry())
    before = log.files["delta_1_w/part.parquet"]
    dead = entry(later(1), BitMap([1, 3]))
    log.append(later(1), [delta_actions.removed(before, later(1), rows_change=True), *dead])
    assert delta_actions.dead_rows_of(log.files["delta_1_w/part.parquet"]) == 2
    assert Log.read(uri, "1.t") == log
    log.checkpoint()
    assert Log.read(uri, "1.t") == log
    log.append(later(2), [delta_actions.removed(log.files["delta_1_w/part.parquet"], later(2), rows_change=False)])
    assert Log.read(uri, "1.t") == log
    assert not log.files
    assert DeltaTable(tmp_path).version() == 2
    found = pa.table(DeltaTable(tmp_path, version=1).get_add_actions(flatten=True)).to_pylist()
    assert [(each["path"], each["num_records"]) for each in found] == [("delta_1_w/part.parquet", 10)]


def test_who_finds_his_entry_there_has_written_it(tmp_path: Path) -> None:
    one, other = (Log.read(tmp_path.as_uri(), "1.t") for _ in range(2))
    one.append(AT, entry())
    other.append(AT, entry())
    assert one == other
    one.append(later(1), [])
    with pytest.raises(ForeignEntry, match="is of another commit"):
        other.append(later(2), [])


@pytest.mark.parametrize(
    "text", ["", "no json", '{"add":{}}', '{"commitInfo":{"engineInfo":"delta-rs"}}', '{"commitInfo":{}}', "[]"]
)
def test_what_is_somebody_elses_is_refused(tmp_path: Path, text: str) -> None:
    log = Log.read(tmp_path.as_uri(), "1.t")
    log.append(AT, entry())
    there = log.directory / "00000000000000000001.json"
    there.write_text(text)
    for attempt in (lambda: log.append(later(1), []), lambda: Log.read(tmp_path.as_uri(), "1.t")):
        with pytest.raises(ForeignEntry):
            attempt()
    assert there.read_text() == text
    delta_log.remove(tmp_path.as_uri(), "1.t")
    assert there.exists()


def test_another_tables_log_is_not_ours(tmp_path: Path) -> None:
    Log.read(tmp_path.as_uri(), "1.t").append(AT, entry())
    with pytest.raises(ForeignEntry, match="not for this table"):
        Log.read(tmp_path.as_uri(), "2.t")


def test_an_entry_that_is_missing_is_told(tmp_path: Path) -> None:
    log = Log.read(tmp_path.as_uri(), "1.t")
    for number in range(3):
        log.append(later(number), entry(later(number), first=not number))
    (log.directory / "00000000000000000001.json").unlink()
    with pytest.raises(ForeignEntry, match="entry 2 after 0"):
        Log.read(tmp_path.as_uri(), "1.t")


def test_a_log_goes_without_a_trace(tmp_path: Path) -> None:
    log = Log.read(tmp_path.as_uri(), "1.t")
    log.append(AT, entry())
    log.checkpoint()
    (log.directory / ".txnstatus-left").touch()
    delta_log.remove(tmp_path.as_uri(), "1.t")
    assert not list(tmp_path.iterdir())
    delta_log.remove(tmp_path.as_uri(), "1.t")


def test_statistics_are_those_that_mean_the_same() -> None:
    schema = Schema(tuple(Column(name, kind) for name, kind in zip("abc", ("int", "double", "date"), strict=True)))
    columns = {
        "a": ColumnRange("-1", "2", 0),
        "b": ColumnRange("0.5", "1.5", 1),
        "c": ColumnRange("2013-01-01", "2013-01-31", 2),
    }
    file = DataFile("x", 5, 10, columns=columns)
    said = delta_actions.added("x", file, schema, None, AT, rows_change=True)["add"]
    assert json.loads(said["stats"]) == {
        "numRecords": 5,
        "tightBounds": True,
        "minValues": {"a": -1, "c": "2013-01-01"},
        "maxValues": {"a": 2, "c": "2013-01-31"},
        "nullCount": {"a": 0, "b": 1, "c": 2},
    }
