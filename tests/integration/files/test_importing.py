"""Tables of other formats that come in with their files where they are: what readers see, and what stays as it was."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from tests.support import FAST_TXN, fast_cluster, parquet_files, rows, wait_until
from txnclient import AlreadyExists, Client, DataDamaged, InvalidArgument, NotFound
from txnclient.compact.worker import Worker
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txnstatus.undoes import request_id_of_undo

NewTable = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    brief = {"snapshot_retention_seconds": 1, "snapshot_lease_seconds": 1, "zombie_grace_seconds": 0.2}
    with fast_cluster(tmp_path_factory.mktemp("importing"), txn=FAST_TXN.model_copy(update=brief)) as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A directory with two files of five rows, as others leave them."""
    directory = tmp_path / "the lake" / "flights"
    (directory / "below").mkdir(parents=True)
    pq.write_table(rows(1, 2, 3), directory / "part-0 a.parquet")
    pq.write_table(rows(4, 5), directory / "below" / "000000_0")
    (directory / "_SUCCESS").touch()
    return directory


def content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def ids(client: Client, table: str) -> list[int]:
    with client.snapshot() as snapshot:
        return sorted(snapshot.to_arrow(table)["id"].to_pylist())


def is_healthy(cluster: LocalCluster) -> bool:
    result = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--json", "--deep"])
    return result.exit_code == 0 and not json.loads(result.output)["findings"]


def test_files_become_the_tables_where_they_lie(cluster: LocalCluster, client: Client, lake: Path) -> None:
    before = content(lake)
    receipt = client.import_files("in.place", str(lake), create=True)
    assert receipt.tables == ("in.place",)
    assert ids(client, "in.place") == [1, 2, 3, 4, 5]
    with client.snapshot() as snapshot:
        found = snapshot.files("in.place").files
        assert snapshot.to_duckdb("in.place").aggregate("sum(id)").fetchall() == [(15,)]
    assert sorted(url2pathname(file.path.removeprefix("file://")) for file in found) == sorted(
        path for path in before if not path.endswith("_SUCCESS")
    )
    assert is_healthy(cluster)


def test_nothing_that_becomes_of_the_table_changes_the_files(cluster: LocalCluster, client: Client, lake: Path) -> None:
    before = content(lake)
    client.import_files("in.changed", lake.as_uri(), create=True)
    location = path_of(client.table("in.changed").location)
    client.delete_where("in.changed", "id = 2")
    client.update_where("in.changed", {"note": "'other'"}, "id = 4")
    client.write(rows(6), "in.changed")
    assert ids(client, "in.changed") == [1, 3, 4, 5, 6]
    assert is_healthy(cluster)
    compacted(client, "in.changed")
    assert ids(client, "in.changed") == [1, 3, 4, 5, 6]
    wait_until(lambda: len(list(location.iterdir())) == 1, "what was compacted is removed", timeout=60)
    client.import_files("in.changed", str(lake))
    client.truncate("in.changed")
    client.drop_table("in.changed")
    wait_until(lambda: not parquet_files(location), "the dropped table's files are removed", timeout=60)
    assert content(lake) == before
    assert sorted(pq.read_table(lake / "part-0 a.parquet")["id"].to_pylist()) == [1, 2, 3]


def test_a_file_that_is_gone_or_another_is_told(cluster: LocalCluster, client: Client, lake: Path) -> None:
    client.import_files("in.gone", str(lake), create=True)
    (lake / "below" / "000000_0").unlink()
    with client.snapshot() as snapshot, pytest.raises(DataDamaged, match="000000_0"):
        snapshot.to_arrow("in.gone")
    pq.write_table(rows(*range(100)), lake / "part-0 a.parquet")
    with client.snapshot() as snapshot, pytest.raises(DataDamaged):
        snapshot.to_arrow("in.gone", where=pc.field("id") < 4)
    command = ["doctor", "--cluster", cluster.addresses, "--json", "--table", "in.gone"]
    said = json.loads(CliRunner().invoke(app, command).output)["findings"]
    assert {each["kind"] for each in said} == {"missing file", "wrong size"}
    client.drop_table("in.gone")


