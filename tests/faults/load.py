"""The load: clients that begin, write, commit, abort, meddle with each other's transactions, read, and vanish.

What they do is drawn from a seed; what they are told goes into the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import threading
import traceback
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from tests.faults.history import Answer, Begin, Call, History, Kind, Scan, now
from tests.support import SCHEMA, connect, rows
from txnclient import Client, Schema
from txnclient.read.row_reads import RowChanges, latest_changes
from txnclient.token import Token
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.registering import own_version
from txnstatus import features
from txnstatus.catalog.catalog import CATALOG, from_wire
from txnstatus.errors import (
    AlreadyExists,
    CommitUnknown,
    Forgotten,
    IllegalState,
    Locked,
    NotFound,
    SnapshotTooOld,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.proto import admin_pb2, audit_pb2, catalog_pb2
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.errors import from_detail
from txnstatus.security.tls import Tls
from txnstatus.types import DECIDED_ABORT, AbortCause, Timestamp, TxnId, TxnState
from txnstatus.wire import cause_from_wire

WORKERS = 8
CALL_SECONDS = (0.4, 4.0, 4.0)
"""What clients wait for one call at most; the impatient ones get to know the unknown outcome."""
COMMIT_WAIT_SECONDS = 2.0
WRITES_PER_PAIR = 120
SHORT_KEEPALIVE_MS = 700
LOCKING = 0.2
"""The part of the transactions that write for which all others that lock must wait."""
BY_ROW = 0.3
"""The part of the transactions that write which inserts rows; the others add files."""
GOING_BACK = 0.2
"""The part of the transactions that write which writes, goes back to a savepoint, and writes the same again."""
ROW_BYTES = 2_000
"""Bytes of a row: with so many, the rows of a dozen transactions are flushed."""
REMEMBERED = 30
"""Transactions that others may meddle with: few, so that calls on one of them overlap."""
_TXN_OF_FILES = re.compile(r"/delta_(\d+)_")

ACTIONS = {
    "empty": 16,
    "write": 27,
    "overwrite": 3,
    "meddle": 25,
    "begin twice": 5,
    "commit twice": 5,
    "vanish": 3,
    "scan": 10,
    "create": 2,
    "option": 1,
    "levels": 1,
    "foreign": 1,
    "adopt": 2,
}
"""What a client does next, and how often of 100."""


class Load:
    """Runs from `start` to `stop`; an exception in a client is a problem of the history."""

    def __init__(self, cluster: LocalCluster, seed: int, workers: int = WORKERS) -> None:
        self.history = History()
        self._cluster = cluster
        section = next(iter(cluster.configs.values())).tls
        self._node = section.open() if section else None
        self._stop = threading.Event()
        self._recent: deque[TxnId] = deque(maxlen=REMEMBERED)
        self._snapshots: deque[tuple[Timestamp, tuple[str, str]]] = deque(maxlen=REMEMBERED)
        self._pairs: list[tuple[str, str]] = []
        self._writes = 0
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(random.Random(f"{seed}/{number}"),), name=f"client {number}")
            for number in range(workers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), f"{thread.name} does not end"

    @property
    def commits(self) -> int:
        return len(self.history.acknowledged)

    @property
    def unexpected(self) -> Sequence[str]:
        return self.history.unexpected

    def counts(self) -> Counter[str]:
        return self.history.count()

    @property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """The tables that were written to, two by two: each transaction writes to both of a pair."""
        return self._pairs

    def _work(self, dice: random.Random) -> None:
        with connect(self._cluster, timeout=dice.choice(CALL_SECONDS)) as connected:
            client = Recorder(connected, self.history, self._node)
            while not self._stop.is_set():
                action = dice.choices(list(ACTIONS), list(ACTIONS.values()))[0]
                try:
                    self._actions[action](self, client, dice)
                except (Unavailable, TxnAborted):
                    continue  # of a call that is no part of the history, such as creating a table
                except Exception as error:  # noqa: BLE001
                    story = "".join(traceback.format_exception(error))
                    self.history.unexpected.append(f"a client ended in {action!r}:\n{story}")
                    return

    # ---- what a client does

    def _empty(self, client: Recorder, dice: random.Random) -> None:
        txn_id = client.begin()
        if txn_id is not None:
            self._share(txn_id, dice)
            self._end(client, txn_id, dice)

    def _write(self, client: Recorder, dice: random.Random) -> None:
        txn_id = client.begin()
        if txn_id is None:
            return
        by_row, goes_back = dice.random() < BY_ROW, dice.random() < GOING_BACK
        lock = dice.random() < LOCKING
        if client.write(txn_id, self._pair(client), lock=lock, by_row=by_row, goes_back=goes_back):
            self._share(txn_id, dice)
            self._end(client, txn_id, dice)
        else:
            client.abort(txn_id)

    def _overwrite(self, client: Recorder, _dice: random.Random) -> None:
        """Overwrites a table of the thread's own, so that it meets no conflict; what it replaces is retired soon."""
        table = f"load.own_{threading.current_thread().name.removeprefix('client ')}"
        client.create_table(table)
        txn_id = client.begin()
        if txn_id is not None and client.overwrite(txn_id, table):
            client.commit(txn_id)

    def _meddle(self, client: Recorder, dice: random.Random) -> None:
        with self._lock:
            if not self._recent:
                return
            txn_id = dice.choice(self._recent)
        act = dice.choices([client.state, client.keep_alive, client.commit, client.abort], [60, 20, 10, 10])[0]
        act(txn_id)

    def _begin_twice(self, client: Recorder, dice: random.Random) -> None:
        request_id = uuid.uuid4().hex
        count = dice.choice([1, 1, 1, 5])
        client.begin(request_id, count=count)
        txn_id = client.begin(request_id, count=count)
        if txn_id is not None:
            self._end(client, txn_id, dice)

    def _commit_twice(self, client: Recorder, dice: random.Random) -> None:
        txn_id = client.begin()
        if txn_id is not None and client.write(txn_id, self._pair(client)):
            client.commit(txn_id, wait_seconds=0)
            self._share(txn_id, dice)
            client.commit(txn_id)

    def _vanish(self, client: Recorder, dice: random.Random) -> None:
        txn_id = client.begin(keepalive_millis=SHORT_KEEPALIVE_MS)
        if txn_id is not None:
            if dice.random() < 0.5:
                client.write(txn_id, self._pair(client))
            else:
                self._share(txn_id, dice)

    def _scan(self, client: Recorder, dice: random.Random) -> None:
        with self._lock:
            earlier = dice.choice(self._snapshots) if self._snapshots and dice.random() < 0.3 else None
        if earlier is not None:
            client.scan(earlier[1], earlier[0])
        elif self._pairs:
            pair = dice.choice(self._pairs[-2:])
            timestamp = client.scan(pair)
            if timestamp is not None:
                with self._lock:
                    self._snapshots.append((timestamp, pair))

    def _create(self, client: Recorder, _dice: random.Random) -> None:
        """And drops it again: the name of one of a few, so that new tables come after old ones."""
        table = f"load.spare_{threading.current_thread().name.removeprefix('client ')}"
        client.create_table(table)
        client.alter_table(table)
        client.hold_and_release(table)
        client.rename_there_and_back(table)
        client.drop_table(table)

    def _option(self, client: Recorder, _dice: random.Random) -> None:
        client.set_option("max_lifetime_ms", 0)
        client.turn_ticket_key()
        client.revoke_and_restore("user/spare")
        client.limit_and_restore("alice")

    def _levels(self, client: Recorder, _dice: random.Random) -> None:
        client.say_levels("n1")

    def _foreign(self, client: Recorder, _dice: random.Random) -> None:
        client.register_and_remove_foreign("spare")

    def _adopt(self, client: Recorder, _dice: random.Random) -> None:
        with self._lock:
            pair, recent = self._pairs[-1:], list(self._recent)
        for table in pair[0] if pair else ():
            with contextlib.suppress(SnapshotTooOld):  # it was overwritten meanwhile
                client.adopt(table, recent)

    _actions: dict[str, Callable[[Load, Recorder, random.Random], None]] = {  # noqa: RUF012
        "empty": _empty,
        "write": _write,
        "overwrite": _overwrite,
        "meddle": _meddle,
        "begin twice": _begin_twice,
        "commit twice": _commit_twice,
        "vanish": _vanish,
        "scan": _scan,
        "create": _create,
        "option": _option,
        "levels": _levels,
        "foreign": _foreign,
        "adopt": _adopt,
    }

    def _end(self, client: Recorder, txn_id: TxnId, dice: random.Random) -> None:
        if dice.random() < 0.2:
            client.keep_alive(txn_id)
        if dice.random() < 0.2:
            client.abort(txn_id)
        else:
            client.commit(txn_id)

    def _share(self, txn_id: TxnId, dice: random.Random) -> None:
        if dice.random() < 0.5:
            with self._lock:
                self._recent.append(txn_id)

    def _pair(self, client: Recorder) -> tuple[str, str]:
        """The tables to write to now; new ones after a while, so that reading stays cheap."""
        with self._lock:
            self._writes += 1
            if (self._writes - 1) // WRITES_PER_PAIR >= len(self._pairs):
                number = len(self._pairs)
                pair = (f"load.one_{number}", f"load.two_{number}")
                for table in pair:
                    client.create_table(table)
                self._pairs.append(pair)
            return self._pairs[-1]


