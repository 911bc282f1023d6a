"""What control statements do: procedures of the schema `system`, with parameters, and columns of what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from txnclient.control import system_tables
from txnclient.control.session import SqlSession
from txnclient.formats.partitions import name_of
from txnclient.outcome import CommitReceipt
from txnclient.write.locks import LockMode
from txnstatus.errors import InvalidArgument, NotFound, TxnError
from txnstatus.types import micros_at, time_of

Arguments = Mapping[str, Any]
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: str
    """A type of Spark's: STRING, BIGINT, BOOLEAN, TIMESTAMP (which comes as microseconds), ARRAY or MAP."""
    default: str | None = None
    """SQL; None: it must be given."""


@dataclass(frozen=True, slots=True)
class Procedure:
    description: str
    columns: str
    """Names and types of what it answers: STRING, BIGINT, BOOLEAN and TIMESTAMP are possible."""
    run: Callable[[SqlSession, Arguments], Iterable[Row]]
    parameters: Sequence[Parameter] = ()
    moves: bool = False
    """Whether the session may see other rows after it than before."""


def described(name: str) -> dict[str, Any]:
    """As an engine asks for it. Raises NotFound."""
    found = _named(name)
    parameters = [
        {"name": each.name, "type": each.type, **({} if each.default is None else {"default": each.default})}
        for each in found.parameters
    ]
    told = {"description": found.description, "columns": found.columns, "moves": found.moves}
    return {**told, "parameters": parameters}


def run(name: str, session: SqlSession, arguments: Arguments, speaker: str = "") -> list[Row]:
    """The rows that it answers. `speaker`: who speaks for the session. Raises NotFound, and what it raises itself."""
    session.speaker = speaker
    return [tuple(map(_told, row)) for row in _named(name).run(session, arguments)]


def _named(name: str) -> Procedure:
    if name not in PROCEDURES:
        raise NotFound(f"there is no procedure system.{name}", hint=f"there are {', '.join(sorted(PROCEDURES))}")
    return PROCEDURES[name]


def _told(value: object) -> object:
    return micros_at(value) if isinstance(value, datetime) else value


# ---- what they do


def _begin(session: SqlSession, _: Arguments) -> Iterable[Row]:
    yield (session.begin().id,)


def _commit(session: SqlSession, _: Arguments) -> Iterable[Row]:
    yield _receipt(session.commit())


def _receipt(receipt: CommitReceipt) -> Row:
    return receipt.txn_id, receipt.commit_timestamp, ", ".join(receipt.tables)


def _rollback(session: SqlSession, _: Arguments) -> Iterable[Row]:
    yield (session.rollback().id,)


def _savepoint(session: SqlSession, given: Arguments) -> Iterable[Row]:
    with session.using("SAVEPOINT") as txn:
        txn.savepoint(given["name"])
    return ()


def _rollback_to(session: SqlSession, given: Arguments) -> Iterable[Row]:
    with session.alone("ROLLBACK TO") as txn:
        txn.rollback_to(given["name"])
    return ()


def _release(session: SqlSession, given: Arguments) -> Iterable[Row]:
    with session.using("RELEASE") as txn:
        txn.release(given["name"])
    return ()


def _step(step: Callable[[SqlSession], object]) -> Callable[[SqlSession, Arguments], Iterable[Row]]:
    def run(session: SqlSession, _: Arguments) -> Iterable[Row]:
        step(session)
        return ()

    return run


def _rollback_script(session: SqlSession, given: Arguments) -> Iterable[Row]:
    session.rollback_script(given["because"])
    return ()


def _set_transaction(session: SqlSession, given: Arguments) -> Iterable[Row]:
    at = given["version"]
    if given["as_of"] is not None:
        at = time_of(given["as_of"])
    session.set_next(given["label"], at)
    return ()


def _abort_transactions(session: SqlSession, given: Arguments) -> Iterable[Row]:
    for txn_id in _required(given, "ids"):
        try:
            session.client.abort(txn_id, f"ABORT TRANSACTIONS by {session.client.owner}")
        except TxnError as error:  # of several each is told about
            yield txn_id, False, error.message
        else:
            yield txn_id, True, None


def _locks(session: SqlSession, given: Arguments) -> Iterable[Row]:
    return system_tables.locks(session.client, given["table_name"], _partition(session, given) or "")


def _lock(session: SqlSession, given: Arguments) -> Iterable[Row]:
    mode: LockMode = given["mode"]
    with session.using("LOCK TABLE") as txn:
        partition = _partition(session, given)
        txn.lock(given["table_name"], mode, partition=partition, lock_timeout=given["wait_seconds"])
    return ()


def _compact(session: SqlSession, given: Arguments) -> Iterable[Row]:
    table, partition = given["table_name"], given["partition"] or None
    kind = _required(given, "kind").lower()
    found = session.client.compact(table, partition, kind, wait=bool(given["wait"]))
    return ((each.compaction_id, each.partition, each.kind, each.state) for each in found)


def _grant(session: SqlSession, given: Arguments) -> Iterable[Row]:
    session.client.grant(given["role"], given["identity"], on=given["object"])
    return ()


def _revoke(session: SqlSession, given: Arguments) -> Iterable[Row]:
    session.client.revoke(given["role"], given["identity"], on=given["object"])
    return ()


def _grants(session: SqlSession, _: Arguments) -> Iterable[Row]:
    return ((each.on, each.identity, each.role) for each in session.client.grants())