def path_of(uri: str) -> Path:
    return Path(url2pathname(uri.removeprefix("file://")))


def compacted(client: Client, table: str) -> None:
    (asked,) = client.compact(table, kind="major", wait=False)
    assert Worker(client.session, "here", threading.Event(), table).run_once()
    done = [each.compaction_id for each in client.compactions(table, state="succeeded")]
    assert asked.compaction_id in done, client.compactions(table)


def test_a_file_comes_in_once(client: Client, lake: Path) -> None:
    client.import_files("in.once", str(lake), create=True)
    again = client.import_files("in.once", str(lake))
    assert [each.rpartition("/")[2] for each in again.passed_over] == ["000000_0", "part-0%20a.parquet"]
    with pytest.raises(AlreadyExists, match=r"in\.once"):
        client.import_files("in.once", str(lake), create=True)
    assert ids(client, "in.once") == [1, 2, 3, 4, 5]
    client.import_files("in.once", str(lake), copy=True)
    assert len(ids(client, "in.once")) == 10, "copied rows are other rows"


def test_what_came_in_is_known_whatever_becomes_of_the_table(client: Client, lake: Path) -> None:
    """Compactions, also of what they have written, a restore to each moment, and a rename."""
    client.import_files("in.known", str(lake), create=True)
    client.savepoint("with two files", ["in.known"])
    pq.write_table(rows(6), lake / "part-1.parquet")
    new = client.import_files("in.known", str(lake))
    assert len(new.passed_over) == 2
    client.delete_where("in.known", "id = 2")
    for number in (10, 11):
        client.write(rows(number), "in.known")
        compacted(client, "in.known")
        assert len(client.import_files("in.known", str(lake)).passed_over) == 3
    there = [1, 3, 4, 5, 6, 10, 11]
    assert ids(client, "in.known") == there
    client.savepoint("with three files", ["in.known"])
    client.restore("with two files", ["in.known"])
    client.rename_table("in.known", "in.renamed")
    restored = client.import_files("in.renamed", str(lake))
    assert (len(restored.passed_over), ids(client, "in.renamed")) == (2, [1, 2, 3, 4, 5, 6])
    client.restore("with three files", ["in.renamed"])
    client.write(rows(12), "in.renamed")
    compacted(client, "in.renamed")
    assert len(client.import_files("in.renamed", str(lake)).passed_over) == 3
    assert ids(client, "in.renamed") == [*there, 12]


@pytest.mark.parametrize("compacts", [False, True])
def test_a_file_that_was_written_anew_since_it_came_in_is_refused(client: Client, lake: Path, compacts: bool) -> None:
    table = f"in.anew_{compacts}"
    client.import_files(table, str(lake), create=True)
    if compacts:
        compacted(client, table)
    pq.write_table(rows(4, 5, 6, 7), lake / "below" / "000000_0")
    pq.write_table(rows(9), lake / "part-9.parquet")
    with pytest.raises(AlreadyExists, match=r"below/000000_0 came into table .* was written anew since"):
        client.import_files(table, str(lake))
    client.drop_table(table)


def test_what_was_undone_comes_in_again_after_a_compaction(client: Client, lake: Path) -> None:
    client.create_table("in.undone", "id bigint, note string")
    client.write(rows(100), "in.undone")
    client.undo(client.import_files("in.undone", str(lake)).txn_id)
    with pytest.raises(AlreadyExists, match=r"all of its rows were taken back there by an undo"):
        client.import_files("in.undone", str(lake))
    compacted(client, "in.undone")
    assert client.import_files("in.undone", str(lake)).passed_over == ()
    assert ids(client, "in.undone") == [1, 2, 3, 4, 5, 100]


@pytest.mark.parametrize("change", ["update", "delete"])
@pytest.mark.parametrize("beside", [[], [100]], ids=["alone", "beside"])
def test_rows_that_were_changed_or_deleted_do_not_return(
    client: Client, lake: Path, change: str, beside: list[int]
) -> None:
    """The files were forgotten as a compaction had left none of their rows, and came in once more."""
    table = f"in.{change}d_{len(beside)}"
    client.import_files(table, str(lake), create=True)
    if beside:
        client.write(rows(*beside), table)
    if change == "update":
        client.update_where(table, {"id": "id + 10"}, "id < 100")
    else:
        client.delete_where(table, "id < 100")
    there = ids(client, table)
    for number in (200, 201):
        assert len(client.import_files(table, str(lake)).passed_over) == 2
        compacted(client, table)
        assert len(client.import_files(table, str(lake)).passed_over) == 2
        assert ids(client, table) == there
        client.write(rows(number), table)
        there.append(number)


