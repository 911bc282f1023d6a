"""Tables in groups of their own, against real nodes: placed when they are made, and in groups that come later."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import txnclient
from tests import blocks
from tests.support import SCHEMA, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import AlreadyExists, Client, IllegalState, InvalidArgument, NotFound, Transaction
from txnclient.sparksql.scopes import Alone
from txnclient.transaction.beginning import begin
from txndeploy.ctl import commands
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import from_wire, status_group
from txnstatus.proto import admin_pb2
from txnstatus.types import TxnId

KEY = ["id"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("placed"), participant_shards=2, groups=2) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected


def entries(cluster: LocalCluster) -> dict[str, int]:
    """How many each group has committed."""
    wait_until(lambda: settled(cluster), "all is applied everywhere")
    status = cluster.status("n1")
    assert status is not None
    return {group.group: group.commit_index for group in status.groups}


def test_a_table_is_where_it_was_placed_for_every_manager(cluster: LocalCluster, client: Client) -> None:
    for group in ("group-0", "group-1"):
        for number in range(4):
            name = f"placed.t{group[-1]}_{number}"
            assert client.create_table(name, SCHEMA, primary_key=KEY, placement=group).placement == group
            client.insert(name, rows(number))
    for node in cluster.configs:
        with txnclient.connect(cluster.address(node)) as other:
            found = {table.name for table in other.tables()}
            for group in ("group-0", "group-1"):
                for number in range(4):
                    name = f"placed.t{group[-1]}_{number}"
                    assert name in found
                    assert other.table(name).placement == group
                    assert visible(other, name) == [[number]]


def test_a_placement_that_cannot_be_is_refused(client: Client) -> None:
    for wrong in ("group-7", "catalog", "n1"):
        with pytest.raises(InvalidArgument, match=r"group-0, group-1"):
            client.create_table("wrong.t", SCHEMA, placement=wrong)
    with pytest.raises(NotFound):
        client.table("wrong.t")
    names = [f"wrong.t{number}" for number in range(8)]
    for name in names:
        client.create_table(name, SCHEMA, placement="group-1")
        with pytest.raises(AlreadyExists):
            client.create_table(name, SCHEMA, placement="group-0")
        for placement in ("group-0", None):  # where it is, an operator may have said since
            there = client.create_table(name, SCHEMA, placement=placement, if_not_exists=True)
            assert there.placement == "group-1"
        client.drop_table(name)
    for name in names:
        with pytest.raises(IllegalState, match="stays there"):
            client.create_table(name, SCHEMA, placement="group-0")
        with pytest.raises(InvalidArgument, match=r"group-0, group-1"):  # it was told where the name is placed
            client.create_table(name, SCHEMA, placement="group-7")
        assert client.create_table(name, SCHEMA).placement == "group-1", "a name stays where it was placed"


def test_a_database_says_where_its_new_tables_are(client: Client) -> None:
    for group in ("group-1", "group-0"):
        client.place_database("whole", group)
        for number in range(4):
            assert client.create_table(f"whole.t{group[-1]}_{number}", SCHEMA).placement == group
        assert client.placements()["whole"] == group
    with pytest.raises(InvalidArgument, match="group-0, group-1"):
        client.place_database("whole", "group-9")
    client.place_database("whole", None)
    assert "whole" not in client.placements()
    spread = {client.create_table(f"whole.any{number}", SCHEMA).placement for number in range(16)}
    assert spread == {"group-0", "group-1"}


@pytest.mark.parametrize(("group", "other"), [("group-0", "group-1"), ("group-1", "group-0")])
def test_a_transaction_of_one_group_is_two_entries_there_and_none_elsewhere(
    cluster: LocalCluster, client: Client, group: str, other: str
) -> None:
    one, two = (client.create_table(f"near.{name}{group[-1]}", SCHEMA, placement=group).name for name in ("a", "b"))
    client.write_all({one: rows(1), two: rows(1)})
    before = entries(cluster)
    client.write_all({one: rows(2), two: rows(3)})
    after = entries(cluster)
    assert after[other] == before[other]
    assert after[group] - before[group] <= 4, "begin, two tables' files side by side, commit"
    assert visible(client, one, two) == [[1, 2], [1, 3]]


def test_what_is_about_a_table_begins_in_its_group(client: Client, tmp_path: Path) -> None:
    name = client.create_table("about.t", SCHEMA, placement="group-1").name
    first = client.write(rows(1), name)
    for directory in ("copied", "taken"):
        (tmp_path / directory).mkdir()
        pq.write_table(client.snapshot().to_arrow(name), tmp_path / directory / "a.parquet")
    receipts = {
        "a copying import": client.import_files(name, str(tmp_path / "copied"), copy=True),
        "an import": client.import_files(name, str(tmp_path / "taken")),
    }
    receipts["an undo"] = client.undo(receipts["a copying import"].txn_id)
    receipts["a restore"] = client.restore(first.commit_timestamp, [name])
    with client.transaction(tables=iter([name])) as txn:
        txn.write(rows(2), name)
    assert txn.receipt is not None
    receipts["one that names it"] = txn.receipt
    with Alone(client, client.last_commit()).opening("a statement of Spark's", name) as statement:
        assert isinstance(statement, Transaction)
        statement.write(rows(3), name)
        receipts["a statement of Spark's"] = statement.commit()
    answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    state = from_wire(answer.catalog)
    for what, receipt in receipts.items():
        assert state.group_of(status_group(state.range_of(TxnId(receipt.txn_id)))) == "group-1", what


def test_a_begin_that_comes_again_finds_what_it_began_in_another_group(cluster: LocalCluster, client: Client) -> None:
    """An automatic commit begins near its table. Once its outcome is not known, the call with its id is near none, or
    the table's shard may be in another group by then."""
    name = client.create_table("again.t", SCHEMA, placement="group-1").name
    used = uuid.uuid4().hex
    (first,), _ = begin(client.session, 1, "auto-commit", 0, used, near=name, alone=True)
    first.write(rows(1), name)
    first.commit()
    (again,), begun_before = begin(client.session, 1, "auto-commit", 0, used, near="", is_retry=True)
    assert (again.id, begun_before) == (first.id, True)
    client.write(rows(1), name, request_id=used)
    assert visible(client, name) == [[1]], "it writes nothing twice"


