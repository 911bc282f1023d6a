"""Undo and restore: what a `Client` takes back of the past, as an ordinary transaction, which may be undone, too.

What does it is imported where it is called: most programs never do.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from txnclient.calls.requests import names_of
from txnclient.history.savepoints import instant, named
from txnclient.history.timeline import CLOCKS_APART, END, Timeline, of_record
from txnclient.info import txn_summary
from txnclient.outcome import CommitReceipt
from txnclient.session import Session
from txnclient.snapshot import Snapshot
from txnclient.streams.marks import MARKS
from txnclient.transaction.beginning import begin
from txnclient.transaction.transaction import Transaction
from txnstatus.errors import Conflict, IllegalState, InvalidArgument, NotFound
from txnstatus.foreign import foreign_name
from txnstatus.lake.timeline import Past
from txnstatus.names import quoted
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.schema import Schema
from txnstatus.types import (
    DECIDED_COMMIT,
    AbortCause,
    AbortCode,
    Timestamp,
    TxnId,
    TxnState,
    micros_at,
    micros_of,
    time_of,
)
from txnstatus.undoes import request_id_of_undo

if TYPE_CHECKING:
    from txnclient.history.reverting import RowsBack

UNDO = "undo of transaction {}"
"""The label of an undo that is given none."""
MAX_NAMED = 10
"""Rows that an error names."""
MAX_SUSPECTS = 1_000
"""Later transactions that are looked at for the one that is in the way."""


class Undoing(Timeline):
    """What a `Client` knows of the past, and takes back of it."""

    session: Session

    def undo(self, txn_id: int, *, label: str = "") -> CommitReceipt:
        """Takes back what a committed transaction did, in all of its tables, as a transaction of its own.

        Rows that it has deleted or replaced are there again, rows that it has added are not, and what others have done
        to other rows stays, before it and after it. Where a later transaction has changed one of its rows, or has
        overwritten what it has written or overwritten, it is refused, and nothing is undone; be it that the rows are
        now as they were before: an undone transaction cannot be undone again, its undo can.

        In tables without a primary key no data is read or written: files are copied, by another name where the file
        system has such. In others the rows that it has changed are read and written.

        `label`: what listings show; by default it names the transaction.

        Raises Conflict, naming who is in the way (`error.winner`), and rows or files; SnapshotTooOld where what it has
        overwritten is removed; IllegalState for a transaction that has not committed, has changed nothing, dropped a
        table, or has a foreign participant; NotFound; Forgotten for one whose record is forgotten and was never written
        down.
        """
        done = self.past(txn_id)
        before, after = Timestamp(done.commit_timestamp - 1), Timestamp(done.commit_timestamp)
        tables = [self._called_now(each, after) for each in _tables_of(done)]
        with _refused(txn_id), self._transaction(label or UNDO.format(txn_id), tables, txn_id) as txn:
            txn.handle.read_as_of(after)
            undone = [self._undo(txn, table, before, after) for table in tables]
            if not any(undone):
                raise IllegalState(
                    f"transaction {txn_id} has changed no row: there is nothing to undo", txn_id=TxnId(txn_id)
                )
        assert txn.receipt is not None
        return txn.receipt

    def restore(
        self, to: int | str | datetime, tables: Iterable[str] | None = None, *, label: str = ""
    ) -> CommitReceipt:
        """Makes tables what they were at a savepoint, a timestamp, or a datetime with a time zone, as one transaction.

        `tables` None: those of the savepoint, or all that there were. A table that was created since stays as it is. Of
        those who have changed since this call began what it changes, the first to commit wins. What it costs is as of
        `undo`.

        Raises SnapshotTooOld, naming the table, past what is kept; Conflict; NotFound for a name that no savepoint has,
        and for a table that was not there, or is not there any more; InvalidArgument.
        """
        if to is None:
            raise InvalidArgument("to = None: give a savepoint's name, a timestamp, or a datetime with a time zone")
        chosen = None if tables is None else names_of(tables)
        if chosen == []:
            raise InvalidArgument("a restore of no tables: name some, or none of them for all")
        from txnclient.history import reverting

        at = instant(self.session, to)
        wanted = self._there_at(to, at) if chosen is None else [self._meant(each, at) for each in chosen]
        with self._transaction(label or f"restore to {to}"[:100], wanted) as txn:
            now = txn.snapshot.timestamp
            with Snapshot(self.session, at) as old, Snapshot(self.session, now) as new:
                for table in sorted(wanted):
                    schema = self._same_table(table, old)
                    if not schema.primary_key:
                        reverting.by_position(txn.handle, table, old, new)
                    elif found := reverting.by_key(table, old, new, schema):
                        _write_back(txn, table, found)
        assert txn.receipt is not None
        return txn.receipt

    @contextmanager
    def _transaction(self, label: str, tables: Sequence[str], undone: int | None = None) -> Iterator[Transaction]:
        unique = uuid.uuid4().hex
        request_id = unique if undone is None else request_id_of_undo(undone, unique)
        (txn,), _ = begin(self.session, 1, label, 0, request_id, near="".join(tables[:1]))
        with txn:
            yield txn

    # ---- undo

    def _undo(self, txn: Transaction, table: str, before: Timestamp, after: Timestamp) -> bool:
        from txnclient.history import reverting

        with Snapshot(self.session, before) as old, Snapshot(self.session, after) as new:
            # Before it: as of a drop's own commit the next table of that name may be there.
            schema = self._same_table(table, old)
            if not schema.primary_key:
                return reverting.by_position(txn.handle, table, old, new)
            found = reverting.by_key(table, old, new, schema)
            if found is None:
                return False
            # Rows are judged as of now; what became of them since, readers are asked.
            joined = Transaction(self.session, txn.id, txn.handle.keepalive_millis, heartbeat=False)
            try:
                with Snapshot(self.session, joined.snapshot.timestamp) as now:
                    self._require_untouched(table, found, new, now, schema)
                _write_back(joined, table, found)
            finally:
                joined.handle.release()
            return True

    def _require_untouched(self, table: str, found: RowsBack, new: Snapshot, now: Snapshot, schema: Schema) -> None:
        """Raises Conflict, naming the first that has changed one of the rows since."""
        from txnclient.history import reverting

        rows = reverting.changed_since(table, found, new, now, schema)
        if not rows.num_rows:
            return
        winner = None
        for other in self._between(table, new.timestamp, now.timestamp):
            at = Timestamp(other.commit_timestamp)
            with Snapshot(self.session, Timestamp(at - 1)) as before, Snapshot(self.session, at) as after:
                theirs = reverting.changed_since(table, found, before, after, schema)
            if theirs.num_rows:
                winner, rows = TxnId(other.txn_id), theirs
                break
        keys = ", ".join("/".join(map(str, row.values())) for row in rows.slice(0, MAX_NAMED).to_pylist())
        by = f" by transaction {winner}" if winner is not None else ""
        message = f"rows {keys} of {table} were changed{by} since"
        raise Conflict(message, cause=AbortCause(AbortCode.CONFLICT, message, table, winner, (table,)))

    def _between(self, table: str, above: Timestamp, until: Timestamp) -> Sequence[Past]:
        """Transactions that have committed on the table in between, the first one first, as far as they are known."""
        request = status_pb.ListTransactionsRequest(participant=table, limit=MAX_SUSPECTS)
        answer = self.session.call("txnstatus.Admin/ListTransactions", request, status_pb.ListTransactionsResponse)
        known = self.timeline(since=time_of(max(0, micros_of(above) - CLOCKS_APART)), table=table)
        kept = map(of_record, map(txn_summary, answer.txns))  # one that is decided and not over is not in the timeline
        found = {each.txn_id: each for each in (*known, *kept) if above < each.commit_timestamp <= until}
        return sorted(found.values(), key=lambda each: each.commit_timestamp)[:MAX_SUSPECTS]

    # ---- both

    def _called_now(self, table: str, at: Timestamp) -> str:
        """What the table is called that had the name at the timestamp. Raises NotFound, SnapshotTooOld."""
        with Snapshot(self.session, at) as then:
            return then.scan(table).table.name

    def _meant(self, table: str, at: Timestamp) -> str:
        """The table that has the name; or else what that one is called which had it at the timestamp."""
        try:
            return self.session.table(table).name
        except NotFound:
            return self._called_now(table, at)

    def _same_table(self, table: str, then: Snapshot) -> Schema:
        """The schema of a table that is still the one that it was then.

        Raises NotFound, SnapshotTooOld; IllegalState where another table has the name now.
        """
        now, was = self.session.table(table), then.scan(table).table
        if was.table_id != now.table_id:
            raise IllegalState(
                f"table {table} was dropped or renamed since, and another one has its name",
                hint=f"client.snapshot({then.timestamp}) reads what it was, as long as that is kept",
            )
        return now.schema

    def _there_at(self, to: int | str | datetime, at: Timestamp) -> list[str]:
        """The tables of the savepoint, or all that there are and were at the timestamp.

        What was made after the savepoint, or the time, was not, though nothing need have been committed in between.
        """
        saved = named(self.session, to) if isinstance(to, str) else None
        if saved is not None and saved.tables:
            return [self._called_now(each, at) for each in saved.tables]
        by = saved.created if saved is not None else to if isinstance(to, datetime) else None
        last = END if by is None else micros_at(by)
        found, after = list[str](), ""
        while True:
            request = table_pb.ListTablesRequest(after=after)
            answer = self.session.call("txnstatus.Table/ListTables", request, table_pb.ListTablesResponse)
            found += [
                each.name
                for each in answer.tables
                if micros_of(Timestamp(each.made)) <= last and self._was_there(each.name, at)
            ]
            if not answer.more:
                return found
            after = answer.tables[-1].name

    def _was_there(self, table: str, at: Timestamp) -> bool:
        try:
            with Snapshot(self.session, at) as then:
                then.scan(table)
        except NotFound:
            return False
        return True


def _write_back(txn: Transaction, table: str, found: RowsBack) -> None:
    if found.gone.num_rows:
        on = " AND ".join(f"target.{each} = source.{each}" for each in map(quoted, found.gone.column_names))
        txn.merge(table, found.gone, on).when_matched_delete().execute()
    if found.rows.num_rows:
        txn.write(found.rows, table, "upsert")


def _tables_of(done: Past) -> list[str]:
    """Raises IllegalState for what cannot be undone, whatever others have done since."""
    txn_id, took_part = TxnId(done.txn_id), [each.table for each in done.tables]
    if TxnState[done.state] not in DECIDED_COMMIT:
        raise IllegalState(f"transaction {txn_id} is {done.state}: what has committed can be undone", txn_id=txn_id)
    if elsewhere := [each for each in took_part if foreign_name(each) is not None]:
        raise IllegalState(
            f"transaction {txn_id} took part in {', '.join(elsewhere)}, which knows no undo", txn_id=txn_id
        )
    # A database takes part by its lock only. A mark stays: what is taken from its source next goes on from there.
    tables = [each for each in took_part if "." in each and each != MARKS]
    if not tables or not done.commit_timestamp:
        raise IllegalState(f"transaction {txn_id} has written to no table", txn_id=txn_id)
    return tables


@contextmanager
def _refused(txn_id: int) -> Iterator[None]:
    """Tells a conflict as one of an undo."""
    try:
        yield
    except Conflict as error:
        why = error.cause.message if error.cause else error.message
        which = "that one" if error.winner is None else f"transaction {error.winner}"
        raise Conflict(
            f"transaction {txn_id} cannot be undone: {why}",
            txn_id=error.txn_id,
            hint=f"undo {which} first; `restore` takes back all that was done since a time",
            cause=error.cause,
        ) from None