def test_a_file_without_rows_is_read_as_others_are(cluster: LocalCluster, client: Client, lake: Path) -> None:
    """A compaction that leaves no row writes one, by which the table knows what came in."""
    client.import_files("in.nothing", str(lake), create=True)
    client.delete_where("in.nothing", "id < 100")
    compacted(client, "in.nothing")
    assert len(client.snapshot().files("in.nothing").files) == 1
    for expected in ([], [7]):
        with client.snapshot() as snapshot:
            found = (
                snapshot.to_arrow("in.nothing", where=pc.field("id") > 0)["id"].to_pylist(),
                [row[0] for row in snapshot.to_duckdb("in.nothing").filter("id > 0").fetchall()],
                snapshot.to_polars("in.nothing", lazy=True).collect()["id"].to_list(),
            )
        assert found == (expected,) * 3
        assert client.sql("SELECT count(*) AS n FROM in.nothing WHERE id > 0")["n"].to_pylist() == [len(expected)]
        assert client.sql("SELECT count(*) AS n FROM in.nothing")["n"].to_pylist() == [len(expected)]
        metadata = client.publish_iceberg("in.nothing", str(lake.parent / "iceberg")).metadata
        shown = pytest.importorskip("pyiceberg.table").StaticTable.from_metadata(metadata).scan().to_arrow()
        assert shown["id"].to_pylist() == expected
        if not expected:
            client.write(rows(7), "in.nothing")
    client.alter_table("in.nothing", properties={"publish": "delta"})
    wait_until(lambda: client.publication("in.nothing").is_current, "all of it is in the log")
    assert DeltaTable(client.table("in.nothing").location).to_pyarrow_table()["id"].to_pylist() == [7]
    assert is_healthy(cluster)
    client.drop_table("in.nothing")


def test_what_was_undone_after_a_compaction_comes_in_again(client: Client, lake: Path) -> None:
    """Rows of others were alive in the file that its rows had gone into, and it was passed over. An undo of the undo
    has the rows there, and so the next import none.
    """
    client.create_table("in.late", "id bigint, note string")
    client.write(rows(100), "in.late")
    done = client.import_files("in.late", str(lake))
    compacted(client, "in.late")
    undo = client.undo(done.txn_id)
    assert ids(client, "in.late") == [100]
    undone = client.undo(undo.txn_id)
    assert len(client.import_files("in.late", str(lake)).passed_over) == 2
    client.undo(undone.txn_id)
    assert client.import_files("in.late", str(lake)).passed_over == ()
    compacted(client, "in.late")
    assert len(client.import_files("in.late", str(lake)).passed_over) == 2
    assert ids(client, "in.late") == [1, 2, 3, 4, 5, 100]


def test_an_undo_is_one_whatever_its_label_says(client: Client, lake: Path) -> None:
    """It was known by its label: with one of its own, what it had taken back was passed over."""
    client.create_table("in.labelled", "id bigint, note string")
    client.write(rows(100), "in.labelled")
    first = client.import_files("in.labelled", str(lake))
    undo = client.undo(first.txn_id, label="a bad load")
    compacted(client, "in.labelled")
    done = client.import_files("in.labelled", str(lake))
    assert done.passed_over == ()
    client.undo(client.undo(done.txn_id, label="once more").txn_id, label="a mistake")
    compacted(client, "in.labelled")
    assert len(client.import_files("in.labelled", str(lake)).passed_over) == 2
    assert ids(client, "in.labelled") == [1, 2, 3, 4, 5, 100]
    told = {each.txn_id: each.undoes for each in client.timeline(table="in.labelled")}
    assert (told[undo.txn_id], told[done.txn_id]) == (first.txn_id, None)