class Recorder:
    """One client's calls: makes them, and notes what came back."""

    def __init__(self, client: Client, history: History, node: Tls | None = None) -> None:
        """`node`: what a node shows, where there is TLS."""
        self._node = node
        self.client = client
        self.history = history
        self._asked: set[str] = set()

    def begin(self, request_id: str = "", *, keepalive_millis: int = 0, count: int = 1) -> TxnId | None:
        """Begins transactions; returns the first. None: nobody knows whether they were begun."""
        request_id = request_id or uuid.uuid4().hex
        request = pb.BeginTransactionRequest(
            request_id=request_id,
            owner=self.client.owner,
            keepalive_millis=keepalive_millis,
            count=count,
            is_retry=request_id in self._asked,
        )
        self._asked.add(request_id)

        def on_repeat() -> None:
            request.is_retry = True

        invoked = now()
        try:
            response = self.client.call(
                "txnstatus.TxnManager/BeginTransaction", request, pb.BeginTransactionResponse, on_repeat=on_repeat
            )
        except Unavailable:
            return None
        ids = tuple(map(TxnId, response.txn_ids))
        self.history.add(Begin(request.request_id, invoked, now(), ids, response.keepalive_millis / 1000))
        return ids[0]

    def commit(self, txn_id: TxnId, wait_seconds: float = COMMIT_WAIT_SECONDS) -> None:
        request = pb.CommitTransactionRequest(
            txn_id=txn_id, owner=self.client.owner, wait_millis=int(wait_seconds * 1000)
        )
        self._record(
            Kind.COMMIT,
            txn_id,
            lambda: (
                self.client.call("txnstatus.TxnManager/CommitTransaction", request, pb.CommitTransactionResponse).txn
            ),
        )

    def abort(self, txn_id: TxnId) -> None:
        request = pb.AbortTransactionRequest(txn_id=txn_id, owner=self.client.owner, reason="of the load")
        self._record(
            Kind.ABORT,
            txn_id,
            lambda: (
                self.client.call("txnstatus.TxnManager/AbortTransaction", request, pb.AbortTransactionResponse) and None
            ),
        )

    def state(self, txn_id: TxnId) -> None:
        self._record(Kind.STATE, txn_id, lambda: self.client.get(txn_id))

    def keep_alive(self, txn_id: TxnId) -> None:
        request = pb.KeepTransactionAliveRequest(txn_ids=[txn_id], owner=self.client.owner)

        def call() -> None:
            response = self.client.call(
                "txnstatus.TxnManager/KeepTransactionAlive", request, pb.KeepTransactionAliveResponse
            )
            for refused in response.refused:
                raise from_detail(refused.error)

        self._record(Kind.KEEP_ALIVE, txn_id, call)

    def write(
        self,
        txn_id: TxnId,
        tables: tuple[str, ...],
        *,
        lock: bool = False,
        by_row: bool = False,
        goes_back: bool = False,
    ) -> bool:
        """One row, the transaction's own id, into each table. False: nobody knows which are there."""
        self.history.attempted.add(txn_id)
        invoked = now()
        try:
            token = Token(txn_id, 1_000, False, self.client.cluster_id).to_bytes()
            txn = self.client.join(token, heartbeat=False)
            for table in tables:
                if lock:
                    txn.lock(table, "X", numretries=3)
                if goes_back:
                    txn.savepoint("before")
                for is_last in (False, True) if goes_back else (True,):
                    if by_row:
                        txn.insert(table, pa.table({"id": [txn_id], "note": ["x" * ROW_BYTES]}))
                    else:
                        txn.write(rows(txn_id), table)
                    if not is_last:
                        txn.rollback_to("before")
        except Locked:
            return False
        except (Unavailable, TxnAborted, IllegalState, Forgotten):
            self._may_have_aborted(txn_id, invoked)
            return False
        self.history.written[txn_id] = tables
        return True

    def overwrite(self, txn_id: TxnId, table: str) -> bool:
        """False: nobody knows whether it did."""
        self.history.attempted.add(txn_id)
        invoked = now()
        try:
            token = Token(txn_id, 1_000, False, self.client.cluster_id).to_bytes()
            self.client.join(token, heartbeat=False).write(rows(txn_id), table, mode="overwrite")
        except (Unavailable, TxnAborted, IllegalState, Forgotten):
            self._may_have_aborted(txn_id, invoked)
            return False
        return True

    def _may_have_aborted(self, txn_id: TxnId, invoked: float) -> None:
        """A write that failed aborts its transaction; whether that arrived, its error does not say."""
        self.history.add(Call(Kind.ABORT, txn_id, invoked, now(), Answer.UNKNOWN))

    def scan(self, tables: tuple[str, ...], timestamp: Timestamp | None = None) -> Timestamp | None:
        """Reads the tables at one snapshot, or again at an earlier one. None: it could not be read."""
        invoked = now()
        try:
            at = self.client.snapshot().timestamp if timestamp is None else timestamp
            shown = {table: self._scan_table(table, at) for table in tables}
        except Unavailable:
            return None
        self.history.add(Scan(invoked, at, shown, repeated=timestamp is not None))
        return at

    def _scan_table(self, table: str, timestamp: Timestamp) -> tuple[TxnId, ...]:
        request = table_pb.ScanRequest(table=table, timestamp=timestamp)
        response = self.client.call("txnstatus.Table/Scan", request, table_pb.ScanResponse)
        shown = [TxnId(int(_TXN_OF_FILES.findall(manifest.path)[-1])) for manifest in response.manifests]
        changes = RowChanges.of(response, timestamp, [ref.file_count for ref in response.manifests])
        if changes is not None:
            shown += latest_changes(changes, Schema.from_wire(response.table.schema))["id"].to_pylist()
        return tuple(shown)

    def create_table(self, table: str) -> None:
        """Raises Unavailable."""
        try:
            self.client.create_table(table, SCHEMA, primary_key=["id"])
        except AlreadyExists:
            return  # by a create whose answer was lost

    def alter_table(self, table: str) -> None:
        """Raises Unavailable."""
        self.client.alter_table(table, properties={"NO_AUTO_COMPACTION": True})

    def rename_there_and_back(self, table: str) -> None:
        """Where an answer was lost it may be called otherwise in between. Raises Unavailable."""
        other = f"{table}_renamed"
        for name, new_name in ((table, other), (other, table)):
            with contextlib.suppress(NotFound, Locked, IllegalState):
                try:
                    self.client.rename_table(name, new_name)
                except AlreadyExists:  # an answer was lost, and one was made by the name since: none would be renamed
                    self.drop_table(other)

    def hold_and_release(self, table: str) -> None:
        """A savepoint of the table, of the same name. Raises Unavailable."""
        # One was made and not released, or the table is there no more, or a release went on: an answer was lost.
        with contextlib.suppress(AlreadyExists, NotFound, IllegalState):
            self.client.savepoint(table, [table], keep="1h")
        with contextlib.suppress(NotFound):
            self.client.release_savepoint(table)

    def drop_table(self, table: str) -> None:
        """Raises Unavailable, TxnAborted."""
        with contextlib.suppress(CommitUnknown, Locked):
            self.client.drop_table(table, ignore_missing=True)

    def set_option(self, name: str, value: int) -> None:
        """Raises Unavailable."""
        request = admin_pb2.SetOptionRequest(name=name, value=value)
        self.client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)

    def turn_ticket_key(self) -> None:
        """Raises Unavailable."""
        method, request = "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest()
        known = self.client.call(method, request, admin_pb2.GetClusterResponse)
        turn = admin_pb2.TurnTicketKeyRequest(after=known.ticket_key)
        self.client.call("txnstatus.Admin/TurnTicketKey", turn, admin_pb2.TurnTicketKeyResponse)

    def revoke_and_restore(self, what: str) -> None:
        """Raises Unavailable."""
        for restores in (False, True):
            request = admin_pb2.DistrustRequest(what=what, restores=restores)
            self.client.call("txnstatus.Admin/Distrust", request, admin_pb2.DistrustResponse)

    def limit_and_restore(self, user: str) -> None:
        """Raises Unavailable."""
        for restores in (False, True):
            request = admin_pb2.SetLimitRequest(identity=user, name="user_lock_waits", value=7, restores=restores)
            self.client.call("txnstatus.Admin/SetLimit", request, admin_pb2.SetLimitResponse)

    def say_levels(self, node: str) -> None:
        """What holds already: the node's levels, as it says when it starts, and the cluster's. Raises Unavailable."""
        own = features.OWN
        said = catalog_pb2.CatalogCommand.RegisterNode(
            node_id=node, version=own_version(), oldest_level=own.oldest, newest_level=own.newest
        )
        asyncio.run(self._change_catalog(catalog_pb2.CatalogCommand(register_node=said)))
        raised = catalog_pb2.CatalogCommand.RaiseLevel(level=own.newest)
        asyncio.run(self._change_catalog(catalog_pb2.CatalogCommand(raise_level=raised)))

    def register_and_remove_foreign(self, name: str) -> None:
        """As its host does when it starts, and an operator when it is gone for good. Raises Unavailable."""
        place = catalog_pb2.CatalogCommand.RegisterForeign(name=name, address="127.0.0.1:1")
        command = catalog_pb2.CatalogCommand(register_foreign=place)
        with contextlib.suppress(IllegalState):  # it was removed before
            asyncio.run(self._change_catalog(command))
        request = admin_pb2.RemoveForeignRequest(name=name)
        self.client.call("txnstatus.Admin/RemoveForeign", request, admin_pb2.RemoveForeignResponse)

    async def _change_catalog(self, command: catalog_pb2.CatalogCommand) -> None:
        """Asks each node once, as one of them leads the catalog. Raises what the leader answers, or Unavailable."""
        last: TxnError = Unavailable("nobody was asked")
        cluster = self.client.call(  # those whom the client began with may have left
            "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
        )
        for node in from_wire(cluster.catalog).nodes.values():
            channel, method = PeerChannel(node.address, tls=self._node), "txnstatus.Catalog/ChangeCatalog"
            try:
                await channel.call(method, command, catalog_pb2.CatalogState, 5.0, CATALOG)
                return
            except TxnError as error:
                if not error.retriable:
                    raise
                last = error
            finally:
                await channel.close()
        raise Unavailable(last.message)

    def adopt(self, table: str, txn_ids: Sequence[TxnId]) -> None:
        """What these may have left behind, and what readers see, which is refused. Raises Unavailable."""
        info, timestamp = self.client.table(table), self.client.last_commit()
        scanned = self.client.call(
            "txnstatus.Table/Scan", table_pb.ScanRequest(table=table, timestamp=timestamp), table_pb.ScanResponse
        )
        seen = [manifest.path.split("/")[-2] for manifest in scanned.manifests]
        names = [*seen, *(f"delta_{txn_id}_late0001" for txn_id in txn_ids)]
        request = audit_pb2.AdoptDirectoriesRequest(table_id=info.table_id, names=names)
        self.client.call("txnstatus.Audit/AdoptDirectories", request, audit_pb2.AdoptDirectoriesResponse)

    def read_all(self) -> None:
        """The state of every transaction that was begun, from one listing; of one that is not listed, by asking."""
        invoked = now()
        listed = {summary.txn_id: summary for summary in self.client.transactions()}
        returned = now()
        for txn_id in sorted(self.history.ids):
            if txn_id in listed:
                self.history.add(_of_record(Kind.STATE, txn_id, invoked, returned, listed[txn_id]))
            else:
                self.state(txn_id)

    def _record(self, kind: Kind, txn_id: TxnId, act: Callable[[], Any]) -> None:
        invoked = now()
        cause = None
        try:
            record = act()
        except TxnAborted as error:
            answer, cause = Answer.ABORTED, error.cause
        except IllegalState:
            answer = Answer.ILLEGAL
        except Forgotten:
            answer = Answer.FORGOTTEN
        except NotFound:
            answer = Answer.NOT_FOUND
        except (Unavailable, CommitUnknown):
            answer = Answer.UNKNOWN
        except TxnError as error:
            self.history.unexpected.append(f"{kind} of transaction {txn_id}: {type(error).__name__}: {error.message}")
            answer = Answer.UNKNOWN
        else:
            if record is None:
                self.history.add(Call(kind, txn_id, invoked, now(), Answer.OK))
            else:
                self.history.add(_of_record(kind, txn_id, invoked, now(), record))
            return
        self.history.add(Call(kind, txn_id, invoked, now(), answer, cause=cause))


def _of_record(kind: Kind, txn_id: TxnId, invoked: float, returned: float, record: Any) -> Call:
    """A call that was answered with the record: a TxnSummary, or its wire form."""
    state = TxnState(record.state)
    cause = None
    if state in DECIDED_ABORT:
        cause = record.cause
        if not isinstance(cause, AbortCause):
            cause = cause_from_wire(cause)
    return Call(kind, txn_id, invoked, returned, Answer.STATE, state, Timestamp(record.commit_timestamp), cause)
