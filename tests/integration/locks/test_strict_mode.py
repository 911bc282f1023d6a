"""Strict and non-strict mode: how auto-commit inserts lock, where conflicts are settled by locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import txnclient
from tests.support import rows, visible, wait_until
from txnclient import Client, Locked
from txndeploy.ctl import commands
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import from_wire
from txnstatus.proto import admin_pb2

NewTable = Callable[..., str]
OPTION = "strict_locking_mode"


def set_mode(cluster: LocalCluster, client: Client, strict: int) -> None:
    request = admin_pb2.SetOptionRequest(name=OPTION, value=strict)
    client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)
    for address in cluster.addresses.split(","):
        with txnclient.connect(address) as node:
            wait_until(lambda node=node: mode_of(node) == strict, "every node knows")  # type: ignore[misc]


def mode_of(node: Client) -> int:
    answer = node.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    return from_wire(answer.catalog).options.strict_locking_mode


@pytest.fixture
def lenient(cluster: LocalCluster, client: Client) -> Iterator[None]:
    set_mode(cluster, client, 0)
    yield
    set_mode(cluster, client, 1)


def parted(*months: int) -> pa.Table:
    return pa.table({"id": range(len(months)), "month": pa.array(months, pa.int32())})


def test_strict_is_the_default_and_an_insert_excludes_others(client: Client, new_table: NewTable) -> None:
    table, keyed = new_table(conflicts="no-wait"), new_table(conflicts="no-wait", primary_key=["id"])
    with client.transaction() as txn:
        txn.write(rows(1), table)
        txn.insert(keyed, rows(1))
        with pytest.raises(Locked, match=f"does not get X on {table}.* holds S on {table}"):
            client.write(rows(2), table)
        with pytest.raises(Locked, match="does not get X"):
            client.insert(keyed, rows(2))
        with client.transaction() as other:  # within a transaction it shares
            other.write(rows(3), table)
    wait_until(lambda: not client.locks(table) and not client.locks(keyed), "the commits have reached the tables")
    client.write(rows(4), table)
    assert visible(client, table, keyed) == [[1, 3, 4], [1]]


def test_a_static_partition_is_locked_and_its_parents_are_shared(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int", partition_by=["month"], conflicts="no-wait")
    with client.transaction() as txn:
        txn.write(parted(1), table)
        client.write(parted(2), table, partition={"month": 2})
        with pytest.raises(Locked, match=f"does not get X on {table}/month=1"):
            client.write(parted(1), table, partition={"month": 1})
        with pytest.raises(Locked, match=f"does not get X on {table}:"):
            client.write(parted(2), table)  # which partitions, it cannot say beforehand


@pytest.mark.usefixtures("lenient")
def test_in_non_strict_mode_inserts_share(client: Client, new_table: NewTable) -> None:
    table, keyed = new_table(conflicts="no-wait"), new_table(conflicts="no-wait", primary_key=["id"])
    with client.transaction() as txn:
        txn.write(rows(1), table)
        txn.insert(keyed, rows(1))
        client.write(rows(2), table)
        client.insert(keyed, rows(2))
        with pytest.raises(Locked, match="does not get X"):
            client.write(rows(3), table, mode="overwrite")
        with client.transaction() as owner, pytest.raises(Locked):
            owner.lock(table, "X", strategy="no-wait")
    assert visible(client, table, keyed) == [[1, 2], [1, 2]]


def test_where_the_first_committer_wins_there_is_no_mode(client: Client, new_table: NewTable) -> None:
    table = new_table()
    with client.transaction() as txn:
        txn.lock(table, "X")
        client.write(rows(1), table)
    assert visible(client, table) == [[1]]


def test_a_mode_that_there_is_not(cluster: LocalCluster) -> None:
    result = CliRunner().invoke(commands.app, ["config", "set", "--cluster", cluster.addresses, OPTION, "2"])
    assert result.exit_code != 0
    assert "strict_locking_mode = 2 is out of range: 0 to 1 are possible" in " ".join(result.output.split())