def test_a_deletion_is_no_undo_whatever_its_label_says(client: Client, lake: Path) -> None:
    """It was taken for one by its label, and the rows that it had deleted came in again."""
    client.create_table("in.deleted", "id bigint, note string")
    client.write(rows(100), "in.deleted")
    done = client.import_files("in.deleted", str(lake))
    client.delete_where("in.deleted", "id < 100", label=f"undo of transaction {done.txn_id}")
    compacted(client, "in.deleted")
    assert len(client.import_files("in.deleted", str(lake)).passed_over) == 2
    assert ids(client, "in.deleted") == [100]


def test_a_write_is_refused_the_request_id_of_an_undo(client: Client, lake: Path) -> None:
    undo = request_id_of_undo(7, 32 * "0")
    with pytest.raises(InvalidArgument, match=rf"request_id '{undo}' is that of an undo"):
        client.write(rows(1), "in.no_such_table", request_id=undo)


def test_a_file_that_came_in_twice_is_restored_as_it_was_each_time(client: Client, lake: Path) -> None:
    client.import_files("in.twice", str(lake), create=True)
    client.delete_where("in.twice", "id = 1")
    client.savepoint("the first", ["in.twice"])
    client.truncate("in.twice")
    client.import_files("in.twice", str(lake))
    client.delete_where("in.twice", "id = 3")
    client.savepoint("the second", ["in.twice"])
    for at, expected in (("the first", [2, 3, 4, 5]), ("the second", [1, 2, 4, 5]), ("the first", [2, 3, 4, 5])):
        client.restore(at, ["in.twice"])
        assert ids(client, "in.twice") == expected


def test_two_schemas_are_no_table(client: Client, lake: Path) -> None:
    pq.write_table(pa.table({"id": ["one"], "note": ["row 1"]}), lake / "part-1.parquet")
    with pytest.raises(InvalidArgument, match=r"part-1\.parquet' cannot be added to in\.two: column 'id' .* is bigint"):
        client.import_files("in.two", str(lake), create=True)
    with pytest.raises(InvalidArgument, match="do not read as one table"):
        client.import_files("in.two", str(lake), create=True, copy=True)
    with pytest.raises(NotFound, match=r"in\.two"):
        client.table("in.two")
    client.create_table("in.two", "id bigint, note string")
    for copy in (False, True):
        with pytest.raises(InvalidArgument):
            client.import_files("in.two", str(lake), copy=copy)
    assert ids(client, "in.two") == []


def test_columns_that_the_first_file_has_not_are_not_left_out(client: Client, lake: Path) -> None:
    pq.write_table(pa.table({"id": [9], "note": ["row 9"], "more": [1]}), lake / "part-9.parquet")
    with pytest.raises(InvalidArgument, match=r"part-9\.parquet has a column 'more', and the first file has none"):
        client.import_files("in.more", str(lake), create=True, copy=True)
    with pytest.raises(NotFound, match=r"in\.more"):
        client.table("in.more")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1], pa.timestamp("ns")), r"is stored as timestamp\[ns\]"),
        (pa.array([1], pa.uint8()), "is stored as uint8"),
        (pa.array([b"ab"], pa.binary(2)), r"is stored as fixed_size_binary\[2\]"),
        (pa.array([[1]], pa.list_(pa.uint16())), "is stored as uint16"),
    ],
)
def test_what_readers_would_read_otherwise_is_refused_in_place(
    client: Client, tmp_path: Path, column: pa.Array, said: str
) -> None:
    (tmp_path / "odd").mkdir()
    pq.write_table(pa.table({"id": column}), tmp_path / "odd" / "x.parquet")
    name = f"in.odd_{abs(hash(said))}"
    with pytest.raises(InvalidArgument, match=said) as refused:
        client.import_files(name, str(tmp_path / "odd"), create=True)
    assert refused.value.hint == "import it with copy=True"
    with pytest.raises(NotFound):
        client.table(name)


def test_old_calendars_are_refused(client: Client, tmp_path: Path) -> None:
    old = pa.schema([("id", pa.int64())], metadata={"org.apache.spark.legacyDateTime": ""})
    (tmp_path / "old").mkdir()
    pq.write_table(pa.table({"id": [1]}, old), tmp_path / "old" / "x.parquet")
    with pytest.raises(InvalidArgument, match="calendar of before 1582"):
        client.import_files("in.old", str(tmp_path / "old"), create=True)