def test_a_begin_that_comes_again_finds_what_it_began_before_the_shard_moved(tmp_path: Path) -> None:
    with (
        fast_cluster(tmp_path, nodes=1, participant_shards=4, groups=2) as cluster,
        connect(cluster, timeout=60) as client,
    ):
        name = client.create_table("again.t", SCHEMA, placement="group-1").name
        used, shard = uuid.uuid4().hex, int(client.table(name).table_id.split(".")[0])
        (first,), _ = begin(client.session, 1, "moved", 0, used, near=name)
        for group in ("group-0", "group-1"):
            order = admin_pb2.MigrateShardRequest(shard=shard, group=group)
            client.call("txnstatus.Admin/MigrateShard", order, admin_pb2.MigrateShardResponse)
            wait_until(lambda group=group: client.table(name).placement == group, f"{name} is in {group}")
            (again,), begun_before = begin(client.session, 1, "moved", 0, used, near=name, is_retry=True)
            assert (again.id, begun_before) == (first.id, True), group
        first.abort()


def test_transactions_of_all_groups_are_listed_by_the_times_of_their_begins(client: Client) -> None:
    tables = [client.create_table(f"listed.t{group}", SCHEMA, placement=f"group-{group}").name for group in (0, 1)]
    begun = [client.write(rows(number), tables[int(group)]).txn_id for number, group in enumerate("1100101")]
    assert [txn.txn_id for txn in client.transactions(limit=len(begun))] == begun[::-1]


def test_a_transaction_that_spans_groups_is_visible_in_both_or_in_none(client: Client) -> None:
    here, there = (
        client.create_table(f"span.t{group}", SCHEMA, primary_key=KEY, placement=f"group-{group}").name
        for group in (0, 1)
    )
    client.insert(here, rows(1))
    with client.transaction(tables=[there]) as txn:
        txn.insert(here, rows(2))
        txn.insert(there, rows(2))
    assert visible(client, here, there) == [[1, 2], [2]]
    loses = client.begin(tables=[here])
    loses.upsert(here, rows(3))
    loses.upsert(there, rows(3))
    client.upsert(there, rows(3))
    with pytest.raises(Exception, match="was first"):
        loses.commit()
    assert visible(client, here, there) == [[1, 2], [2, 3]]


def test_savepoints_hold_tables_wherever_these_are_and_whoever_is_asked(cluster: LocalCluster, client: Client) -> None:
    tables = [client.create_table(f"held.t{n}", SCHEMA, placement=f"group-{n % 2}").name for n in range(6)]
    client.write_all({name: rows(1) for name in tables})
    for node in cluster.configs:
        with txnclient.connect(cluster.address(node)) as other:
            other.savepoint(f"by {node}", tables)
    client.write_all({name: rows(2) for name in tables}, mode="overwrite")
    for node in cluster.configs:
        seen = client.snapshot(at=f"by {node}")
        assert [seen.to_arrow(name)["id"].to_pylist() for name in tables] == [[1]] * len(tables)
        client.release_savepoint(f"by {node}")
    assert visible(client, *tables) == [[2]] * len(tables)


def test_tables_are_placed_in_a_group_that_is_added_and_stay_there(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, participant_shards=2) as running:
        with connect(running) as client:
            client.create_table("old.t", SCHEMA)
            client.write(rows(1), "old.t")
            waiting = client.begin()
            waiting.write(rows(2), "old.t")
            for line in blocks.block("docs/operations.md", "txnctl group add").splitlines():
                words = shlex.split(line, comments=True)[1:]
                assert CliRunner().invoke(commands.app, [*words, "--cluster", running.addresses]).exit_code == 0
            waiting.commit()
            listed = CliRunner().invoke(commands.app, ["database", "list", "--json", "--cluster", running.addresses])
            assert json.loads(listed.output) == {"databases": [{"database": "marketing", "group": "group-1"}]}
            said = CliRunner().invoke(commands.app, ["table", "show", "old.t", "--cluster", running.addresses])
            assert "old.t is in group-0" in said.output
            assert client.create_table("marketing.t", SCHEMA).placement == "group-1"
            client.write(rows(5), "marketing.t")
            before = entries(running)
            client.write(rows(6), "marketing.t")
            after = entries(running)
            assert after["group-0"] == before["group-0"], "its transactions begin in its own group"
            client.write_all({"old.t": rows(7), "marketing.t": rows(7)})
        for node in running.configs:
            running.kill(node)
        running.start()
        with connect(running) as client:
            assert visible(client, "old.t", "marketing.t") == [[1, 2, 7], [5, 6, 7]]
            assert client.table("marketing.t").placement == "group-1"
