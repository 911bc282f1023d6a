"""Session: how a client reaches its cluster, and what all that it makes shares."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from google.protobuf.message import Message

from txnclient.alive.heartbeat import Heartbeats, keep_alive
from txnclient.alive.leases import renew
from txnclient.calls.channel import RETRIES, ManagerChannel
from txnclient.calls.requests import build, checked_id
from txnclient.info import TableInfo, placed_info
from txnclient.staying import Staying
from txnstatus.errors import Unavailable
from txnstatus.proto import admin_pb2 as admin_pb
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

ResponseT = TypeVar("ResponseT", bound=Message)

TURN_SECONDS = 5.0
LAST_SECONDS = 0.05
"""The least that a call has where those before it have taken all the time."""


class Conversation(Protocol):
    """Statements of SQL one after the other, as `Client.sql_session` says."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def sql(self, script: str, args: Mapping[str, Any] | None = None) -> pa.Table:
        """Runs statements, with `;` between them, one after the other, and returns the rows of the last one."""
        ...

    def close(self) -> None:
        """Rolls back what was begun and not committed. Idempotent."""
        ...


class SqlEngine(Protocol):
    """SQL in programs without Spark, which stands on all that a session makes: so whoever connects gives it."""

    def alone(self, client: Any, script: str, args: Mapping[str, Any] | None, label: str) -> pa.Table:
        """As `Client.sql` says."""
        ...

    def within(self, txn: Any, script: str, args: Mapping[str, Any] | None) -> pa.Table:
        """As `Transaction.sql` says."""
        ...

    def session(self, client: Any, label: str) -> Conversation:
        """As `Client.sql_session` says."""
        ...


class Session(Staying):
    """Safe to use from many threads."""

    instead = "send the cluster's addresses, and connect there; a transaction goes as txn.token(), to be joined"

    def __init__(
        self, channel: ManagerChannel, owner: str, timeout: float, lock_timeout: float, engine: SqlEngine
    ) -> None:
        """`timeout`: the seconds that a call has, unless it says another. `lock_timeout`: of a wait for locks."""
        self.engine = engine
        self.addresses = channel.addresses
        self.owner = owner
        self.timeout = timeout
        """Seconds that a call has which does not say another time."""
        self.lock_timeout = lock_timeout
        self.channel = channel
        self.heartbeats = Heartbeats(keep_alive(self.channel, owner), "txn-heartbeats")
        """Heartbeats of the transactions."""
        self.leases = Heartbeats(renew(self.channel), "txn-leases")
        """Renewals of what snapshots read."""

    def __repr__(self) -> str:
        return f"<Session with {', '.join(self.addresses)}>"

    def close(self) -> None:
        self.heartbeats.close()
        self.leases.close()
        self.channel.close()

    def require_open(self) -> None:
        """Raises IllegalState once it is closed."""
        self.channel.require_open()

    def call(
        self,
        method: str,
        request: Message,
        response: type[ResponseT],
        *,
        timeout: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> ResponseT:
        """One call to any living manager. Raises TxnError."""
        timeout = self.timeout if timeout is None else timeout
        return self.channel.call(method, request, response, timeout=timeout, on_repeat=on_repeat)

    def within(self, seconds: float) -> Session:
        """The same session, for calls that have so many seconds all together."""
        return _Hurried(self, seconds)

    def turn_seconds(self, timeout: float | None = None) -> float:
        """How long a call with that deadline may wait on the server: it answers before it is taken for one that hangs.

        What takes longer asks again and again.
        """
        return min(TURN_SECONDS, self.channel.attempt_seconds(self.timeout if timeout is None else timeout) / 2)

    @property
    def cluster_id(self) -> str:
        """The id of the cluster that this session is with, from the first answer on: asked for if none came yet.

        Raises Unavailable where the cluster is not founded within the session's timeout.
        """
        deadline, asked = time.monotonic() + self.timeout, 0
        while not self.channel.cluster_id:
            answer = self.call("txnstatus.Admin/GetCluster", admin_pb.GetClusterRequest(), admin_pb.GetClusterResponse)
            self.channel.adopt(answer.catalog.cluster_id)
            asked += 1
            pause = RETRIES.pause(asked, random.random())
            if not self.channel.cluster_id and time.monotonic() + pause > deadline:
                raise Unavailable(
                    f"the cluster at {', '.join(self.addresses)} was not founded within {self.timeout:g} s",
                    hint="a majority of the nodes that have the status role found it; see that they run",
                )
            if not self.channel.cluster_id:
                self.channel.pause(pause)
        return self.channel.cluster_id

    def last_commit(self) -> Timestamp:
        """The last commit's timestamp: all that was acknowledged before this call is at or below it."""
        response = self.call("txnstatus.TxnManager/GetSnapshot", pb.GetSnapshotRequest(), pb.GetSnapshotResponse)
        return Timestamp(response.timestamp)

    def record(self, txn_id: int) -> common.TxnInfo:
        """What the status table knows of a transaction. Raises NotFound, InvalidArgument."""
        request = build(pb.GetTransactionStateRequest, txn_id=checked_id(txn_id))
        return self.call("txnstatus.TxnManager/GetTransactionState", request, pb.GetTransactionStateResponse).txn

    def records(self, request: status_pb.ListTransactionsRequest) -> Iterator[common.TxnInfo]:
        """What the status table knows of all transactions that are asked for, the newest first."""
        while True:
            answer = self.call("txnstatus.Admin/ListTransactions", request, status_pb.ListTransactionsResponse)
            yield from answer.txns
            if not answer.more:
                return
            request.ClearField("below")
            request.below.extend(answer.next)

    def table(self, name: str) -> TableInfo:
        """Raises NotFound."""
        request = build(table_pb.GetTableRequest, name=name)
        answer = self.call("txnstatus.Table/GetTable", request, table_pb.GetTableResponse)
        return placed_info(answer)


class _Hurried(Session):
    """A session whose calls that do not say another time have one together. What a program does between them, and calls
    that do say, come on top.
    """

    def __init__(self, session: Session, seconds: float) -> None:
        self.__dict__ |= session.__dict__
        self.timeout = seconds

    def call(
        self,
        method: str,
        request: Message,
        response: type[ResponseT],
        *,
        timeout: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> ResponseT:
        began = time.monotonic()
        try:
            return super().call(method, request, response, timeout=timeout, on_repeat=on_repeat)
        finally:
            if timeout is None:
                self.timeout = max(LAST_SECONDS, self.timeout - (time.monotonic() - began))
