"""Records what this release writes: `python -m tests.recorded NAME` makes NAME.tar.gz here, of what a node has on disk.

It is run once for a release, and never again for the same name: what was recorded is what is out there.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa

import txnclient
from tests.recorded import HERE, summary
from txnclient import Client
from txndeploy.backup import recovering, taking
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import RaftSection, TxnSection

RAFT = RaftSection(snapshot_entries=60, segment_bytes=16_384)
"""A snapshot in the middle, and several segments after it."""
TXN = TxnSection(staleness_interval_ms=0, retention_ms=3_600_000, row_flush_bytes=1 << 20)


def main(name: str) -> None:
    target = HERE / f"{name}.tar.gz"
    if target.exists():
        sys.exit(f"{target} is there: what was recorded stays")
    with tempfile.TemporaryDirectory(prefix="recorded-") as made:
        directory = Path(made)
        with LocalCluster(
            directory, nodes=1, participant_shards=2, groups=2, raft=RAFT, txn=TXN, compactor=False, secure=False
        ) as cluster:
            with txnclient.connect(cluster.addresses, owner="ada") as client:
                _fill(client)
                taking.take(client, directory / "backup")
            cluster.stop_node("n1")
        data = directory / "n1" / "data"
        with recovering.opened(data) as found:
            told = json.dumps(summary(found), indent=1, sort_keys=True).encode()
        with tarfile.open(target, "x:gz") as archive:
            archive.add(data, "data", filter=lambda each: None if each.name.endswith("/lock") else each)
            archive.add(directory / "backup", "backup")
            info = tarfile.TarInfo("summary.json")
            info.size = len(told)
            archive.addfile(info, io.BytesIO(told))


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array([1] * len(ids), pa.int32())})


def _fill(client: Client) -> None:
    """Something of each kind of state that there is."""
    client.create_table("air.flights", "id bigint, day int", partition_by=["day"])
    client.create_table("air.keyed", "id bigint, day int", primary_key=["id"], placement="group-1")
    client.create_table("air.gone", "id bigint, day int")
    client.create_table("air.locked", "id bigint, day int", conflicts="wait", properties={"compact_delta_num": 7})
    for number in range(30):
        with client.transaction(f"load {number}") as txn:
            txn.write(_rows(number), "air.flights")
            txn.upsert("air.keyed", _rows(number, number + 1))
    with client.transaction("overwrites") as txn:
        txn.write(_rows(7), "air.flights", "overwrite")
        txn.mark("source", {"offset": 17}, expected=None)
    with client.transaction("deletes") as txn:
        txn.delete("air.keyed", _rows(3))
    client.savepoint("monday", keep=None)
    client.alter_table("air.flights", add="note string")
    client.drop_table("air.gone")
    client.place_database("marketing", "group-1")
    client.abort(client.begin("was aborted").id, "because")
    held = client.begin("holds a lock", keepalive_millis=60_000)
    held.lock("air.locked", "X")
    opened = client.begin("is open", keepalive_millis=60_000)
    opened.write(_rows(100), "air.flights")


if __name__ == "__main__":
    main(*sys.argv[1:])
