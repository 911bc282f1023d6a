"""A program's own SQL in PostgreSQL as part of a transaction: `Transaction.postgres`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
from psycopg import Connection, Cursor, sql
from psycopg.pq import TransactionStatus

from txnstatus.errors import IllegalState, InvalidArgument, Unavailable
from txnstatus.foreign import HOSTED, LEDGER, gid
from txnstatus.types import TxnId

LOCK_TIMEOUT = "2s"
_RUN_AGAIN = ("08", "40", "53", "57")
"""Classes of SQLSTATE that another run may not meet: a lost connection, a rollback, too little of something, a stop."""


class PostgresPart:
    """One PostgreSQL transaction, in one session. A context manager that gives the connection to work with.

    The connection commits and rolls back with the transaction: a program that ends its PostgreSQL transaction itself
    has taken its work out of it, and cannot commit. Leaving the block with an exception rolls the work back.
    """

    def __init__(self, cluster_id: str, name: str, txn_id: TxnId, target: str | Connection) -> None:
        """`target`: a connection that is idle and not in autocommit, which stays open; or what to connect to.

        Raises InvalidArgument for a server that prepares no transactions, or a database that is not the participant;
        Unavailable.
        """
        self._cluster_id = cluster_id
        self._name = name
        self._txn_id = txn_id
        self._prepared = False
        self._began = ""
        with self._errors():
            self._own = not isinstance(target, Connection)
            self._connection = psycopg.connect(target) if isinstance(target, str) else target
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Once the participant is registered: only then may there be any work."""
        with self._errors():
            self._began = self._session()

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.rollback()

    # ---- as part of the transaction

    def prepare(self) -> None:
        status = self._connection.info.transaction_status
        if status is TransactionStatus.INERROR:
            raise self._refusal("a statement failed, so its work cannot be committed")
        if status is TransactionStatus.IDLE or self._session() != self._began:
            raise self._refusal("its PostgreSQL transaction was ended before the commit")
        with self._errors(), self._connection.cursor() as cursor:
            self._enter_in_ledger(cursor)
            cursor.execute(sql.SQL("PREPARE TRANSACTION {}").format(self._gid))
            if cursor.statusmessage != "PREPARE TRANSACTION":  # it says ROLLBACK where the transaction had failed
                raise self._refusal("PostgreSQL rolled its work back")
        self._prepared = True

    def _enter_in_ledger(self, cursor: Cursor) -> None:
        """What makes the commit provable. A session that waits for its own transaction would wait for ever."""
        cursor.execute("SELECT current_setting('lock_timeout')")
        (usual,) = cursor.fetchone() or ("0",)
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", (LOCK_TIMEOUT,))
        try:
            mine = self._cluster_id, self._name, self._txn_id
            cursor.execute(f"INSERT INTO {LEDGER} VALUES (%s, %s, %s)", mine)
        except (psycopg.errors.UniqueViolation, psycopg.errors.LockNotAvailable) as error:
            raise self._refusal("another session of the same transaction was first") from error
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", (usual,))

    def publish(self) -> None:
        self._end("COMMIT PREPARED {}")

    def discard(self) -> None:
        if self._prepared:
            self._end("ROLLBACK PREPARED {}")
            return
        with self._errors(), contextlib.closing(self):
            self._connection.rollback()

    def close(self) -> None:
        """The session, if it is not the program's own."""
        if self._own:
            self._connection.close()

    # ---- inside

    def _end(self, statement: str) -> None:
        """Outside any transaction, as PostgreSQL demands. The host may have been first."""
        connection = self._connection
        with self._errors(), contextlib.closing(self), contextlib.suppress(psycopg.errors.UndefinedObject):
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                return  # the program is at work on the next thing
            connection.autocommit = True
            try:
                connection.execute(sql.SQL(statement).format(self._gid))
            finally:
                connection.autocommit = False

    def _check(self) -> None:
        connection = self._connection
        if connection.autocommit or connection.info.transaction_status is not TransactionStatus.IDLE:
            raise InvalidArgument(f"the connection for {self._name} must be idle, and not in autocommit")
        try:
            with self._errors():
                if self._value("SHOW max_prepared_transactions") == "0":
                    raise InvalidArgument(
                        f"the PostgreSQL server of {self._name} prepares no transactions: "
                        "max_prepared_transactions is 0",
                        hint="set max_prepared_transactions to about max_connections, and restart it",
                    )
                hosted = sql.SQL(f"SELECT count(*) FROM {HOSTED} WHERE cluster_id = {{}} AND name = {{}}")
                if self._value(hosted.format(self._cluster_id, self._name)) != 1:
                    raise self._not_hosted()
        except InvalidArgument as error:
            if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                raise self._not_hosted() from error
            raise
        finally:
            with contextlib.suppress(psycopg.Error):
                connection.rollback()

    def _not_hosted(self) -> InvalidArgument:
        return InvalidArgument(
            f"this database is not the participant {self._name} of cluster {self._cluster_id}",
            hint="connect to the database that its host was started with (txnctl participant list)",
        )

    def _session(self) -> str:
        """The id of this PostgreSQL transaction; begins one where there is none."""
        with self._errors():
            return str(self._value("SELECT pg_current_xact_id()"))

    def _value(self, query: str | sql.Composable) -> object:
        row = self._connection.execute(query).fetchone()  # type: ignore[arg-type]
        return row[0] if row else None

    @property
    def _gid(self) -> sql.Literal:
        return sql.Literal(gid(self._cluster_id, self._name, self._txn_id))

    def _refusal(self, why: str) -> IllegalState:
        return IllegalState(f"{self._name} cannot be prepared: {why}", txn_id=self._txn_id)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """PostgreSQL's errors, by what the caller does next."""
        try:
            yield
        except psycopg.Error as error:
            said = f"PostgreSQL, for {self._name}: {str(error).strip()}"
            if (error.sqlstate or "08").startswith(_RUN_AGAIN):
                raise Unavailable(said, txn_id=self._txn_id) from error
            raise InvalidArgument(f"{said} ({error.sqlstate})", txn_id=self._txn_id) from error
