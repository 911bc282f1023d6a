"""Records what this release writes: `python -m tests.recorded NAME` makes NAME.tar.gz here, of what a node has on disk.

It is run once for a release, and never again for the same name: what was recorded is what is out there.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import tarfile
import tempfile
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

import txnclient
from tests.recorded import FRAMES, HERE, summary
from txnclient import Client
from txnclient.compact.worker import Worker
from txndeploy.backup import recovering, taking
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import RaftSection, TxnSection
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CATALOG
from txnstatus.catalog.reserving import Reservation
from txnstatus.proto import admin_pb2, rpc_pb2
from txnstatus.proto.catalog_pb2 import CatalogState
from txnstatus.rpc.channel import PeerChannel

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
            frames: list[bytes] = []
            with txnclient.connect(cluster.addresses, owner="ada") as client:
                _listen(client, frames)
                _fill(client)
                _fill_level_2(client)
                asyncio.run(_fill_level_3(cluster.addresses))
                taking.take(client, directory / "backup")
            cluster.stop_node("n1")
        data = directory / "n1" / "data"
        with recovering.opened(data) as found:
            told = json.dumps(summary(found), indent=1, sort_keys=True).encode()
        with tarfile.open(target, "x:gz") as archive:
            archive.add(data, "data", filter=lambda each: None if each.name.endswith("/lock") else each)
            archive.add(directory / "backup", "backup")
            for name_in, content in (("summary.json", told), (FRAMES, b"".join(frames))):
                info = tarfile.TarInfo(name_in)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def _listen(client: Client, frames: list[bytes]) -> None:
    """Notes what the client and the node say to each other: a line a call."""
    connections = client.session.channel.connections
    call = connections.call

    def noted(address: str, method: str, request: bytes, *more: Any) -> rpc_pb2.Reply:
        reply = call(address, method, request, *more)
        said = {"method": method, "request": request.hex(), "reply": reply.SerializeToString().hex()}
        frames.append(json.dumps(said).encode() + b"\n")
        return reply

    connections.call = noted  # type: ignore[method-assign]


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


def _fill_level_2(client: Client) -> None:
    """What came with the second level; and what is beside data files: rows that are dead, and were moved."""
    client.create_table("air.kept", "id bigint, day int")
    client.write(_rows(1, 2, 3, 4), "air.kept")
    client.write(_rows(5, 6), "air.kept")
    with client.transaction("kills rows") as txn:
        txn.delete_where("air.kept", "id in (2, 5)")
    client.compact("air.kept", kind="major", wait=False)
    assert Worker(client.session, "records", threading.Event(), "air.kept").run_once()
    with client.transaction("kills moved rows") as txn:
        txn.delete_where("air.kept", "id = 3")
    client.rename_table("air.kept", "air.renamed")
    set_option = admin_pb2.SetOptionRequest(name="user_open_transactions", value=500)
    client.call("txnstatus.Admin/SetOption", set_option, admin_pb2.SetOptionResponse)
    set_limit = admin_pb2.SetLimitRequest(identity="bob", name="user_open_transactions", value=7)
    client.call("txnstatus.Admin/SetLimit", set_limit, admin_pb2.SetLimitResponse)
    joins = admin_pb2.AddNodeRequest(node_id="n2", address="127.0.0.1:9", roles=["manager"])
    client.call("txnstatus.Admin/AddNode", joins, admin_pb2.AddNodeResponse)
    client.call("txnstatus.Admin/RemoveNode", admin_pb2.RemoveNodeRequest(node_id="n2"), admin_pb2.RemoveNodeResponse)
    drains = admin_pb2.DrainNodeRequest(node_id="n1", drain="LEADS_NOTHING")
    client.call("txnstatus.Admin/DrainNode", drains, admin_pb2.DrainNodeResponse)
    client.call("txnstatus.Admin/Rebalance", admin_pb2.RebalanceRequest(), admin_pb2.RebalanceResponse)


async def _fill_level_3(address: str) -> None:
    """A table that is just about to be made."""
    wanted = Reservation("r1", "ada", "air.apart", ("file", "", "lake"), ("file", "", "mnt", "lake"))
    command = cmd.to_wire(cmd.ReservePlace(wanted))
    channel = PeerChannel(address)
    await channel.call("txnstatus.Catalog/ChangeCatalog", command, CatalogState, 5.0, CATALOG)
    await channel.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
