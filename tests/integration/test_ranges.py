"""The status table over several ranges: they come, are used at the same time, are forgotten and go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import FAST_TXN, SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txnclient import Client, Forgotten, LimitReached, NotFound, TxnState
from txndeploy.local.cluster import LocalCluster
from txndeploy.terminal.listings import catalog
from txnstatus.proto import admin_pb2

SPAN = 10
RETENTION_MS = 1_500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    txn = FAST_TXN.model_copy(update={"range_span": SPAN, "retention_ms": 3_600_000})
    with fast_cluster(tmp_path_factory.mktemp("ranges"), txn=txn) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected


def set_option(client: Client, name: str, value: int) -> None:
    request = admin_pb2.SetOptionRequest(name=name, value=value)
    client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)


def test_ranges_follow_each_other_and_are_used_at_the_same_time(cluster: LocalCluster, client: Client) -> None:
    client.create_table("r.one", SCHEMA)
    client.create_table("r.two", SCHEMA)
    begun = [client.begin(label="over ranges") for _ in range(3 * SPAN)]
    ids = [txn.id for txn in begun]
    assert ids == sorted(set(ids)), "ids are given out once, and rise"
    assert {i // SPAN for i in ids} >= {ids[0] // SPAN, ids[0] // SPAN + 1, ids[0] // SPAN + 2}
    # The newest first, so that an older range commits after a newer one.
    for number, txn in enumerate(reversed(begun)):
        before = client.snapshot()
        txn.write(rows(number), "r.one")
        txn.write(rows(number), "r.two")
        receipt = txn.commit()
        assert receipt.commit_timestamp > before.timestamp
        assert before.to_arrow("r.one").num_rows == number
    assert visible(client, "r.one", "r.two") == [list(range(3 * SPAN))] * 2
    listed = client.transactions(label="over ranges")
    assert [txn.txn_id for txn in listed] == ids[::-1]
    assert [txn.txn_id for txn in client.transactions(label="over ranges", limit=7)] == ids[:-8:-1]


def test_every_range_is_in_the_log_of_those_before_it(cluster: LocalCluster, client: Client) -> None:
    state = catalog(client)
    assert len(state.ranges) > 1
    assert {state.parts[f"status-{number}"] for number in state.ranges} == {"group-0"}
    assert len({cluster.leader(f"status-{number}") for number in state.ranges}) == 1
    assert client.get(0).state in TxnState


def test_a_range_that_is_forgotten_goes_from_its_group(cluster: LocalCluster, client: Client) -> None:
    kept = client.begin(label="kept")
    for _ in range(2 * SPAN):
        client.begin().commit()
    first = catalog(client).ranges[0]
    set_option(client, "retention_ms", RETENTION_MS)
    try:
        wait_until(lambda: catalog(client).ranges[0] > first, f"range {first} goes")
        wait_until(
            lambda: f"status-{first}" not in _parts(cluster),
            "it goes from its group's log",
        )
        with pytest.raises(Forgotten, match="forgotten"):
            client.get(first * SPAN)
        with pytest.raises(NotFound, match="unknown"):
            client.get(10**9)
        assert kept.state() is TxnState.OPEN
        assert visible(client, "r.one") == [list(range(3 * SPAN))]
        kept.write(rows(1_000), "r.one")
        kept.commit()
        assert visible(client, "r.one") == [[*range(3 * SPAN), 1_000]]
    finally:
        set_option(client, "retention_ms", 3_600_000)


def refusal_of_begins(client: Client) -> LimitReached | None:
    """Begins until one is refused."""
    begun = []
    try:
        for _ in range(2 * SPAN):
            begun.append(client.begin())
    except LimitReached as refusal:
        return refusal
    return None


def test_the_cap_on_open_transactions_refuses_clearly(client: Client) -> None:
    set_option(client, "max_open_transactions", 3)
    try:
        refusal = refusal_of_begins(client)
        assert refusal is not None
        assert "3 may be" in refusal.message
    finally:
        set_option(client, "max_open_transactions", 0)
        for txn in client.transactions([TxnState.OPEN]):
            client.abort(txn.txn_id, "the test is over")
    client.begin().abort()


def test_a_transaction_older_than_the_maximum_lifetime_expires(client: Client) -> None:
    txn = client.begin()
    set_option(client, "max_lifetime_ms", 1_000)
    try:
        wait_until(lambda: txn.state() is TxnState.ABORTED, "it expires, though it beats")
        cause = client.get(txn.id).cause
        assert cause is not None
        assert "maximum lifetime" in cause.message
    finally:
        set_option(client, "max_lifetime_ms", 0)


def _parts(cluster: LocalCluster) -> set[str]:
    """The parts of all groups, on any node."""
    statuses = [cluster.status(node) for node in cluster.configs]
    return {part for status in statuses if status for group in status.groups for part in group.parts}
