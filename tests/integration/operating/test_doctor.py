"""`txnctl doctor` on a real cluster: it finds what is planted, mends what is safe, and harms nothing under way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import url2pathname

import pytest
from typer.testing import CliRunner

from tests.support import FAST_TXN, commit_until_known, connect, fast_cluster, rows, visible, wait_until
from txnclient import Client, DataDamaged, TxnAborted, TxnState
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.programs import Programs
from txnstatus.lake import manifest
from txnstatus.proto import audit_pb2
from txnstatus.rpc.errors import from_detail

SCHEMA = "id bigint, note string"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("doctor")) as cluster:
        yield cluster


@pytest.fixture
def client(running: LocalCluster) -> Iterator[Client]:
    with connect(running) as connected:
        yield connected


def examine(cluster: LocalCluster, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what it said."""
    result = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--json", *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.output)


def found(said: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(each["kind"], each["where"], each["what"]) for each in said["findings"] if each["severity"] != "note"}


@dataclass
class Place:
    """A table's, on this machine's storage."""

    client: Client
    table: str

    @property
    def path(self) -> Path:
        return Path(url2pathname(self.client.table(self.table).location.removeprefix("file://")))

    def directories(self) -> list[Path]:
        return sorted(path for path in self.path.iterdir() if path.is_dir())

    def plant(self, name: str, file: str = "part-0.parquet") -> Path:
        directory = self.path / name
        directory.mkdir(parents=True)
        (directory / file).write_bytes(b"left over")
        return directory


@pytest.fixture
def place(client: Client, request: pytest.FixtureRequest) -> Place:
    """The place of a table with two commits."""
    table = f"d.{request.node.name.replace('[', '_').replace(']', '')[5:45]}"
    client.create_table(table, SCHEMA)
    for number in (1, 2):
        with client.transaction() as txn:
            txn.write(rows(number), table)
    return Place(client, table)


def ended(client: Client, table: str) -> int:
    """A transaction that was aborted on the table."""
    txn = client.begin()
    txn.write(rows(99), table)
    txn.abort()
    wait_until(lambda: client.get(txn.id).state is TxnState.ABORTED, "all have heard of the abort", 20)
    return txn.id


def test_damage_is_found_and_named(running: LocalCluster, client: Client, place: Place) -> None:
    assert examine(running, "--table", place.table)[0] == 0
    first, second = place.directories()
    (data,) = first.glob("*.parquet")
    data.write_bytes(data.read_bytes() + b"x")
    (second / "_manifest.json").write_text("{}")
    code, said = examine(running, "--table", place.table)
    assert code == 1
    assert found(said) == {
        ("wrong size", place.table, first.name),
        ("damaged manifest", place.table, second.name),
    }
    data.unlink()
    (second / "_manifest.json").unlink()
    code, said = examine(running, "--table", place.table, "--fix")
    assert code == 1
    assert found(said) == {
        ("missing file", place.table, first.name),
        ("missing manifest", place.table, second.name),
    }


