"""One node with everything on it, and what a right request to it looks like."""

from __future__ import annotations

import importlib
import pkgutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc
import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import txnclient
import txnstatus.proto
from tests.badinput.compacting import Compacting
from tests.badinput.wire import SMALL
from tests.support import FAST_RAFT, FORKS, wait_until
from txnclient.info import TableInfo
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import TxnSection
from txndeploy.node.cuts import KEPT_SECONDS
from txnstatus.catalog.catalog import CATALOG, shard_group, status_group
from txnstatus.errors import InternalError, TxnError
from txnstatus.lake.rows import to_ipc
from txnstatus.proto import admin_pb2, backup_pb2, catalog_pb2, common_pb2, table_pb2, txn_savepoint_pb2, txn_status_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.errors import from_detail
from txnstatus.rpc.grpc_server import DETAIL_KEY, GROUP_KEY, GRPC_OPTIONS

OWNER = "the-owner"
FOREIGN = "elsewhere"
"""A foreign participant, whose host is nowhere."""
CALL_SECONDS = 10.0
"""A healthy node answers sooner, whatever it is asked."""
MAX_MESSAGE_CHARACTERS = 3_000
"""An error says what is wrong; it does not send back all it got."""


@contextmanager
def one_node(directory: Path, **txn: Any) -> Iterator[World]:
    """One node, on which nothing expires: what changes, a request has changed. `txn`: more of its section [txn]."""
    section = TxnSection(staleness_interval_ms=0, zombie_grace_seconds=3600.0, in_doubt_seconds=3600.0, **txn)
    with LocalCluster(
        directory,
        nodes=1,
        participant_shards=2,
        raft=FAST_RAFT,
        txn=section,
        grpc=True,
        compactor=False,
        secure=False,
        spawn=FORKS.spawn,
    ) as cluster:
        running = World(cluster)
        yield running
        running.close()
        assert cluster.running("n1"), "the node ended"


def methods() -> Iterator[MethodDescriptor]:
    """Every unary method of every service there is, client-facing and internal."""
    for module in pkgutil.iter_modules(txnstatus.proto.__path__, "txnstatus.proto."):
        if module.name.endswith("_pb2"):
            for service in importlib.import_module(module.name).DESCRIPTOR.services_by_name.values():
                yield from (method for method in service.methods if not method.client_streaming)


TICKETS: dict[str, Callable[[], Any]] = {
    "txnstatus.TicketScope.tables": lambda: ["bad.input"],
    "txnstatus.IssueTicketRequest.seconds": lambda: 60,
}
"""What makes the fields of requests for tickets."""


@dataclass(frozen=True)
class Answer:
    response: bytes | None
    error: TxnError | None
    status: grpc.StatusCode
    made_by_grpc: bool = False


NOT_WITH_A_KEY = {f"txnstatus.AddFilesRequest.{name}" for name in ("deletes", "looked", "holds")}
"""Fields that a right request about a table with a primary key has not."""
COMMITTED = {"txnstatus.CommitTransactionRequest.last_writes"}
"""Fields that a right request has not either: their files would be in the table, and nobody has written them."""


