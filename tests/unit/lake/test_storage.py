"""What is synced when files of a write are made durable: everything that leads to them, and nothing twice."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from txnclient.formats import arrow
from txnstatus.lake import manifest, storage
from txnstatus.schema import Column, Schema

SCHEMA = Schema((Column("id", "bigint"), Column("day", "int")), partition_by=("day",))
PATIENCE_SECONDS = 30.0
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "day": pa.array([1, 2], pa.int32())})


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    seen: list[Path] = []
    monkeypatch.setattr(storage, "sync", lambda path: seen.append(Path(path)))
    return seen


def write(table: Path, write_id: str) -> Path:
    """Its directory."""
    directory = table / f"delta_1_{write_id}"
    files = arrow.write_files(ROWS, directory.as_uri(), SCHEMA, "db.t")
    manifest.write(directory.as_uri(), files, table_id="0.0", txn_id=1, write_id=write_id, not_durable=files)
    return directory


def expected(directory: Path, *above: Path) -> set[Path]:
    inside = set(directory.rglob("*"))
    return {*inside, directory, directory.parent, directory.parent.parent, *above}


def test_a_write_syncs_its_files_and_every_name_that_leads_to_them_once(tmp_path: Path, synced: list[Path]) -> None:
    table = tmp_path / "warehouse" / "db" / "t"
    first = write(table, "abcdefgh")
    assert len(synced) == len(set(synced))
    assert set(synced) == expected(first, *table.parents)
    for place in synced:
        assert all(synced.index(place) < synced.index(above) for above in place.parents if above in synced)


def test_what_no_write_adds_a_name_to_is_synced_by_the_first_write_only(tmp_path: Path, synced: list[Path]) -> None:
    table = tmp_path / "warehouse" / "db" / "t"
    write(table, "abcdefgh")
    synced.clear()
    second = write(table, "bcdefghi")
    assert set(synced) == expected(second)
    assert len(synced) == len(set(synced))


def test_a_new_database_gets_a_durable_name(tmp_path: Path, synced: list[Path]) -> None:
    warehouse = tmp_path / "warehouse"
    write(warehouse / "db" / "t", "abcdefgh")
    synced.clear()
    write(warehouse / "other" / "t", "abcdefgh")
    assert warehouse in synced


def test_where_syncs_are_slow_they_go_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "db" / "t", "abcdefgh")
    caller, entered, both = threading.get_ident(), set[int](), threading.Event()

    def slow(_: str) -> None:
        entered.add(threading.get_ident())
        if len(entered - {caller}) > 1:
            both.set()
        elif threading.get_ident() != caller:
            both.wait(PATIENCE_SECONDS)  # nobody goes on before two have begun

    monkeypatch.setattr(storage, "SLOW_SYNC_SECONDS", 0.0)
    monkeypatch.setattr(storage, "sync", slow)
    write(tmp_path / "db" / "t", "bcdefghi")
    assert both.is_set()


@pytest.mark.parametrize("directory", ["delta_1_00000000", "base_major0000000000000001"])
def test_files_of_a_table_are_found_in_one_file_system(tmp_path: Path, directory: str) -> None:
    """To make one for each took as long as what it was asked."""
    uris = [f"{tmp_path.as_uri()}/a%20b/{directory}/part-{number}%3D.parquet" for number in range(2)]
    found = [storage.located(uri) for uri in uris]
    assert found[0][0] is found[1][0]
    assert found == [storage.file_system(uri) for uri in uris]