def test_rot_is_found_by_reading_everything(running: LocalCluster, client: Client, place: Place) -> None:
    """Nothing but the content tells: one bit of each file is another one."""
    files = sorted(place.path.glob("*/*.parquet"))
    for file in files:
        data = bytearray(file.read_bytes())
        data[len(data) // 3] ^= 4
        file.write_bytes(data)
    assert examine(running, "--table", place.table)[0] == 0
    code, said = examine(running, "--table", place.table, "--deep")
    assert code == 1
    assert found(said) == {("damaged file", place.table, file.as_uri()) for file in files}
    assert any(line.startswith("all of 2 data files") for line in said["seen"])
    with client.snapshot() as snapshot, pytest.raises(DataDamaged, match=f"table {place.table}: file://.* is damaged"):
        snapshot.to_arrow(place.table)
    client.truncate(place.table)
    client.write(rows(7), place.table)


def test_what_a_begin_has_claimed_is_left_alone(running: LocalCluster, client: Client, place: Place) -> None:
    with client.transaction(tables=[place.table]) as txn:
        written = place.plant(f"delta_{txn.id}_write0001")
        whole = place.plant(f"delta_{txn.id}_write0002", "_manifest.json")
        code, said = examine(running, "--table", place.table, "--fix", "--whole-writes")
        assert (code, found(said)) == (0, set())
        assert written.exists()
        assert whole.exists()


def test_what_is_nobodys_is_mended(running: LocalCluster, client: Client, place: Place) -> None:
    txn_id = ended(client, place.table)
    orphan = place.plant(f"delta_{txn_id}_lateTask0001")
    flush = place.plant("delta_rows0123456789abcdef", "changes.parquet")
    whole = place.plant(f"delta_{txn_id}_lateTask0002", "_manifest.json")
    stray = place.plant("notes", "readme.txt")
    unknown = place.plant("delta_987654321_lateTask0003")
    kinds = {
        "orphan": [orphan.name, flush.name, unknown.name],
        "whole write": [whole.name],
        "stray": [stray.name],
    }
    expected = {(kind, place.table, name) for kind, names in kinds.items() for name in names}
    code, said = examine(running, "--table", place.table)
    assert (code, found(said)) == (1, expected)
    mending = {each["what"]: each["mending"] for each in said["findings"]}
    assert "--fix" in mending[orphan.name]
    assert "does not know whether transaction 987654321 is over" in mending[unknown.name]
    assert orphan.exists()

    code, said = examine(running, "--table", place.table, "--fix")
    assert code == 1, "not all of it was mended"
    assert {each["what"] for each in said["findings"] if each["mended"]} == {orphan.name, flush.name}
    wait_until(lambda: not orphan.exists() and not flush.exists(), "the cleaner has removed what was adopted", 30)
    code, said = examine(running, "--table", place.table, "--fix", "--whole-writes")
    assert {each["what"] for each in said["findings"] if each["mended"]} == {whole.name}
    wait_until(lambda: not whole.exists(), "the whole write is removed, too", 30)
    shutil.rmtree(stray)
    shutil.rmtree(unknown)
    code, said = examine(running, "--table", place.table)
    assert (code, said["findings"], said["not_seen"]) == (0, [], [])
    assert visible(client, place.table) == [[1, 2]]


def test_a_whole_write_of_another_table_is_left_alone(running: LocalCluster, client: Client, place: Place) -> None:
    """Another cluster's table, or one that was here before, may have had this place."""
    whole = place.plant(f"delta_{ended(client, place.table)}_lateTask0001", "_manifest.json")
    manifest.write(whole.as_uri(), [], table_id="9.9", txn_id=1, write_id="lateTask0001")
    _, said = examine(running, "--table", place.table, "--fix", "--whole-writes")
    (finding,) = said["findings"]
    assert not finding["mended"]
    assert "it was written for table 9.9" in finding["mending"]


def test_tables_in_one_place_are_told_apart(running: LocalCluster, client: Client, place: Place) -> None:
    location = client.table(place.table).location
    twin, inner = f"{place.table}_twin", f"{place.table}_inner"
    for name, where in ((twin, location), (inner, f"{location}/below")):
        client.create_table(name, SCHEMA, location=where)
        with client.transaction() as txn:
            txn.write(rows(7), name)
    orphan = place.plant(f"delta_{ended(client, twin)}_lateTask0001")
    for name in (place.table, inner):
        code, said = examine(running, "--table", name, "--fix")
        kinds = {each["kind"] for each in said["findings"]}
        assert (code, kinds) == (1, {"shared location", "orphan"} if name == place.table else {"shared location"})
        assert not any(each["mended"] for each in said["findings"])
    assert orphan.exists()
    assert visible(client, place.table, twin, inner) == [[1, 2], [7], [7]]


def test_nothing_that_is_in_use_can_be_adopted(client: Client, place: Place) -> None:
    info = client.table(place.table)
    open_txn = client.begin()
    open_txn.write(rows(3), place.table)
    names = [path.name for path in place.directories()]
    assert len(names) == 3
    request = audit_pb2.AdoptDirectoriesRequest(table_id=info.table_id, names=[*names, "..", "delta_1_", "x/y"])
    answer = client.call("txnstatus.Audit/AdoptDirectories", request, audit_pb2.AdoptDirectoriesResponse)
    codes = [from_detail(result.error).code for result in answer.results]
    assert codes == ["ILLEGAL_STATE"] * 3 + ["INVALID_ARGUMENT"] * 3
    commit_until_known(open_txn)
    assert visible(client, place.table) == [[1, 2, 3]]


def test_storage_that_is_not_here_is_no_finding(running: LocalCluster, client: Client, place: Place) -> None:
    place.path.rename(place.path.with_name("elsewhere"))
    code, said = examine(running, "--table", place.table)
    assert (code, said["findings"]) == (2, [])
    assert "does not exist here" in said["not_seen"][0]


def test_what_cannot_be_asked_is_named(running: LocalCluster) -> None:
    result = CliRunner().invoke(app, ["doctor", "--cluster", "127.0.0.1:1", "--timeout", "0.5"])
    assert result.exit_code == 2
    assert "not looked at" in result.output
    assert examine(running, "--table", "d.nothing")[0] == 2


# ---- under load

UNHARMED = {"node silent", "no leader", "replica behind", "stuck transaction"}
"""What kills explain."""


class Load(Programs):
    """Programs that write files to two tables and rows to a third, and abort every third transaction."""

    def __init__(self, cluster: LocalCluster, programs: int = 2) -> None:
        super().__init__(programs)
        self.committed: list[int] = []
        self.errors: list[BaseException] = []
        self._cluster = cluster
        self._programs = programs

    def run(self, program: int) -> None:
        number = program
        try:
            with connect(self._cluster, timeout=30) as client:
                while not self.ended.is_set():
                    if self._transact(client, number):
                        self.committed.append(number)
                    number += self._programs
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.errors.append(error)

    @staticmethod
    def _transact(client: Client, number: int) -> bool:
        txn = client.begin()
        try:
            for table in ("d.one", "d.two"):
                txn.write(rows(number), table)
            txn.upsert("d.keyed", rows(number))
            if number % 3 == 2:
                txn.abort()
                return False
            commit_until_known(txn)
        except TxnAborted:  # it expired, while there was no leader
            return False
        return True

    def more(self, count: int) -> None:
        goal = len(self.committed) + count
        wait_until(lambda: self.errors or len(self.committed) >= goal, f"{count} more commits", 90)
        assert not self.errors


def test_a_load_with_a_kill_leaves_nothing_behind_and_fixes_harm_nothing(tmp_path: Path) -> None:
    txn = FAST_TXN.model_copy(update={"zombie_grace_seconds": 5.0})
    with fast_cluster(tmp_path, txn=txn) as cluster, connect(cluster) as client:
        for name in ("d.one", "d.two"):
            client.create_table(name, SCHEMA)
        client.create_table("d.keyed", SCHEMA, primary_key=["id"])
        with Load(cluster) as load:
            load.more(5)
            victim = cluster.leader()
            cluster.kill(victim)
            said = examine(cluster, "--fix", "--whole-writes", "--timeout", "30")[1]
            assert {kind for kind, _, _ in found(said)} <= UNHARMED, said
            cluster.start_node(victim)
            load.more(5)
            said = examine(cluster, "--fix", "--whole-writes", "--timeout", "30")[1]
            assert {kind for kind, _, _ in found(said)} <= UNHARMED, said
        assert not load.errors
        cluster.wait_ready()
        code, said = examine(cluster)
        assert code == 0, said
        expected = sorted(load.committed)
        assert visible(client, "d.one", "d.two", "d.keyed") == [expected, expected, expected]


def test_a_dead_node_and_a_lost_majority_are_named(tmp_path: Path) -> None:
    with fast_cluster(tmp_path) as cluster, connect(cluster) as client:
        client.create_table("d.one", "id bigint")
        victims = [node for node in cluster.configs if node != "n1"]
        cluster.kill(victims[0])
        code, said = examine(cluster, "--timeout", "5")
        assert (code, found(said)) == (1, {("node silent", victims[0], "")})
        cluster.kill(victims[1])
        code, said = examine(cluster, "--timeout", "1")
        assert code == 2
        assert {where for kind, where, _ in found(said) if kind == "no leader"} == {
            "catalog", "group-0",
        }  # fmt: skip
        assert any(line.startswith("shard-0, with its tables") for line in said["not_seen"])


def test_a_transaction_that_does_not_end_says_for_whom_it_waits(tmp_path: Path) -> None:
    environment = {"TXN_FAILPOINTS": "shard.before.FinalizeCommit=error"}
    with fast_cluster(tmp_path, environment=environment, groups=4) as cluster, connect(cluster) as client:
        client.create_table("d.one", SCHEMA)
        txn = client.begin()
        txn.write(rows(1), "d.one")
        commit_until_known(txn)
        code, said = examine(cluster, "--stuck-seconds", "0.1")
        assert (code, found(said)) == (1, {("stuck transaction", f"transaction {txn.id}", "")})
        assert "waits for d.one, where it is COMMIT_IN_PROGRESS" in said["findings"][0]["story"]
        assert examine(cluster)[0] == 0
