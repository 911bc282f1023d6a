"""Files that are not what somebody says, storage that does not give or take them: who is told, and what is left."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlparse

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import SCHEMA, rows, visible
from txnclient import Client, DataDamaged, DataFile, IllegalState, InternalError, InvalidArgument, StagedFiles
from txnclient.read import manifests
from txndeploy.local.cluster import LocalCluster
from txnstatus.lake import data_files, dead_rows, manifest
from txnstatus.lake.kept import Kept
from txnstatus.proto import table_pb2 as pb

NewTable = Callable[..., str]
Change = Callable[[StagedFiles, DataFile], StagedFiles]


def path_of(uri: str) -> Path:
    return Path(unquote(urlparse(uri).path))


def _gone(staged: StagedFiles, file: DataFile) -> StagedFiles:
    path_of(file.path).unlink()
    return staged


def _text(staged: StagedFiles, file: DataFile) -> StagedFiles:
    path_of(file.path).write_text("id,note\n1,row 1\n")
    return staged


def _cut(staged: StagedFiles, file: DataFile) -> StagedFiles:
    path = path_of(file.path)
    path.write_bytes(path.read_bytes()[:-10])
    return staged


def _other_schema(staged: StagedFiles, file: DataFile) -> StagedFiles:
    pq.write_table(pa.table({"id": ["one"], "note": ["row 1"]}), path_of(file.path))
    return staged


def _other_rows(staged: StagedFiles, file: DataFile) -> StagedFiles:
    pq.write_table(rows(1, 2, 3), path_of(file.path))
    return staged


def _never_there(staged: StagedFiles, file: DataFile) -> StagedFiles:
    return replace(staged, files=(replace(file, path=file.path.replace("part-00000", "part-77777")),))


def _outside(staged: StagedFiles, file: DataFile) -> StagedFiles:
    outside = path_of(file.path).parents[2] / "outside.parquet"
    pq.write_table(rows(1), outside)
    return replace(staged, files=(replace(file, path=outside.as_uri()),))


def _upwards(staged: StagedFiles, file: DataFile) -> StagedFiles:
    directory, _, name = file.path.rpartition("/")
    return replace(staged, files=(replace(file, path=f"{directory}/../../{name}"),))


def _of_another_write(staged: StagedFiles, file: DataFile) -> StagedFiles:
    return replace(staged, write_id="0" * 32)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_gone, "cannot be added"),
        (_never_there, "cannot be added"),
        (_text, "Parquet"),
        (_cut, "Parquet"),
        (_other_schema, "'id' of table .* is bigint; in the data it is string"),
        (_other_rows, "it has 3 rows in .* and not as its task said 1 rows"),
        (_outside, "not in its write's directory"),
        (_upwards, "empty, . or .."),
        (_of_another_write, "not in its write's directory"),
    ],
)
def test_staged_files_that_are_not_as_their_task_said(
    client: Client, new_table: NewTable, change: Change, says: str
) -> None:
    table = new_table()
    txn = client.begin()
    good, bad = txn.stage(rows(1), table), txn.stage(rows(2), table)
    wrong = change(bad, bad.files[0])
    with pytest.raises(InvalidArgument, match=says) as caught:
        txn.add([good, wrong], table)
    assert repr(wrong.files[0].path) in caught.value.message
    with pytest.raises(IllegalState, match="can only be aborted"):
        txn.add([good], table)
    assert visible(client, table) == [[]]


def test_staged_files_of_another_table(client: Client, new_table: NewTable) -> None:
    one, other = new_table(), new_table()
    for claim, says in (
        (lambda staged: staged, f"staged for {one} cannot be added to {other}"),
        (lambda staged: replace(staged, table=other), "not in its write's directory"),
    ):
        txn = client.begin()
        staged = txn.stage(rows(1), one)
        with pytest.raises(InvalidArgument, match=says):
            txn.add([claim(staged)], other)
    assert visible(client, one, other) == [[], []]


@pytest.fixture
def torn(cluster: LocalCluster, client: Client, new_table: NewTable) -> Iterator[tuple[str, Path]]:
    """A table with one committed write, and its only data file."""
    table = new_table()
    with client.transaction() as txn:
        txn.write(rows(1), table)
    (file,) = client.snapshot().files(table).files
    yield table, path_of(file.path)
    with client.transaction() as txn:  # an overwrite needs nothing of what it replaces
        txn.write(rows(5), table, mode="overwrite")
    assert visible(client, table) == [[5]]


def _elsewhere(client: Client, new_table: NewTable) -> None:
    table = new_table()
    with client.transaction() as txn:
        txn.write(rows(9), table)
    assert visible(client, table) == [[9]]


def test_a_page_that_is_rotten_is_told_of_by_duckdb(
    client: Client, torn: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error named neither the table nor the file."""
    table, file = torn
    monkeypatch.setattr(data_files, "WHOLE_BYTES", 0)
    client.write(rows(*range(2, 3_000)), table)
    (large,) = (path_of(each.path) for each in client.snapshot().files(table).files if path_of(each.path) != file)
    relation = client.snapshot().to_duckdb(table, duckdb.connect())
    data = bytearray(large.read_bytes())
    data[len(data) // 3] ^= 4
    large.write_bytes(data)
    with pytest.raises(duckdb.Error) as told:
        relation.filter("id > 5").fetchall()
    for said in (f"table {table}: ", large.name, "is damaged", "txnctl doctor --deep"):
        assert said in str(told.value)


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has read no manifest yet."""
    monkeypatch.setattr(manifests, "_kept", Kept[pb.ManifestRef, Sequence[DataFile]](manifest.whole, 0))


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("left", [0, 1, -1])
def test_a_manifest_that_was_cut_short(client: Client, new_table: NewTable, torn: tuple[str, Path], left: int) -> None:
    table, file = torn
    path = file.parent / manifest.FILE_NAME
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(InternalError, match=f"manifest .*{re.escape(file.parent.name)}.* is damaged"):
        client.snapshot().to_arrow(table)
    _elsewhere(client, new_table)


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize("what", [manifest.FILE_NAME, dead_rows.FILE_NAME, "part-00000.parquet"])
def test_a_file_that_is_gone(client: Client, new_table: NewTable, torn: tuple[str, Path], what: str) -> None:
    """It was an error of the file system, or one of the service itself, and named no table."""
    table, file = torn
    client.write(rows(2), table)
    if what == dead_rows.FILE_NAME:
        with client.transaction() as txn:
            txn.delete_where(table, "true")
        (gone,) = file.parent.parent.glob(f"*/{what}")
    else:
        gone = file.parent / what
    gone.unlink()
    told = f"^table {re.escape(table)}: .* is gone .*{gone.parent.name}/{gone.name}(.|\n)*restore it from a backup"
    with pytest.raises(DataDamaged, match=told):
        client.snapshot().to_arrow(table)
    with pytest.raises(DataDamaged, match=told), client.transaction() as txn:
        txn.update_where(table, {"note": "'x'"}, "id >= 0")
    _elsewhere(client, new_table)


def test_storage_that_takes_no_files(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    """A file stands where the table's directory should be."""
    location = f"{cluster.warehouse}/taken"
    path_of(location).write_text("not a directory")
    client.create_table("t.taken", SCHEMA, location=location)
    other = new_table()
    txn = client.begin()
    txn.write(rows(1), other)
    with pytest.raises(OSError, match="taken"):
        txn.write(rows(1), "t.taken")
    with pytest.raises(IllegalState, match=r"a write to t\.taken failed"):
        txn.commit()
    client.write(rows(1), other)
    assert visible(client, other, "t.taken") == [[1], []]
    assert path_of(location).read_text() == "not a directory"


VALUES = ["..", "../../up", "a/b", "", ".", "/etc/passwd", "%2e%2e", "month=1", "nul\0", "x" * 500, "é\n"]


def test_partition_values_that_try_to_leave_the_directory(client: Client) -> None:
    table = "leaving.places"  # in a database of its own: cleaners may take from other tables' directories meanwhile
    client.create_table(table, "id bigint, place string", partition_by=["place"])
    data = pa.table({"id": pa.array(range(len(VALUES)), pa.int64()), "place": VALUES})
    directory = path_of(client.table(table).location)
    around = {path for path in directory.parent.rglob("*") if directory not in path.parents}
    with client.transaction() as txn:
        txn.write(data, table)
    files = client.snapshot().files(table).files
    assert len(files) == len(VALUES)
    for file in files:
        assert path_of(file.path).resolve().is_relative_to(directory.resolve())
    assert {path for path in directory.parent.rglob("*") if directory not in path.parents} == around | {directory}
    found = client.snapshot().to_arrow(table).sort_by("id")
    assert found["place"].to_pylist() == VALUES
    client.write(data.slice(1, 1), table, mode="overwrite", partition={"place": "../../up"})
    for wrong in ("place=../../up", "place=a/b", "..", "other=1"):
        with pytest.raises(InvalidArgument, match=re.escape(wrong.split("=")[0])):
            client.truncate(table, partition=wrong)
    assert client.snapshot().to_arrow(table).num_rows == len(VALUES)
