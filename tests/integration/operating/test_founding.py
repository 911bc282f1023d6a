"""Clusters of one name: each is told from every other by what was drawn when it was founded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txnclient import TxnState
from txndeploy.local.cluster import LocalCluster
from txnstatus.errors import InvalidArgument, TxnError

TABLE = "air.flights"


@pytest.fixture(scope="module")
def a(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("a"), nodes=1) as cluster:
        yield cluster


def test_a_token_is_good_for_its_own_cluster_only(a: LocalCluster, tmp_path: Path) -> None:
    """Both were called `local`, and both had a transaction 0: the token of one wrote into the other's."""
    with fast_cluster(tmp_path / "b", nodes=1) as b, connect(a) as here, connect(b) as there:
        token = here.begin("of a").token()
        begun = there.begin("of b")
        assert here.cluster_id != there.cluster_id
        assert {each.cluster_id.partition(".")[0] for each in (here, there)} == {"local"}
        with pytest.raises(InvalidArgument) as caught:
            there.join(token)
        assert here.cluster_id in caught.value.message
        assert there.cluster_id in caught.value.message
        begun.abort()


def test_nothing_of_an_old_handle_reaches_a_cluster_that_was_founded_anew(tmp_path: Path) -> None:
    """An old handle committed the transaction of its number in the new cluster."""
    with fast_cluster(tmp_path, nodes=1) as cluster:
        old = connect(cluster, timeout=10)
        old.create_table(TABLE, SCHEMA)
        with old.transaction() as first:
            first.write(rows(1), TABLE)
        handle = old.begin(keepalive_millis=500)
        idle = connect(cluster, timeout=10)
        snapshot = old.snapshot()
    shutil.rmtree(tmp_path / "n1" / "data")
    with fast_cluster(tmp_path, nodes=1) as cluster, connect(cluster) as new:
        new.create_table(TABLE, SCHEMA, location=(tmp_path / "warehouse" / "anew").as_uri())
        begun = [new.begin() for _ in range(handle.id + 1)]
        begun[handle.id].write(rows(2), TABLE)
        for act in (
            handle.commit,
            handle.state,
            lambda: handle.abort("it is over"),
            lambda: handle.write(rows(3), TABLE),
            lambda: snapshot.to_arrow(TABLE),
            old.begin,
            old.tables,
        ):
            with pytest.raises(TxnError) as caught:
                act()
            assert isinstance(caught.value, InvalidArgument), (act, caught.value)
            assert old.cluster_id in caught.value.message
            assert new.cluster_id in caught.value.message
        assert idle.begin().state() is TxnState.OPEN, "whoever had met nobody is with whoever is there"
        assert {txn.state() for txn in begun} == {TxnState.OPEN}
        begun[handle.id].commit()
        assert visible(new, TABLE) == [[2]]
    old.close()
    idle.close()


def test_a_node_with_the_data_of_another_cluster_takes_no_part(tmp_path: Path) -> None:
    with fast_cluster(tmp_path / "other") as other, connect(other) as client:
        elsewhere = client.cluster_id
        client.create_table(TABLE, SCHEMA)
    with fast_cluster(tmp_path / "mine") as mine, connect(mine) as client:
        own = client.cluster_id
        client.create_table(TABLE, SCHEMA)
        mine.stop_node("n3")
        shutil.rmtree(tmp_path / "mine" / "n3" / "data")
        shutil.copytree(tmp_path / "other" / "n3" / "data", tmp_path / "mine" / "n3" / "data")
        mine.start_node("n3")
        log = mine.log_path("n3")
        wait_until(lambda: f"of cluster '{elsewhere}'" in log.read_text() or elsewhere in log.read_text(), "a refusal")
        with client.transaction() as txn:
            txn.write(rows(1), TABLE)
        assert client.cluster_id == own
        assert visible(client, TABLE) == [[1]]
