"""The life of two tables, wherever their files are: written, changed, cleaned, compacted and examined."""

from __future__ import annotations

from tests.integration.files.object_store import findings, ids
from tests.support import rows, wait_until
from txnclient import Client
from txndeploy.local.cluster import LocalCluster
from txnstatus.lake import storage

PLAIN, KEYED = "a.plain", "a.keyed"


def make_two_tables(client: Client) -> None:
    client.create_table(PLAIN, "id bigint, note string")
    client.create_table(KEYED, "id bigint, note string", primary_key=["id"])


def write_to_both(client: Client) -> None:
    """By two files and two manifests."""
    with client.transaction() as txn:
        txn.write(rows(1, 2), PLAIN)
        txn.write(rows(1), KEYED)


def change_and_clean(client: Client, cluster: LocalCluster, warehouse: str) -> None:
    """All that comes after that: nothing is left of what was given up, and nothing is found to be wrong."""
    assert (ids(client, PLAIN), ids(client, KEYED)) == ([1, 2], [1])
    with client.transaction() as txn:
        txn.upsert(KEYED, rows(2, 3))
    with client.transaction() as txn:
        txn.delete_where(PLAIN, "id = 1")
    assert (ids(client, PLAIN), ids(client, KEYED)) == ([2], [1, 2, 3])
    given_up = client.begin()
    given_up.write(rows(9), PLAIN)
    given_up.abort("is not wanted")
    wait_until(lambda: len(storage.tree(f"{warehouse}/a/plain") or ()) == 2, "what was aborted is removed", 60)
    client.optimize(PLAIN, sort_by=["id"])
    assert ids(client, PLAIN) == [2]
    assert findings(cluster) == ([], [])
