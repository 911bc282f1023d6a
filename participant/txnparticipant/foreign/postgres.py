"""PostgreSQL as a participant: PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.

A prepared transaction that is gone was committed, or rolled back, or never was; PostgreSQL does not tell which. So each
transaction inserts a row of its own into a ledger, in the same database, before it is prepared. The row is visible
exactly if the transaction is committed: it proves that, and its primary key keeps a second session of the same
transaction from committing after the first.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import deque
from collections.abc import Iterable, Iterator

import psycopg
from psycopg import Connection, errors, sql
from psycopg.conninfo import conninfo_to_dict

from txnstatus.catalog.founding import name_in
from txnstatus.errors import IllegalState, InvalidArgument, Unavailable
from txnstatus.foreign import ACTS, HOSTED, IDENTITY, LEDGER, Act, Standing, gid, txn_of_gid
from txnstatus.types import ParticipantOpType, Timestamp, TxnId

CONNECT_SECONDS = 5

_ALONE = (
    # One host at a time: CREATE IF NOT EXISTS fails where two run at once.
    "SELECT pg_advisory_xact_lock(hashtext('txnstatus'))",
    "CREATE SCHEMA IF NOT EXISTS txnstatus",
)
_IDENTIFY = (*_ALONE, f"CREATE TABLE IF NOT EXISTS {IDENTITY} (id text PRIMARY KEY)")
_NAME = (
    f"INSERT INTO {IDENTITY} SELECT 'PostgreSQL database ' || current_database() || ' ' || %s "
    f"WHERE NOT EXISTS (SELECT FROM {IDENTITY})"
)
_SET_UP = (
    *_ALONE,
    f"CREATE TABLE IF NOT EXISTS {HOSTED} (cluster_id text, name text, PRIMARY KEY (cluster_id, name))",
    f"CREATE TABLE IF NOT EXISTS {LEDGER} "
    "(cluster_id text, name text, txn_id bigint, PRIMARY KEY (cluster_id, name, txn_id))",
)
_PREPARED = """
SELECT gid, owner = current_user OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
FROM pg_prepared_xacts WHERE database = current_database()
"""
_PUBLISHED = f"SELECT 1 FROM {LEDGER} WHERE cluster_id = %s AND name = %s AND txn_id = %s"
_FORGET = f"DELETE FROM {LEDGER} WHERE cluster_id = %s AND name = %s AND txn_id >= %s AND txn_id < %s"


class PostgresParticipant:
    """One database, as the participant `name` of a cluster. Implements `Participant`."""

    def __init__(self, cluster_id: str, name: str, conninfo: str) -> None:
        """`conninfo`: as libpq takes it. The role is a superuser, or the one that programs prepare with."""
        self._cluster_id = cluster_id
        self._name = name
        self._conninfo = conninfo
        self._idle: deque[Connection] = deque()

    def check(self, *, is_new: bool) -> None:
        """Whether the database can be this participant. `is_new`: the cluster does not know the participant yet.

        Raises InvalidArgument, naming the setting, for a server that cannot prepare, and for a database that was the
        participant of a cluster of this name before: what that has prepared, nobody would end. Raises Unavailable.
        """
        with self._connection() as connection:
            row = connection.execute("SHOW max_prepared_transactions").fetchone()
            if row is None or row[0] == "0":
                raise InvalidArgument(
                    "this PostgreSQL server prepares no transactions: max_prepared_transactions is 0",
                    hint="set max_prepared_transactions to about max_connections in postgresql.conf, and restart it",
                )
            if is_new and (earlier := self._hosted_before(connection)):
                raise InvalidArgument(
                    f"this database was {self._name} of an earlier cluster, {earlier}; this one is {self._cluster_id}",
                    hint="take another name; or end what it has prepared by hand, and DROP SCHEMA txnstatus CASCADE",
                )

    def _hosted_before(self, connection: Connection) -> str:
        """The cluster that it was a participant of, founded under the same name as this one."""
        if connection.execute("SELECT to_regclass(%s)", (HOSTED,)).fetchone() == (None,):
            return ""
        rows = connection.execute(f"SELECT cluster_id FROM {HOSTED} WHERE name = %s", (self._name,)).fetchall()
        alike = (each for (each,) in rows if name_in(each) == name_in(self._cluster_id))
        return next((each for each in alike if each != self._cluster_id), "")

    def identity(self) -> str:
        """Its name when it was first asked, and a number that no other has. Raises Unavailable."""
        with self._connection() as connection, connection.transaction():
            for statement in _IDENTIFY:
                connection.execute(statement)
            connection.execute(_NAME, (str(uuid.uuid4()),))
            row = connection.execute(f"SELECT id FROM {IDENTITY}").fetchone()
        assert row is not None
        return str(row[0])

    def set_up(self) -> None:
        """Makes what it keeps in the database, if it is not there. Raises Unavailable."""
        with self._connection() as connection, connection.transaction():
            for statement in _SET_UP:
                connection.execute(statement)
            mine = self._cluster_id, self._name
            connection.execute(f"INSERT INTO {HOSTED} VALUES (%s, %s) ON CONFLICT DO NOTHING", mine)

    def close(self) -> None:
        """The connections that are idle."""
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()

    # ---- the protocol

    def prepare(self, txn_id: TxnId) -> None:
        with self._connection() as connection:
            self._act(connection, txn_id, ParticipantOpType.BEGIN_COMMIT)

    def publish(self, txn_id: TxnId, commit_ts: Timestamp) -> None:
        with self._connection() as connection:
            self._act(connection, txn_id, ParticipantOpType.FINALIZE_COMMIT)

    def discard(self, txn_id: TxnId) -> None:
        with self._connection() as connection:
            self._act(connection, txn_id, ParticipantOpType.ABORT_TXN)

    def prepared(self) -> Iterable[TxnId]:
        with self._connection() as connection:
            return [txn_id for txn_id, _ in self._prepared(connection)]

    def forget(self, first: TxnId, below: TxnId) -> None:
        with self._connection() as connection:
            connection.execute(_FORGET, (self._cluster_id, self._name, first, below))

    # ---- inside

    def _act(self, connection: Connection, txn_id: TxnId, op: ParticipantOpType) -> None:
        standing = self._standing(connection, txn_id)
        match ACTS[standing, op]:
            case Act.PUBLISH:
                self._end(connection, "COMMIT PREPARED {}", txn_id)
            case Act.DISCARD:
                self._end(connection, "ROLLBACK PREPARED {}", txn_id)
            case Act.ILLEGAL:
                message = f"{op.name} is not possible: {self._name} has {standing} of transaction {txn_id}"
                raise IllegalState(message, txn_id=txn_id)

    def _standing(self, connection: Connection, txn_id: TxnId) -> Standing:
        """In this order, in two statements: a commit shows its row before the prepared transaction is gone."""
        for prepared_id, may_end in self._prepared(connection):
            if prepared_id == txn_id:
                if not may_end:
                    raise IllegalState(
                        f"{self._name} cannot end what transaction {txn_id} has prepared: another role did it",
                        txn_id=txn_id,
                        hint="let the participant's host connect as that role, or as a superuser",
                    )
                return Standing.PREPARED
        row = connection.execute(_PUBLISHED, (self._cluster_id, self._name, txn_id)).fetchone()
        return Standing.PUBLISHED if row else Standing.ABSENT

    def _prepared(self, connection: Connection) -> Iterator[tuple[TxnId, bool]]:
        for found, may_end in connection.execute(_PREPARED).fetchall():
            txn_id = txn_of_gid(found, self._cluster_id, self._name)
            if txn_id is not None:
                yield txn_id, may_end

    def _end(self, connection: Connection, statement: str, txn_id: TxnId) -> None:
        name = sql.Literal(gid(self._cluster_id, self._name, txn_id))
        try:
            connection.execute(sql.SQL(statement).format(name))
        except (errors.UndefinedObject, errors.ObjectNotInPrerequisiteState) as error:
            # Somebody else ends it now, or has: the next time, its standing says which way.
            raise Unavailable(f"transaction {txn_id} is being ended on {self._name} by somebody else") from error

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Raises Unavailable for what another try may mend, else IllegalState with what PostgreSQL says."""
        connection: Connection | None = None
        try:
            with contextlib.suppress(IndexError):
                connection = self._idle.pop()
            if connection is None:
                connection = psycopg.connect(self._conninfo, autocommit=True, connect_timeout=CONNECT_SECONDS)
            yield connection
        except psycopg.OperationalError as error:
            self.close()  # those of a server that has ended would each fail once
            raise Unavailable(f"PostgreSQL, for {self._name}: {_said(error)}") from error
        except psycopg.Error as error:
            raise IllegalState(f"PostgreSQL, for {self._name}: {_said(error)} ({error.sqlstate})") from error
        finally:
            if connection is not None and not connection.closed:
                self._idle.append(connection)


def has_password(conninfo: str) -> bool:
    """Whether it says one; what libpq does not take is told of as it is used."""
    with contextlib.suppress(psycopg.ProgrammingError):
        return bool(conninfo_to_dict(conninfo).get("password"))
    return False


def _said(error: psycopg.Error) -> str:
    return str(error).strip() or type(error).__name__