def _undo(session: SqlSession, given: Arguments) -> Iterable[Row]:
    yield _receipt(session.client.undo(given["txn_id"]))


def _restore(session: SqlSession, given: Arguments) -> Iterable[Row]:
    points = [given["savepoint"], given["version"]]
    if given["as_of"] is not None:
        points.append(time_of(given["as_of"]))
    to = [each for each in points if each is not None]
    if len(to) != 1:
        raise InvalidArgument("restore: give one of savepoint, version and as_of")
    yield _receipt(session.client.restore(to[0], given["tables"]))


def _required(given: Arguments, name: str) -> Any:
    """Raises InvalidArgument for NULL."""
    if given[name] is None:
        raise InvalidArgument(f"{name} is NULL: give it a value")
    return given[name]


def _partition(session: SqlSession, given: Arguments) -> str | None:
    """The name of the partition that is meant. Raises InvalidArgument."""
    if not given["partition"]:
        return None
    return name_of(given["partition"], session.client.table(given["table_name"]).schema, given["table_name"])


def _listed(name: str) -> Procedure:
    """A system table's rows."""
    table = system_tables.TABLES[name]
    everything = system_tables.Wanted()
    return Procedure(table.description, table.columns, lambda session, _: table.rows(session.client, everything))


_RECEIPT = "txn_id BIGINT, commit_timestamp BIGINT, tables STRING"
_NAME = Parameter("name", "STRING")
_TABLE = Parameter("table_name", "STRING")
_OF_ROLE = (Parameter("role", "STRING"), Parameter("identity", "STRING"), Parameter("object", "STRING", "NULL"))
_PARTITION = Parameter("partition", "MAP<STRING, STRING>", "NULL")

PROCEDURES: Mapping[str, Procedure] = {
    "begin": Procedure(
        "Begins a transaction: the session's statements are part of it.", "txn_id BIGINT", _begin, moves=True
    ),
    "commit": Procedure(
        "Commits the session's transaction.",
        _RECEIPT,
        _commit,
        moves=True,
    ),
    "rollback": Procedure("Rolls the session's transaction back.", "txn_id BIGINT", _rollback, moves=True),
    "savepoint": Procedure("Sets a savepoint in the session's transaction.", "", _savepoint, (_NAME,)),
    "rollback_to": Procedure(
        "Takes back what the session's transaction wrote since a savepoint.",
        "",
        _rollback_to,
        (_NAME,),
        moves=True,
    ),
    "release": Procedure("Forgets a savepoint of the session's transaction.", "", _release, (_NAME,)),
    "atomic": Procedure(  # the engine runs it, by the three that follow
        "Runs a script as one transaction.", "", _step(lambda _: None), (Parameter("script", "STRING"),), moves=True
    ),
    "begin_script": Procedure("As `atomic` begins.", "", _step(SqlSession.begin_script), moves=True),
    "commit_script": Procedure("As it ends.", "", _step(SqlSession.commit_script), moves=True),
    "rollback_script": Procedure("As it fails.", "", _rollback_script, moves=True),
    "set_transaction": Procedure(
        "Says what the next transaction is called, and of which time it reads.",
        "",
        _set_transaction,
        (
            Parameter("label", "STRING", "NULL"),
            Parameter("version", "BIGINT", "NULL"),
            Parameter("as_of", "TIMESTAMP", "NULL"),
        ),
    ),
    "transactions": _listed("transactions"),
    "abort_transactions": Procedure(
        "Aborts transactions, whosever they are.",
        "txn_id BIGINT, aborted BOOLEAN, reason STRING",
        _abort_transactions,
        (Parameter("ids", "ARRAY<BIGINT>"),),
    ),
    "locks": Procedure(
        system_tables.TABLES["locks"].description,
        system_tables.TABLES["locks"].columns,
        _locks,
        (Parameter("table_name", "STRING", "''"), _PARTITION),
    ),
    "lock": Procedure(
        "Locks a table, or a partition, for the session's transaction.",
        "",
        _lock,
        (_TABLE, Parameter("mode", "STRING"), _PARTITION, Parameter("wait_seconds", "BIGINT", "NULL")),
    ),
    "compact": Procedure(
        "Asks for a compaction.",
        "compaction_id STRING, partition STRING, kind STRING, state STRING",
        _compact,
        (_TABLE, Parameter("kind", "STRING", "'major'"), _PARTITION, Parameter("wait", "BOOLEAN", "false")),
    ),
    "undo": Procedure(
        "Takes back what a transaction did, as a transaction of its own.",
        _RECEIPT,
        _undo,
        (Parameter("txn_id", "BIGINT"),),
        moves=True,
    ),
    "restore": Procedure(
        "Makes tables, or all, what they were, as a transaction of its own.",
        _RECEIPT,
        _restore,
        (
            Parameter("tables", "ARRAY<STRING>", "NULL"),
            Parameter("savepoint", "STRING", "NULL"),
            Parameter("version", "BIGINT", "NULL"),
            Parameter("as_of", "TIMESTAMP", "NULL"),
        ),
        moves=True,
    ),
    "compactions": _listed("compactions"),
    "grant": Procedure("Gives somebody a role on a table, a database, or all.", "", _grant, _OF_ROLE),
    "revoke": Procedure("Takes a role back.", "", _revoke, _OF_ROLE),
    "grants": Procedure("Who has which role.", "object STRING, identity STRING, role STRING", _grants),
}
"""Procedures by their names."""