@pytest.mark.parametrize("what", ["nothing", "text", "empty", "hidden"])
def test_what_is_no_table_is_told(client: Client, tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what != "nothing":
        path.mkdir()
    if what == "text":
        (path / "x.parquet").write_text("id,note")
    if what == "hidden":
        pq.write_table(rows(1), path / "_x.parquet")
    with pytest.raises(InvalidArgument, match=r"is no directory|is no Parquet file|there are no Parquet files"):
        client.import_files("in.none", str(path), create=True)


@pytest.mark.parametrize("path", [None, 5, b"x", [], "", "s3://", "file://", "nul\0"])
def test_what_is_no_path_is_told(client: Client, path: str) -> None:
    with pytest.raises(InvalidArgument, match="expected a path or a URI, as text"):
        client.import_files("in.none", path, create=True)
    with pytest.raises(InvalidArgument, match="expected a path or a URI, as text"):
        client.publish_iceberg("in.none", path)


def test_names_of_directories_tell_values_of_columns(client: Client, tmp_path: Path) -> None:
    for number, (month, day) in enumerate([("1", "2013-01-31"), ("__HIVE_DEFAULT_PARTITION__", "2013-02-01")]):
        directory = tmp_path / "hive" / f"month={month}" / f"day={day}"
        directory.mkdir(parents=True)
        pq.write_table(rows(number), directory / "part-0.parquet")
    client.import_files("in.hive", str(tmp_path / "hive"), create=True, copy=True)
    assert client.table("in.hive").schema.partition_by == ("month", "day")
    with client.snapshot() as snapshot:
        found = snapshot.to_arrow("in.hive").sort_by("id").select(["id", "month", "day"]).to_pylist()
    assert found == [
        {"id": 0, "month": 1, "day": date(2013, 1, 31)},
        {"id": 1, "month": None, "day": date(2013, 2, 1)},
    ]


def test_files_in_no_partitions_are_copied_into_a_partitioned_table(
    client: Client, new_table: NewTable, lake: Path
) -> None:
    """A file in place is of one partition, and only its place would tell which."""
    table = new_table(partition_by=["note"])
    with pytest.raises(InvalidArgument, match=r"lie in no partitions, and table .* is partitioned by note") as refused:
        client.import_files(table, str(lake))
    assert refused.value.hint == "import it with copy=True"
    client.import_files(table, str(lake), copy=True)
    assert ids(client, table) == [1, 2, 3, 4, 5]


def test_a_delta_table_comes_in_at_its_current_version(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "delta"
    write_deltalake(path, rows(1, 2))
    write_deltalake(path, rows(3), mode="append")
    write_deltalake(path, rows(4, 5), mode="overwrite")
    write_deltalake(path, rows(6), mode="append")
    before = content(path)
    client.import_files("in.delta", str(path), create=True)
    assert ids(client, "in.delta") == [4, 5, 6]
    assert content(path) == before
    write_deltalake(path, rows(7), mode="append")
    assert ids(client, "in.delta") == [4, 5, 6]
    assert DeltaTable(path).to_pyarrow_table().num_rows == 4


@pytest.mark.parametrize("copy", [False, True])
def test_a_delta_tables_partitions_come_in(client: Client, tmp_path: Path, copy: bool) -> None:
    path, name = tmp_path / "delta", f"in.parts_{copy}"
    write_deltalake(path, pa.table({"id": [1, 2, 3], "note": ["a b", "x/y", None]}), partition_by=["note"])
    client.import_files(name, str(path), create=True, copy=copy)
    with client.snapshot() as snapshot:
        assert snapshot.to_arrow(name).sort_by("id")["note"].to_pylist() == ["a b", "x/y", None]


def test_an_iceberg_table_comes_in_at_its_current_snapshot(client: Client, tmp_path: Path) -> None:
    memory = pytest.importorskip("pyiceberg.catalog.memory")
    catalog = memory.InMemoryCatalog("c", warehouse=tmp_path.as_uri())
    catalog.create_namespace("air")
    table = catalog.create_table("air.flights", rows(1).schema)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.delete("id = 2")
    path = path_of(table.location())
    before = content(path)
    client.import_files("in.iceberg", str(path), create=True)
    assert ids(client, "in.iceberg") == [1, 3]
    assert content(path) == before


def test_keys_of_files_are_looked_at(client: Client, lake: Path) -> None:
    client.create_table("in.keyed", "id bigint, note string", primary_key=["id"])
    client.write(rows(4), "in.keyed")
    with pytest.raises(InvalidArgument, match=r"'id' is NOT NULL|keys are in"):
        client.import_files("in.keyed", str(nulls(lake)))
    with pytest.raises(AlreadyExists, match=r"keys are in in\.keyed already"):
        client.import_files("in.keyed", str(lake))
    client.delete_where("in.keyed", "id = 4")
    client.import_files("in.keyed", str(lake))
    client.upsert("in.keyed", rows(1))
    assert ids(client, "in.keyed") == [1, 2, 3, 4, 5]


def nulls(lake: Path) -> Path:
    directory = lake.parent / "nulls"
    directory.mkdir()
    pq.write_table(pa.table({"id": pa.array([None], pa.int64()), "note": ["x"]}), directory / "x.parquet")
    return directory


def test_files_of_a_table_of_the_cluster_are_not_taken(client: Client, lake: Path) -> None:
    client.import_files("in.own", str(lake), create=True)
    client.write(rows(6), "in.own")
    location = path_of(client.table("in.own").location)
    for path in (location, location.parent, next(location.rglob("*.parquet")).parent):
        with pytest.raises(InvalidArgument, match="lie one in the other"):
            client.import_files("in.own", str(path))


def test_it_is_a_command_too(cluster: LocalCluster, client: Client, lake: Path) -> None:
    command = ["table", "import", "in.told", str(lake), "--create", "--cluster", cluster.addresses]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert ids(client, "in.told") == [1, 2, 3, 4, 5]
    again = [*command[:-3], "--cluster", cluster.addresses]
    result = CliRunner().invoke(app, again)
    assert (result.exit_code, "came in before: 2 files" in result.output) == (0, True), result.output
    assert len(json.loads(CliRunner().invoke(app, [*again, "--json"]).output)["passed_over"]) == 2
    assert ids(client, "in.told") == [1, 2, 3, 4, 5]


def test_times_as_spark_writes_them_are_instants(client: Client, tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    times = [datetime(2013, 1, 1, 5, 0, 0, 123456), None, datetime(3000, 1, 1), datetime(1582, 10, 14)]
    data = pa.table({"id": [1, 2, 3, 4], "t": pa.array(times, pa.timestamp("us"))})
    pq.write_table(data, tmp_path / "spark" / "x.parquet", use_deprecated_int96_timestamps=True)
    assert pq.read_metadata(tmp_path / "spark" / "x.parquet").schema.column(1).physical_type == "INT96"
    for name, copy in (("in.int96", False), ("in.int96_copy", True)):
        client.import_files(name, str(tmp_path / "spark"), create=True, copy=copy)
        assert client.table(name).schema.columns[1].type == "timestamp"
        expected = [each and each.replace(tzinfo=UTC) for each in times]
        noon = pa.scalar(expected[0], pa.timestamp("us", "UTC"))
        with client.snapshot() as snapshot:
            assert snapshot.to_arrow(name).sort_by("id")["t"].to_pylist() == expected
            assert snapshot.to_arrow(name, ["id"], where=pc.field("t") == noon)["id"].to_pylist() == [1]
            found = snapshot.to_duckdb(name).filter("t > TIMESTAMPTZ '2500-01-01 00:00:00+00'").project("id")
            assert found.fetchall() == [(3,)]
        client.update_where(name, {"id": "id + 10"}, "t < TIMESTAMP '2000-01-01'")
        client.optimize(name, sort_by=["id"])
        with client.snapshot() as snapshot:
            assert snapshot.to_arrow(name).sort_by("id")["t"].to_pylist() == expected
            assert sorted(snapshot.to_arrow(name)["id"].to_pylist()) == [1, 2, 3, 14]
