"""Sessions of SQL without Spark: statements one after the other, each by itself or between BEGIN and COMMIT.

DuckDB, and what comes with it, is loaded by the first statement that needs it: that takes longer than to count a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from sqlglot import exp

from txnclient.client.client import Client
from txnclient.control import procedures, statements
from txnclient.control.session import SqlSession
from txnclient.control.statements import Call
from txnclient.control.words import Session, Words
from txnclient.ducksql.arguments import evaluated
from txnclient.ducksql.counting import counted
from txnclient.ducksql.reading import Reading
from txnclient.ducksql.scripts import Piece, pieces
from txnclient.ducksql.trees import EVOLVES, Arguments, shown, tree_of
from txnclient.outcome import CommitReceipt, RowsAffected
from txnclient.snapshot import Snapshot
from txnclient.staying import Staying
from txnclient.transaction import blocks
from txnclient.transaction.blocks import Block
from txnclient.transaction.statements import Statements
from txnclient.transaction.transaction import Transaction
from txnstatus.errors import IllegalState, InvalidArgument, TxnError
from txnstatus.types import time_of

CATALOG = "txn"
"""The name that may stand before a table's, as it does in Spark."""
NOTHING = pa.table({})
_EVOLUTION = ("WITH", "SCHEMA", "EVOLUTION")
_CHANGES = {"Insert": "insert", "Delete": "delete", "Update": "update", "Merge": "merge", "TruncateTable": "truncate"}
"""Statements by their class of sqlglot's → what does them in `changes`."""


@dataclass
class _Here:
    """The tables of the session's cluster."""

    client: Client
    block: Block | None = None
    last_commit: CommitReceipt | None = None

    @property
    def cluster_id(self) -> str:
        return self.client.cluster_id

    def names(self) -> list[str]:
        return [each.name for each in self.client.tables()]


class DuckSession(Staying):
    """Use from one thread at a time. What is not committed as it is closed is rolled back."""

    instead = "send the cluster's addresses, and connect there"

    def __init__(self, client: Client, label: str = "") -> None:
        """`label`: that of transactions which the session begins by itself."""
        self._client, self._label = client, label
        self._here = _Here(client)
        self.control = SqlSession(client, lambda: {CATALOG: self._here})
        self._closed = False
        self.database = ""
        """The database of tables that are named without one; empty: none."""

    def __repr__(self) -> str:
        return f"<SQL session of {self._client!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Rolls back what was begun and not committed; then no statement runs any more. Idempotent."""
        self._closed = True
        self.control.gone("")

    @property
    def txn(self) -> Statements | None:
        """The transaction that is open."""
        block = self._here.block
        return None if block is None else block.txn

    @property
    def last_commit(self) -> CommitReceipt | None:
        """The receipt of the last statement that was a transaction of its own."""
        return self._here.last_commit

    def sql(self, script: str, args: Arguments | None = None) -> pa.Table:
        """Runs statements, with `;` between them, one after the other: docs/sql.md. Returns the rows of the last one.

        A change is a row of `inserted`, `updated` and `deleted`. `args`: values of parameters, `:name`.

        Raises InvalidArgument for what does not read as SQL, or is nothing that can be done without Spark; IllegalState
        for statements that are none here and now; and what the calls raise by which a statement is done.
        """
        rows = NOTHING
        for piece in pieces(script):
            rows = self.run(piece, args or {})
        return rows

    def run(self, piece: Piece, args: Arguments) -> pa.Table:
        """One statement. Raises IllegalState once the session is closed."""
        if self._closed:
            raise IllegalState(
                f"{piece.text[:100]!r}: this SQL session is closed", hint="client.sql_session() opens another one"
            )
        if (call := statements.read(self._words(piece))) is not None:
            return self._called(call, args)
        if piece.begins("SHOW") or piece.begins("USE"):
            return self._shown(self._words(piece))
        tree = _tree(piece, args)
        kind = type(tree).__name__
        if isinstance(tree, exp.Query | exp.Values):
            with self._reading(args) as reading:
                return _answered(tree, reading)
        if kind in _CHANGES:
            return self._changed(kind, tree, args)
        return self._defined(tree, args)

    def _changed(self, kind: str, tree: exp.Expression, args: Arguments) -> pa.Table:
        from txnclient.ducksql import changes

        change, block = getattr(changes, _CHANGES[kind]), self._here.block
        if block is not None:
            with block.using() as txn, txn.working(kind.upper()), self._reading(args) as reading:
                assert isinstance(txn, Transaction)
                return _counted(change(txn, tree, reading))
        with self._client.transaction(self._label) as txn:
            with self._reading(args, txn.snapshot) as reading:
                rows = change(txn, tree, reading)
            self._here.last_commit = txn.commit()
        return _counted(rows)

    def _defined(self, tree: exp.Expression, args: Arguments) -> pa.Table:
        from txnclient.ducksql import definitions

        if isinstance(tree, exp.Describe):
            return definitions.describe(self._client, tree, self._resolve)
        if not isinstance(tree, exp.Create | exp.Drop | exp.Alter):
            raise InvalidArgument(
                f"{shown(tree)} is nothing that can be done without Spark", hint="docs/sql.md says what can"
            )
        if self._here.block is not None:
            raise IllegalState(
                f"{shown(tree)}: tables are made, altered and dropped outside of transactions, "
                f"and {self._here.block!r} is open",
                hint="COMMIT or ROLLBACK it first",
            )
        if isinstance(tree, exp.Create):
            with self._reading(args) as reading:
                return _counted(definitions.create(self._client, tree, reading))
        (definitions.drop if isinstance(tree, exp.Drop) else definitions.alter)(self._client, tree, self._resolve)
        return NOTHING

    # ---- what statements read

    @contextmanager
    def _reading(self, args: Arguments, now: Snapshot | None = None) -> Iterator[Reading]:
        """The tables as of one time: that of the transaction, if there is one."""
        block = self._here.block
        with ExitStack() as stack:
            if now is None:
                now = stack.enter_context(self._client.snapshot()) if block is None else block.snapshot()
            yield Reading(
                self._client, now, lambda at: stack.enter_context(self._client.snapshot(at)), self._resolve, args
            )

    def _resolve(self, parts: Sequence[str]) -> str:
        found = self._names.table(parts)
        if found is None:
            raise InvalidArgument(
                f"table {'.'.join(parts)!r:.200}: a table is named database.table", hint="or USE a database first"
            )
        return found[1]

    @property
    def _names(self) -> Session:
        return Session([CATALOG], CATALOG, [self.database] if self.database else [])

    # ---- statements that are no SQL of DuckDB's

    def _words(self, piece: Piece) -> Words:
        return piece.read_in(self._names)

    def _called(self, call: Call, args: Arguments) -> pa.Table:
        if call.script:
            return self._atomic(call.script, args)
        procedure = procedures.PROCEDURES[call.procedure]
        given = {
            each.name: evaluated(each, call.arguments.get(each.name, each.default or "NULL"), args)
            for each in procedure.parameters
        }
        rows = procedures.run(call.procedure, self.control, given)
        columns = [each.split() for each in procedure.columns.split(", ") if each]
        arrays = [_column([row[number] for row in rows], kind) for number, (_, kind) in enumerate(columns)]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in columns])

    def _atomic(self, script: str, args: Arguments) -> pa.Table:
        """BEGIN ATOMIC: of Spark's scripting there are statements alone, no variables and no loops."""
        self.control.begin_script()
        try:
            rows = self.sql(script.lstrip().removeprefix("BEGIN").removesuffix("END"), args)
        except BaseException as error:
            self.control.rollback_script(error.message if isinstance(error, TxnError) else str(error))
            raise
        self.control.commit_script()
        return rows

    def _shown(self, words: Words) -> pa.Table:
        from txnclient.ducksql import definitions

        if words.skip("USE"):
            words.restart("USE database")
            words.skip("USE")
            words.skip_any("DATABASE", "SCHEMA", "NAMESPACE")
            parts = words.read_names()
            words.require_end()
            self.database = parts[-1]
            return NOTHING
        others = (usage for usage in statements.STATEMENTS if usage.startswith("SHOW"))
        own = "SHOW TABLES [IN database] [LIKE 'pattern']", "SHOW DATABASES [LIKE 'pattern']"
        words.restart(" | ".join([*own, *others]))
        words.require("SHOW")
        lists_tables = words.skip("TABLES")
        if not lists_tables and not words.skip_any("DATABASES", "SCHEMAS"):
            words.require("TABLES")
        database = self.database
        if lists_tables and words.skip_any("IN", "FROM"):
            database = words.read_names()[-1]
        pattern = words.read_value()[1:-1] if words.skip("LIKE") else None
        words.require_end()
        if lists_tables:
            return definitions.tables(self._client, database, pattern)
        return definitions.databases(self._client, pattern)


