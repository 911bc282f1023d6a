"""Client: a connection to a cluster, made by `txnclient.connect`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Self, TypeVar, overload

from google.protobuf.message import Message

from txnclient.calls.requests import build, checked_id, checked_seconds
from txnclient.calls.traces import TxnTrace
from txnclient.client import explaining, participants
from txnclient.client.auto_commit import AutoCommit
from txnclient.client.explaining import Explanation
from txnclient.client.granting import Granting
from txnclient.client.importing import Importing
from txnclient.client.optimizing import Optimizing
from txnclient.client.participants import ParticipantSummary
from txnclient.client.placing import Placing
from txnclient.client.running import Running
from txnclient.client.speaking import Speaking
from txnclient.client.streaming import Streaming
from txnclient.compact.asking import Compacting
from txnclient.history.savepoints import Savepoints, instant
from txnclient.info import TxnSummary, txn_summary
from txnclient.read import instants
from txnclient.session import Session
from txnclient.showing import Shown, facts
from txnclient.snapshot import Snapshot
from txnclient.staying import Staying
from txnclient.token import Token
from txnclient.transaction.beginning import begin
from txnclient.transaction.transaction import Transaction
from txnclient.write.locks import LockInfo, shown
from txnstatus.errors import InvalidArgument
from txnstatus.limits import MAX_BEGIN_COUNT
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.tracing import spans
from txnstatus.types import Timestamp, TxnState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ResponseT = TypeVar("ResponseT", bound=Message)


class Client(
    AutoCommit,
    Compacting,
    Optimizing,
    Placing,
    Granting,
    Savepoints,
    Importing,
    Speaking,
    Streaming,
    Running,
    Staying,
):
    """Safe to use from many threads."""

    instead = Session.instead

    def __repr__(self) -> str:
        return f"<Client of {', '.join(self.session.addresses)}>"

    def _repr_html_(self) -> str:
        """The client as a notebook shows it: nobody is asked for that."""
        cluster = self.session.channel.cluster_id
        return facts("Client", {"addresses": self.session.addresses, "owner": self.owner, "cluster": cluster})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends its heartbeats too: what is still open then expires, and what was read may be removed."""
        self.session.close()
        if spans.tracer is not None:
            spans.tracer.flush()

    # ---- transactions

    def begin(self, label: str = "", *, keepalive_millis: int = 0, tables: Iterable[str] = ()) -> Transaction:
        """Begins a transaction. `keepalive_millis` 0: the server's default; it is aborted when silent for longer.

        `tables`: up to 100 to whose files it is going to write: the begin makes them participants, and opens the first
        write on each, which then takes a call and a durable round less. Nothing has to come of it. The transaction is
        in the group of the first of them.

        Raises InvalidArgument; NotFound for a table that does not exist; Overloaded when too many are open.
        """
        return begin(self.session, 1, label, keepalive_millis, uuid.uuid4().hex, tables=tables)[0][0]

    def begin_many(self, count: int, label: str = "", *, keepalive_millis: int = 0) -> list[Transaction]:
        """Begins `count` transactions, 1 to 1,000, in one call; each is its own, they share nothing but the label.

        Raises InvalidArgument, and Overloaded when too many are open.
        """
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_BEGIN_COUNT:
            raise InvalidArgument(
                f"cannot begin {count!r} transactions in one call: 1 to {MAX_BEGIN_COUNT} may be begun"
            )
        return begin(self.session, count, label, keepalive_millis, uuid.uuid4().hex)[0]

    def transaction(self, label: str = "", *, keepalive_millis: int = 0, tables: Iterable[str] = ()) -> Transaction:
        """For `with`: commits when the block ends, aborts when it raises. Otherwise as `begin`."""
        return self.begin(label, keepalive_millis=keepalive_millis, tables=tables)

    def join(self, token: bytes, *, heartbeat: bool | None = None) -> Transaction:
        """The transaction of a token, to write in it from another process, or to ask what became of it.

        `heartbeat` None: as the token says, which is no unless it was asked for. One that is being committed or is over
        takes no writes, and says so; `state`, `is_commit_complete` and `commit` tell its outcome.

        Raises InvalidArgument for a token that is no token, or is for another cluster; NotFound, Forgotten.
        """
        parsed = Token.from_bytes(token)
        if parsed.cluster_id != self.cluster_id:
            raise InvalidArgument(
                f"the token is for cluster {parsed.cluster_id!r}; this is cluster {self.cluster_id!r}",
                hint="connect to the cluster on which the transaction was begun",
            )
        is_traced = spans.tracer is not None and spans.is_context(parsed.trace)
        trace = TxnTrace(self.session.channel.traces, parsed.txn_id, parsed.trace) if is_traced else None
        found = self.get(parsed.txn_id)
        is_open = found.state is TxnState.OPEN
        beats = is_open and (parsed.enable_keepalive if heartbeat is None else heartbeat)
        txn = Transaction(self.session, parsed.txn_id, parsed.keepalive_millis, heartbeat=beats)
        txn.handle.trace = trace
        if not is_open:
            txn.handle.is_over(found.state, found.cause)
        return txn

    def get(self, txn_id: int) -> TxnSummary:
        """Raises NotFound."""
        return txn_summary(self.session.record(txn_id))

    def transactions(
        self,
        states: Iterable[TxnState] = (),
        label: str = "",
        *,
        owner: str = "",
        participant: str = "",
        ids: Iterable[int] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> list[TxnSummary]:
        """Transactions that are not forgotten, the newest first: all, or those for which all that is said holds.

        `participant`: the name of a table, or another participant, that takes part. `since`, `until`: times with a
        zone; those begun from then on, and before then. `limit` None: as many as there are.

        Raises InvalidArgument; NotFound for a participant that there is not.
        """
        request = build(
            status_pb.ListTransactionsRequest,
            states=[TxnState(state).name for state in states],
            label=label,
            begun_by=owner,
            participant=participant,
            txn_ids=list(ids),
            begun_since_micros=0 if since is None else instants.micros(since),
            begun_before_micros=0 if until is None else instants.micros(until),
            limit=limit or 0,
        )
        columns = "txn_id state owner label commit_timestamp participants"
        return Shown("Transactions", columns, map(txn_summary, islice(self.session.records(request), limit)))

    def explain(self, txn_id: int) -> Explanation:
        """Why a transaction is as it is, what it waits for and since when, and what one can do about it.

        Raises NotFound; Forgotten for one that is in no file of the timeline; OSError where those cannot be read.
        """
        return explaining.ask(self, txn_id)

    def participants(self, txn_id: int) -> list[ParticipantSummary]:
        """The participants of a transaction, by name, each with what it has come to there, as far as they answer.

        Raises NotFound.
        """
        found, _ = participants.look_at_all(self.session, self.session.record(txn_id))
        return sorted(found, key=lambda each: each.name)

    def abort(self, txn_id: int, reason: str) -> None:
        """Aborts anybody's transaction, as an operator; the record says so."""
        request = build(
            pb.AbortTransactionRequest, txn_id=checked_id(txn_id), owner=self.owner, reason=reason, as_operator=True
        )
        self.call("txnstatus.TxnManager/AbortTransaction", request, pb.AbortTransactionResponse)

    # ---- locks and readers

    def locks(self, table: str = "", partition: str = "", *, extended: bool = False) -> list[LockInfo]:
        """Locks that are held or waited for, on a table or a partition or a database and all below, or on all.

        By object; who holds it, then who waits, in the order in which they have asked.
        `extended`: also what state those transactions are in, and their labels.
        """
        return shown(self.session, table, partition, extended=extended)

    def snapshot(self, at: int | str | datetime | None = None) -> Snapshot:
        """All tables as of `at`: a timestamp of a snapshot or a commit, a datetime with a time zone, or the name of a
        savepoint.

        None: now, with every commit that was acknowledged before this call. How far back tables can be read is set by
        the option snapshot_retention_seconds: what was overwritten longer ago than that may be gone, which reading the
        table then says (SnapshotTooOld).

        Raises InvalidArgument for a point in the future, NotFound for a name that no savepoint has.
        """
        return Snapshot(self.session, instant(self.session, at))

    @overload
    def diff(
        self, table: str, since: int | datetime, until: int | datetime | None = None, *, spark: None = None
    ) -> pa.Table: ...
    @overload
    def diff(
        self, table: str, since: int | datetime, until: int | datetime | None = None, *, spark: SparkSession
    ) -> DataFrame: ...
    def diff(
        self,
        table: str,
        since: int | datetime,
        until: int | datetime | None = None,
        *,
        spark: SparkSession | None = None,
    ) -> pa.Table | DataFrame:
        """The rows that came and went after `since`, up to and with `until`; both as for `snapshot`.

        A pyarrow Table, or with a Spark session a DataFrame, with the table's columns and one more, `_change_kind`:
        "delete" or "insert". An overwrite deletes each row that it replaces and inserts each that it writes, be they
        the same; so does an update where a predicate holds, or a merge, with each row that it changes. Where rows were
        changed by key, rows are compared by it: one that is there before and after, and was touched, comes as
        "update_before" and "update_after", be they the same. What came and went in between is left out.

        Raises InvalidArgument, NotFound, SnapshotTooOld.
        """
        last_commit = self.last_commit()
        old, new = (Snapshot(self.session, instants.resolve(at, last_commit)) for at in (since, until))
        changes = new.changes_since(old, table)
        if spark is not None:
            from txnclient.spark import reader, row_reader

            with old.explained(table):
                return reader.keeping((old, new), row_reader.read_changes(spark, changes))
        with old, new, old.explained(table):
            return changes.to_arrow()

    def last_commit(self) -> Timestamp:
        """The last commit's timestamp: all that was acknowledged before this call is at or below it."""
        return self.session.last_commit()

    # ---- calling

    @property
    def owner(self) -> str:
        return self.session.owner

    @owner.setter
    def owner(self, owner: str) -> None:
        self.session.owner = owner

    @property
    def timeout(self) -> float:
        return self.session.timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self.session.timeout = checked_seconds(seconds)

    @property
    def cluster_id(self) -> str:
        """The cluster's id: its name, and a number that was drawn when it was founded. It is told by the first answer;
        from then on the client holds to that cluster, and nobody of another one answers it.
        """
        return self.session.cluster_id

    def attempt_seconds(self, timeout: float) -> float:
        """How long a call with that deadline waits for one manager."""
        return self.session.channel.attempt_seconds(timeout)

    def call(
        self,
        method: str,
        request: Message,
        response: type[ResponseT],
        *,
        timeout: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> ResponseT:
        """One call to any living manager; for tools. Raises TxnError."""
        timeout = None if timeout is None else checked_seconds(timeout)
        return self.session.call(method, request, response, timeout=timeout, on_repeat=on_repeat)
