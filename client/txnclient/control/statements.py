"""The control statements: what each looks like, and which procedure it calls.

A further statement is one entry of STATEMENTS; what it does is a procedure of `procedures.py`, which `CALL` runs, too.
An engine asks about what its own parser has refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from txnclient.control.words import Words, literal
from txnstatus.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Call:
    """A procedure, and its arguments as SQL."""

    procedure: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    catalog: str = ""
    """Empty: that of the session."""
    script: str = ""
    """A script that it runs, in which parameters are not replaced yet."""


Reader = Callable[[Words], Call | None]
"""Reads what follows the words by which a statement is known; None: it is another engine's statement."""


def called(words: Words) -> dict[str, str] | None:
    """The CALL of the statement, and the script where it has one; None: it is no statement of ours.

    Raises InvalidArgument for one that is wrong.
    """
    if (call := read(words)) is None:
        return None
    place = f"CALL `{call.catalog or words.session.any()}`.system.{call.procedure}"
    if call.script:
        return {"call": place, "script": call.script}
    given = ", ".join(f"{name} => {value}" for name, value in call.arguments.items())
    return {"call": f"{place}({given})"}


def read(words: Words) -> Call | None:
    """What the statement calls; None: it is no statement of ours. Raises InvalidArgument for one that is wrong."""
    for usage, reader in STATEMENTS.items():
        words.restart(usage)
        if words.skip(*_head(usage)) and (call := reader(words)) is not None:
            words.require_end()
            return call
    return None


def _head(usage: str) -> list[str]:
    """The words by which a statement is known: those before what can be otherwise."""
    return re.split(r" (?=\[|[a-z'])", usage, maxsplit=1)[0].split()


# ---- readers


def _begin(words: Words) -> Call | None:
    if not words.skip_any("TRANSACTION", "WORK") and not words.ended:
        return None  # a block of Spark's own, in which something is wrong
    return Call("begin")


def _atomic(words: Words) -> Call:
    return Call("atomic", script=words.read_script())


def _start(words: Words) -> Call:
    return Call("begin")


def _commit(words: Words) -> Call:
    words.skip_any("TRANSACTION", "WORK")
    return Call("commit")


def _rollback(words: Words) -> Call:
    words.skip_any("TRANSACTION", "WORK")
    if not words.skip("TO"):
        return Call("rollback")
    words.skip_any("SAVEPOINT")
    return Call("rollback_to", _savepoint_name(words))


def _savepoint(words: Words) -> Call:
    return Call("savepoint", _savepoint_name(words))


def _release(words: Words) -> Call:
    words.skip_any("SAVEPOINT")
    return Call("release", _savepoint_name(words))


def _savepoint_name(words: Words) -> dict[str, str]:
    """An identifier: large letters and small ones are the same."""
    return {"name": literal(words.read_name().lower())}


def _set_label(words: Words) -> Call:
    return _set(label=words.read_value())


def _set_snapshot(words: Words) -> Call:
    if words.skip("TIMESTAMP"):
        return _set(as_of=_read_time(words))
    return _set(version=words.read_value())


def _read_time(words: Words) -> str:
    value = words.read_value()
    return value if value[0] == ":" else f"TIMESTAMP {value}"


def _set(**given: str) -> Call:
    # Spark does not find defaults beside named arguments of which it casts one.
    return Call("set_transaction", {"label": "NULL", "version": "NULL", "as_of": "NULL"} | given)


def _abort(words: Words) -> Call:
    ids = [words.read_value()]
    while not words.ended:
        words.skip(",")
        ids.append(words.read_value())
    return Call("abort_transactions", {"ids": f"array({', '.join(ids)})"})


def _show_locks(words: Words) -> Call:
    if words.ended:
        return Call("locks")
    if words.skip_any("DATABASE", "SCHEMA"):
        catalog, database = words.read_database()
        words.skip("EXTENDED")
        return Call("locks", {"table_name": literal(database), "partition": "NULL"}, catalog)
    catalog, table = words.read_table()
    partition = words.read_partition()
    words.skip("EXTENDED")
    return Call("locks", {"table_name": literal(table), "partition": partition}, catalog)