def _answered(tree: exp.Expression, reading: Reading) -> pa.Table:
    """The rows of a query."""
    if (rows := counted(tree, reading)) is not None:
        return rows
    from txnclient.ducksql import queries

    return queries.answered(tree, reading)


def _column(values: list[Any], kind: str) -> pa.Array:
    """A column of what a procedure answers."""
    if kind.upper() == "TIMESTAMP":
        times = [None if each is None else time_of(each) for each in values]
        return pa.array(times, pa.timestamp("us", "UTC"))
    return pa.array(values, {"STRING": pa.string(), "BIGINT": pa.int64(), "BOOLEAN": pa.bool_()}[kind.upper()])


def _tree(piece: Piece, args: Arguments) -> exp.Expression:
    """The statement, which says so where it is one WITH SCHEMA EVOLUTION: sqlglot does not read these words."""
    for verb in ("INSERT", "MERGE"):
        if piece.begins(verb, *_EVOLUTION):
            tree = tree_of(verb + piece.text[piece.ends[len(_EVOLUTION)] :], args)
            tree.set(EVOLVES, True)
            return tree
    return tree_of(piece.text, args)


def _counted(rows: RowsAffected | None) -> pa.Table:
    """What a change has come to; nothing where nobody has counted."""
    if rows is None:
        return NOTHING
    return pa.table({name: pa.array([getattr(rows, name)], pa.int64()) for name in ("inserted", "updated", "deleted")})


# ---- what `Client.sql` and `Transaction.sql` do where there is no Spark


def alone(client: Client, script: str, args: Mapping[str, Any] | None, label: str) -> pa.Table:
    """One statement by itself, or a transaction of several."""
    found = pieces(script)
    if len(found) != 1:
        with client.transaction(label) as txn:
            return within(txn, script, args)
    with DuckSession(client, label) as session:
        rows = session.run(found[0], args or {})
        if session.txn is not None:
            raise IllegalState(
                f"{found[0].text!r} begins a transaction in which nothing else would be: it is rolled back",
                hint="several statements of one client.sql are a transaction; or client.sql_session()",
            )
        return rows


def within(txn: Transaction, script: str, args: Mapping[str, Any] | None) -> pa.Table:
    """Statements that are part of a transaction."""
    session = DuckSession(Client(txn.handle.session))
    catalogs = session.control.catalogs()
    block = blocks.begin(txn, catalogs)
    try:
        return session.sql(script, args)
    finally:
        blocks.end(block, catalogs)