class World:
    """A running node, with a table, and open transactions to use up."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.channel = grpc.insecure_channel(str(cluster.configs["n1"].grpc_address), options=GRPC_OPTIONS)
        self.client = txnclient.connect(cluster.addresses, owner=OWNER)
        info = self.client.create_table("bad.input", "id bigint, month int", partition_by=["month"], primary_key=["id"])
        self.table_id = info.table_id
        place = catalog_pb2.CatalogCommand.RegisterForeign(name=FOREIGN, address="127.0.0.1:1")
        command = catalog_pb2.CatalogCommand(register_foreign=place)
        assert self.send("txnstatus.Catalog/ChangeCatalog", command.SerializeToString(), group=CATALOG).error is None
        self.shard = int(info.table_id.split(".")[0])
        self.keyless = self.new_table()
        """A table without a primary key, on the same shard."""
        self.committed = self.client.begin().commit().txn_id
        self._open: list[int] = []
        self._range = 0
        """Where the transaction is that was opened last: a request may fill a range."""
        self._tables: list[TableInfo] = []
        self._cut = "", -KEPT_SECONDS

    def close(self) -> None:
        self.client.close()
        self.channel.close()

    def send(self, method: str, payload: bytes, timeout: float = CALL_SECONDS, group: str = "") -> Answer:
        call: Any = self.channel.unary_unary(f"/{method}")
        metadata = ((GROUP_KEY, group),) if group else ()
        try:
            return Answer(call(payload, timeout=timeout, metadata=metadata), None, grpc.StatusCode.OK)
        except grpc.RpcError as error:
            call = cast(grpc.Call, error)
            detail = dict(call.trailing_metadata() or ()).get(DETAIL_KEY)
            if detail is None:
                return Answer(None, InternalError(str(call.details())), call.code(), made_by_grpc=True)
            return Answer(None, from_detail(common_pb2.ErrorDetail.FromString(cast(bytes, detail))), call.code())

    def group(self, kind: str) -> str:
        """The group of a call: "" of one to the node, or the one that has what right requests are about."""
        return {"": "", "range": status_group(self._range), "shard": shard_group(self.shard), "catalog": CATALOG}[kind]

    # ---- the state

    def digest(self) -> dict[str, bytes]:
        """The digest of every group's state."""
        answer = self.send("txnstatus.Admin/GetNode", admin_pb2.GetNodeRequest(digests=True).SerializeToString())
        assert answer.response is not None, f"the node does not answer any more: {answer.error}"
        groups = admin_pb2.GetNodeResponse.FromString(answer.response).groups
        return {group.group: group.digest for group in groups}

    def quiet(self) -> dict[str, bytes]:
        """The digest once nothing is under way any more."""
        seen: list[dict[str, bytes]] = []

        def same_again() -> bool:
            seen.append(self.digest())
            return len(seen) >= 4 and seen[-4:] == [seen[-1]] * 4

        wait_until(same_again, "the node comes to rest")
        return seen[-1]

    # ---- right requests

    def request(self, method: MethodDescriptor) -> Message:
        """A right one, that has not been made before."""
        return self._fill(GetMessageClass(method.input_type)(), _Values(self))

    def open_txn(self) -> int:
        if not self._open:
            request = pb.BeginTransactionRequest(request_id=uuid.uuid4().hex, owner=OWNER, count=1_000)
            answer = self.client.call("txnstatus.TxnManager/BeginTransaction", request, pb.BeginTransactionResponse)
            # A wrong id that is somebody's would do its harm to a right request of later.
            self._open = [txn_id for txn_id in answer.txn_ids if txn_id not in SMALL]
        txn_id = self._open.pop()
        self._range = txn_id // self.cluster.configs["n1"].txn.range_span
        return txn_id

    def fill_range(self) -> None:
        """Whoever begins from now on begins in the next one."""
        request = txn_status_pb2.RaiseFloorRequest(fills=True)
        answer = self.send("txnstatus.TxnStatus/RaiseFloor", request.SerializeToString(), group=self.group("range"))
        assert answer.error is None, answer
        self._open.clear()

    def open_write(self, txn_id: int) -> str:
        """Makes the table a participant of the transaction; returns the directory."""
        write_id = uuid.uuid4().hex
        request = table_pb2.OpenWriteRequest(txn_id=txn_id, owner=OWNER, table="bad.input", write_id=write_id)
        return self.client.call("txnstatus.Table/OpenWrite", request, table_pb2.OpenWriteResponse).directory

    def open_keyless(self, txn_id: int) -> str:
        """As `open_write`, of a table without a primary key."""
        write_id = uuid.uuid4().hex
        request = table_pb2.OpenWriteRequest(txn_id=txn_id, owner=OWNER, table=self.keyless, write_id=write_id)
        return self.client.call("txnstatus.Table/OpenWrite", request, table_pb2.OpenWriteResponse).directory

    def new_table(self) -> str:
        """One that nobody else works with, on the same shard."""
        return self.client.create_table(self.new_name(), "id bigint").name

    def some_tables(self, count: int) -> Sequence[TableInfo]:
        """Tables without a primary key, on all shards: so many."""
        while len(self._tables) < count:
            self._tables.append(self.client.create_table(f"some.t{len(self._tables)}", "id bigint"))
        return self._tables[:count]

    def cut(self) -> str:
        """One that can be read; the same for some time."""
        if time.monotonic() > self._cut[1] + KEPT_SECONDS / 2:
            request, made = backup_pb2.CutClusterRequest(), time.monotonic()
            answer = self.client.call("txnstatus.Backups/CutCluster", request, backup_pb2.CutClusterResponse)
            self._cut = answer.cut_id, made
        return self._cut[0]

    def new_name(self) -> str:
        """A table's name that the shard of right requests keeps."""
        return next(name for name in iter(lambda: f"bad.t{uuid.uuid4().hex}", "") if self.keeps(name))

    def keeps(self, name: str) -> bool:
        """Whether that shard has all that is called so."""
        return zlib.crc32(name.encode()) % self.cluster.configs["n1"].participant_shards == self.shard

    def _fill(self, message: Message, values: _Values) -> Message:
        for field in message.DESCRIPTOR.fields:
            if field.full_name in NOT_WITH_A_KEY | COMMITTED:
                continue
            value = values.of(field)
            if value is not None:
                if isinstance(value, Message):
                    getattr(message, field.name).CopyFrom(value)
                elif field.is_repeated:
                    getattr(message, field.name).extend(value)
                else:
                    setattr(message, field.name, value)
            elif field.type == FieldDescriptor.TYPE_MESSAGE and not field.message_type.GetOptions().map_entry:
                part = getattr(message, field.name)
                inner = part.add() if field.is_repeated else part
                inner.SetInParent()
                self._fill(inner, values)
        return message