def _lock(words: Words) -> Call:
    catalog, table = words.read_table()
    partition = words.read_partition()
    words.skip("IN")
    mode = "X" if words.skip_any("EXCLUSIVE") else "S"
    if mode == "S":
        words.require("SHARED")
    words.skip("MODE")
    wait = "0" if words.skip("NOWAIT") else words.read_value() if words.skip("WAIT") else "NULL"
    given = {"table_name": literal(table), "mode": literal(mode), "partition": partition, "wait_seconds": wait}
    return Call("lock", given, catalog)


def _grant(words: Words) -> Call:
    return _of_role(words, "grant", "TO")


def _revoke(words: Words) -> Call:
    return _of_role(words, "revoke", "FROM")


def _of_role(words: Words, procedure: str, before_whom: str) -> Call:
    role, catalog, on = literal(words.read_name().lower()), "", "NULL"
    words.require("ON")
    if words.skip("DATABASE"):
        catalog, database = words.read_database()
        on = literal(database)
    elif not words.skip("CLUSTER"):
        words.skip("TABLE")
        catalog, table = words.read_table()
        on = literal(table)
    words.require(before_whom)
    return Call(procedure, {"role": role, "identity": words.read_text(), "object": on}, catalog)


def _compact(words: Words) -> Call | None:
    if "COMPACT" not in map(str.upper, words.words):
        return None  # another ALTER TABLE, in which something is wrong
    catalog, table = words.read_table()
    partition = words.read_partition()
    words.require("COMPACT")
    kind = words.read_value()
    waits = words.skip("AND", "WAIT")
    return Call(
        "compact",
        {"table_name": literal(table), "kind": kind, "partition": partition, "wait": str(waits).lower()},
        catalog,
    )


def _undo(words: Words) -> Call:
    return Call("undo", {"txn_id": words.read_value()})


def _restore(words: Words) -> Call:
    given, catalog, tables = {"savepoint": "NULL", "version": "NULL", "as_of": "NULL"}, "", list[str]()
    before = ""
    while not words.skip("TO"):
        if tables:
            words.require(",")
        other, table = words.read_table()
        if tables and other != catalog:
            raise InvalidArgument(
                f"{before} is in catalog {catalog}, and {other}.{table} in {other}",
                hint="a restore is a transaction of one cluster: say one for each",
            )
        catalog, before = other, table
        tables.append(literal(table))
    if words.skip("SAVEPOINT"):
        given["savepoint"] = words.read_value()
    elif words.skip("VERSION"):
        given["version"] = words.read_value()
    else:
        words.require("TIMESTAMP")
        given["as_of"] = _read_time(words)
    return Call("restore", {"tables": f"array({', '.join(tables)})" if tables else "NULL", **given}, catalog)


STATEMENTS: Mapping[str, Reader] = {
    "BEGIN ATOMIC statements END": _atomic,
    "BEGIN [TRANSACTION | WORK]": _begin,
    "START TRANSACTION": _start,
    "COMMIT [TRANSACTION | WORK]": _commit,
    "ROLLBACK [TRANSACTION | WORK] [TO [SAVEPOINT] name]": _rollback,
    "SAVEPOINT name": _savepoint,
    "RELEASE [SAVEPOINT] name": _release,
    "SET TRANSACTION LABEL 'label'": _set_label,
    "SET TRANSACTION SNAPSHOT [TIMESTAMP] value": _set_snapshot,
    "SHOW TRANSACTIONS": lambda _: Call("transactions"),
    "ABORT TRANSACTIONS id ...": _abort,
    "SHOW LOCKS [table [PARTITION (column = value, ...)] | DATABASE database] [EXTENDED]": _show_locks,
    "LOCK TABLE table [PARTITION (column = value, ...)] [IN] SHARED | EXCLUSIVE [MODE] [NOWAIT | WAIT seconds]": _lock,
    "GRANT role ON [TABLE] table | DATABASE database | CLUSTER TO identity": _grant,
    "REVOKE role ON [TABLE] table | DATABASE database | CLUSTER FROM identity": _revoke,
    "SHOW GRANTS": lambda _: Call("grants"),
    "SHOW COMPACTIONS": lambda _: Call("compactions"),
    "UNDO TRANSACTION id": _undo,
    "RESTORE TABLES [table, ...] TO SAVEPOINT 'name' | VERSION timestamp | TIMESTAMP 'time'": _restore,
    "ALTER TABLE table [PARTITION (column = value, ...)] COMPACT 'minor' | 'major' [AND WAIT]": _compact,
}
"""Statements by what they look like: small letters stand for what a program says."""
