"""This project as a contender: a cluster of three node processes, and the calls a client makes."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib.metadata import version
from itertools import starmap
from pathlib import Path

import txnclient
from benchmarks.suite.model import OURS, Contender, Settings
from benchmarks.suite.processes import needs, slow_disk
from txnclient import Client
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import RaftSection, TxnSection
from txnstatus.proto import table_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.channel import PeerChannel
from txnstatus.schema import Column, Schema
from txnstatus.types import DECIDED_COMMIT, TxnState

PREFIX = "txnstatus-bench-"
"""Directories of data have it, so that what an interrupted run leaves is known."""
STATUS = "status-0"
MANAGER = "txnstatus.TxnManager"
OWNER = "benchmark"
TABLES = ("bench.first", "bench.second")
COLUMNS = {"id": "bigint", "note": "string"}
CALL_SECONDS = 30.0
COMMIT_WAIT_MS = 20_000


class OurCluster(Contender):
    """Three nodes with default settings, and no compactions. What is done with them is up to the subclass."""

    name = OURS

    def __init__(self, settings: Settings, txn: TxnSection | None = None, groups: int = 1) -> None:
        self.settings = settings
        self._txn = txn
        self._groups = groups
        self._cluster: LocalCluster | None = None

    @property
    def cluster(self) -> LocalCluster:
        assert self._cluster is not None, "it was not started"
        return self._cluster

    def missing(self) -> str | None:
        return needs("strace") if self.settings.fsync_ms else None

    def version(self) -> str:
        return f"txnstatus {version('txnstatus')}"

    def start(self, directory: Path) -> None:
        launcher = slow_disk(self.settings.fsync_ms)
        self._cluster = LocalCluster(
            directory / "cluster", txn=self._txn, groups=self._groups, launcher=launcher, compactor=False, secure=False
        )
        self._cluster.start()
        with txnclient.connect(self._cluster.addresses) as client:
            for table in TABLES:
                client.create_table(table, COLUMNS)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None

    def pids(self) -> Mapping[str, Sequence[int]]:
        """The leader is that of the status table."""
        leader = self.cluster.leader(self.status_group())
        others = [self.cluster.pid(node) for node in self.cluster.configs if node != leader]
        return {"leader": [self.cluster.pid(leader)], "followers": others}

    def connected(self) -> AbstractAsyncContextManager[PeerChannel]:
        """A stream to the leader."""
        return connected(self.leader_address())

    def leader_address(self) -> str:
        return self.cluster.address(self.cluster.leader(self.status_group()))

    def status_group(self) -> str:
        """The group of the status range that is at work."""
        return STATUS


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[PeerChannel]:
    channel = PeerChannel(address)
    try:
        yield channel
    finally:
        await channel.close()


@contextmanager
def running(
    txn: TxnSection | None = None,
    raft: RaftSection | None = None,
    launcher: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    *,
    secure: bool = False,
) -> Iterator[tuple[LocalCluster, Client]]:
    """Three nodes without a table, and a client of theirs; their data goes with them."""
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as directory,
        LocalCluster(
            Path(directory) / "cluster",
            txn=txn,
            raft=raft,
            launcher=launcher,
            environment=environment,
            compactor=False,
            secure=secure,
        ) as cluster,
        txnclient.connect(cluster.addresses, timeout=60, credentials=cluster.credentials) as client,
    ):
        yield cluster, client


async def transact(channel: PeerChannel, tables: Sequence[str] = TABLES) -> None:
    """Begin, with two tables as participants and a first write on each; commit, acknowledged and visible."""
    txn, _ = await begin_writing(channel, tables)
    await commit(channel, txn)


async def create_table(channel: PeerChannel, name: str) -> None:
    schema = Schema(tuple(starmap(Column, COLUMNS.items()))).to_wire()
    request = table_pb2.CreateTableRequest(name=name, schema=schema, request_id=uuid.uuid4().hex)
    await channel.call("txnstatus.Table/CreateTable", request, table_pb2.CreateTableResponse, CALL_SECONDS)


async def begin(channel: PeerChannel, keepalive_millis: int = 0) -> int:
    """0 = the server's default."""
    (txn,) = await begin_many(channel, 1, keepalive_millis)
    return txn


async def begin_writing(
    channel: PeerChannel, tables: Sequence[str], write_id: str = ""
) -> tuple[int, Sequence[table_pb2.OpenWriteResponse]]:
    """A transaction that begins with a first write on each of the tables, and what opening these answers."""
    writes = [pb.FirstWrite(table=table, write_id=write_id or uuid.uuid4().hex) for table in tables]
    request = pb.BeginTransactionRequest(
        request_id=uuid.uuid4().hex, owner=OWNER, first_writes=writes, near="".join(tables[:1])
    )
    answer = await channel.call(f"{MANAGER}/BeginTransaction", request, pb.BeginTransactionResponse, CALL_SECONDS)
    return answer.txn_ids[0], answer.first_writes


async def begin_many(channel: PeerChannel, count: int, keepalive_millis: int = 0) -> Sequence[int]:
    request = pb.BeginTransactionRequest(
        request_id=uuid.uuid4().hex, owner=OWNER, count=count, keepalive_millis=keepalive_millis
    )
    answer = await channel.call(f"{MANAGER}/BeginTransaction", request, pb.BeginTransactionResponse, CALL_SECONDS)
    return answer.txn_ids


async def open_write(
    channel: PeerChannel, txn: int, table: str, write_id: str | None = None
) -> table_pb2.OpenWriteResponse:
    request = table_pb2.OpenWriteRequest(txn_id=txn, owner=OWNER, table=table, write_id=write_id or uuid.uuid4().hex)
    return await channel.call("txnstatus.Table/OpenWrite", request, table_pb2.OpenWriteResponse, CALL_SECONDS)


def appended(txn: int, table: str, write_id: str, ref: table_pb2.ManifestRef) -> table_pb2.AddFilesRequest:
    """An append of what the manifest lists."""
    return table_pb2.AddFilesRequest(
        txn_id=txn, owner=OWNER, table=table, write_id=write_id, mode=table_pb2.APPEND, manifest=ref
    )


async def commit(channel: PeerChannel, txn: int, last_writes: Sequence[table_pb2.AddFilesRequest] = ()) -> None:
    """With what it writes last, as the client library does. Raises RuntimeError for another outcome."""
    request = pb.CommitTransactionRequest(txn_id=txn, owner=OWNER, wait_millis=COMMIT_WAIT_MS, last_writes=last_writes)
    answer = await channel.call(f"{MANAGER}/CommitTransaction", request, pb.CommitTransactionResponse, CALL_SECONDS)
    if TxnState(answer.txn.state) not in DECIDED_COMMIT:
        raise RuntimeError(f"transaction {txn} did not commit: {TxnState(answer.txn.state).name}")


async def state(channel: PeerChannel, txn: int) -> TxnState:
    request = pb.GetTransactionStateRequest(txn_id=txn)
    answer = await channel.call(f"{MANAGER}/GetTransactionState", request, pb.GetTransactionStateResponse, CALL_SECONDS)
    return TxnState(answer.txn.state)