GRANTS: Mapping[str, Callable[[], Any]] = {
    **{f"txnstatus.{name}Request.object": lambda: "bad" for name in ("Grant", "Revoke", "ShowGrants")},
    "identity": lambda: "alice",
    "txnstatus.SetLimitRequest.name": lambda: "user_lock_waits",
    "role": lambda: "reader",
}
"""What makes the fields of grants and limits."""


class _Values:
    """What stands in the fields of one right request: by the field's full name, or by its name alone.

    A field that is not here stays unset, which a right request may do with any field that is new.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._txn_id: int | None = None
        self._directory = self._doomed = self._renamed = self._savepoint = ""
        self._makers: dict[str, Callable[[], Any]] = {
            "txn_id": self.txn_id,
            "txn_ids": lambda: [self.txn_id()],
            "owner": lambda: OWNER,
            "request_id": lambda: uuid.uuid4().hex,
            "label": lambda: "bad input",
            "reason": lambda: "because",
            "keepalive_millis": lambda: 5_000,
            "count": lambda: 1,  # more have no first writes
            "shard": lambda: world.shard,
            "table": lambda: "bad.input",
            "table_id": lambda: world.table_id,
            "participant_id": lambda: world.table_id,
            "write_id": self.write_id,
            "location": lambda: None,
            "states": lambda: ["OPEN"],
            "timestamp": lambda: world.client.snapshot().timestamp,
            # Of a table without a primary key: its directory is claimed.
            "txnstatus.FirstWrite.table": lambda: world.keyless,
            "txnstatus.FirstWrite.write_id": lambda: uuid.uuid4().hex,
            # Committed: nobody who waits for its outcome waits long.
            "txnstatus.GetTransactionStateRequest.txn_id": lambda: world.committed,
            "txnstatus.ParticipantOp.type": self.prepare,
            # An option for which whatever is legal does no harm.
            "txnstatus.SetOptionRequest.name": lambda: "keepalive_max_ms",
            "txnstatus.SetOptionRequest.value": lambda: 3_600_000,
            "txnstatus.GetTableRequest.name": lambda: "bad.input",
            "txnstatus.CreateTableRequest.name": world.new_name,
            "txnstatus.ParticipantInfo.name": lambda: "bad.input",
            "txnstatus.CreateTableRequest.schema": lambda: common_pb2.TableSchema(
                columns=[common_pb2.Column(name=name, type="bigint") for name in ("id", "month")],
                partition_by=["month"],
                primary_key=["id"],
            ),
            "txnstatus.ScanRequest.txn_id": self.writer,
            "txnstatus.AddFilesRequest.manifest": self.manifest,
            "txnstatus.AddFilesRequest.claim": lambda: table_pb2.KeyClaim(
                snapshot=world.client.snapshot().timestamp, keys=[b"1"]
            ),
            "txnstatus.RequestCompactionRequest.kind": lambda: "COMPACTION_MAJOR",
            "txnstatus.TableProperty.name": lambda: "compact_delta_num",
            "txnstatus.TableProperty.value": lambda: "20",
            # What the column has already.
            "txnstatus.ColumnChange.name": lambda: "month",
            "txnstatus.ColumnChange.comment": lambda: "of the year",
            "txnstatus.ColumnChange.after": lambda: "id",
            "txnstatus.PlaceDatabaseRequest.database": lambda: "bad",
            "worker": lambda: "a worker",
            "lease_id": lambda: "a lease",
            "compaction_id": lambda: "major0000000000000001",
            "txnstatus.WriteRowsRequest.change": lambda: "ROW_UPSERT",
            "txnstatus.WriteRowsRequest.snapshot": lambda: world.client.snapshot().timestamp,
            "txnstatus.WriteRowsRequest.rows": lambda: to_ipc(
                pa.table({"id": pa.array([1, 2], pa.int64()), "month": pa.array([1, 2], pa.int32())})
            ),
            "txnstatus.LockRequest.txn_id": self.locker,
            "txnstatus.DropTableRequest.txn_id": self.dropper,
            "txnstatus.DropTableRequest.table": self.doomed,
            "txnstatus.EnlistRequest.participant": lambda: FOREIGN,
            "txnstatus.CreateSavepointRequest.savepoint_id": self.savepoint,
            "txnstatus.CreateSavepointRequest.name": self.savepoint,
            "txnstatus.ReleaseSavepointRequest.name": lambda: "a savepoint",
            "txnstatus.LockRequest.mode": lambda: "LOCK_S",
            "txnstatus.LockRequest.partitions": lambda: ["month=1"],
            **(self.savepoints() | self.renames() | self.cuts() | GRANTS | TICKETS | Compacting(world).makers()),
        }

    def of(self, field: FieldDescriptor) -> Any:
        maker = self._makers.get(field.full_name) or self._makers.get(field.name)
        return maker() if maker else None

    def savepoint(self) -> str:
        """The id, and the name, of one that is made."""
        if not self._savepoint:
            self._savepoint = uuid.uuid4().hex
        return self._savepoint

    def txn_id(self) -> int:
        if self._txn_id is None:
            self._txn_id = self._world.open_txn()
        return self._txn_id

    def write_id(self) -> str:
        self._directory = self._directory or self._world.open_write(self.txn_id())
        return self._directory.rpartition("_")[2]

    def writer(self) -> int:
        """Takes part with the table, so that it is somebody's."""
        self.write_id()
        return self.txn_id()

    def savepoints(self) -> dict[str, Callable[[], Any]]:
        """What makes the fields of savepoints of transactions."""

        def table_ids() -> list[str]:
            return [self._world.table_id]

        return {
            "txnstatus.SetSavepointRequest.txn_id": self.writer,
            "txnstatus.RollbackToRequest.txn_id": self.saver,
            "txnstatus.SetSavepointRequest.savepoint_id": self.savepoint,
            "txnstatus.RollbackToRequest.savepoint_id": self.savepoint,
            "rollback_id": lambda: uuid.uuid4().hex,
            "table_ids": table_ids,
            "held_by": table_ids,
            "void": lambda: [uuid.uuid4().hex],
        }

    def cuts(self) -> dict[str, Callable[[], Any]]:
        """What makes the fields of cuts through all groups."""
        return {
            "cut_id": self._world.cut,
            "txnstatus.ReadCutRequest.group": lambda: CATALOG,
            "txnstatus.ReadCutRequest.node_id": lambda: "n1",
        }

    def saver(self) -> int:
        """Has the savepoint."""
        txn_id = self.writer()
        request = txn_savepoint_pb2.SetSavepointRequest(
            txn_id=txn_id, owner=OWNER, savepoint_id=self.savepoint(), table_ids=[self._world.table_id]
        )
        self._world.client.call("txnstatus.TxnSavepoints/SetSavepoint", request, txn_savepoint_pb2.SetSavepointResponse)
        return txn_id

    def locker(self) -> int:
        """Has its participants already, so that a refusal leaves everything as it is."""
        txn_id = self.txn_id()
        request = table_pb2.LockRequest(txn_id=txn_id, owner=OWNER, table="bad.input", mode="LOCK_S")
        self._world.client.call("txnstatus.Table/Lock", request, table_pb2.LockResponse)
        return txn_id

    def doomed(self) -> str:
        self._doomed = self._doomed or self._world.new_table()
        return self._doomed

    def renames(self) -> dict[str, Callable[[], Any]]:
        """What makes the fields of a rename."""
        return {
            "txnstatus.RenameTableRequest.table": self.renamed,
            "txnstatus.RenameTableRequest.new_name": self._world.new_name,
            "txnstatus.RenameTableRequest.table_id": lambda: self._world.client.table(self.renamed()).table_id,
        }

    def renamed(self) -> str:
        self._renamed = self._renamed or self._world.new_table()
        return self._renamed

    def dropper(self) -> int:
        """Holds the table's lock, as a drop must."""
        txn_id = self.txn_id()
        request = table_pb2.LockRequest(txn_id=txn_id, owner=OWNER, table=self.doomed(), mode="LOCK_X")
        self._world.client.call("txnstatus.Table/Lock", request, table_pb2.LockResponse)
        return txn_id

    def manifest(self) -> Message:
        self.write_id()
        path = f"{self._directory}/_manifest.json"
        return table_pb2.ManifestRef(
            path=path, bytes=10, crc32=1, file_count=1, row_count=1, data_bytes=1, partitions=["month=1"]
        )

    def prepare(self) -> str:
        self.write_id()
        return "BEGIN_COMMIT"
