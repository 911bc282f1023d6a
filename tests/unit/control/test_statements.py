"""Control statements of SQL: what calls what, what is refused, and what is left to the engine."""

from __future__ import annotations

import re

import pytest

from txnclient.control.procedures import PROCEDURES
from txnclient.control.statements import STATEMENTS, called
from txnclient.control.words import Session, Words
from txnstatus.errors import InvalidArgument

SESSION = Session(["txn"], "txn", ["air"])
_WORD = re.compile(r"--[^\n]*|('(?:[^'\\]|\\.)*'|`(?:[^`]|``)+`|\w[\w.]*(?=\W|$)|[^\s])")


def words(text: str, session: Session = SESSION) -> Words:
    """As a lexer has them that knows no more than these tests need."""
    found = [(match[1], match.end()) for match in _WORD.finditer(re.sub(r"(?<=[a-z`])\.", " . ", text)) if match[1]]
    return Words(re.sub(r"(?<=[a-z`])\.", " . ", text), [each for each, _ in found], [end for _, end in found], session)


def call(text: str, session: Session = SESSION) -> str | None:
    found = called(words(text, session))
    return None if found is None else found["call"].removeprefix("CALL `txn`.system.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BEGIN", "begin()"),
        ("begin transaction;", "begin()"),
        ("-- now\nBEGIN work ; ;", "begin()"),
        ("START TRANSACTION", "begin()"),
        ("commit", "commit()"),
        ("COMMIT WORK", "commit()"),
        ("ROLLBACK TRANSACTION", "rollback()"),
        ("SAVEPOINT a", "savepoint(name => 'a')"),
        ("rollback to A;", "rollback_to(name => 'a')"),
        ("ROLLBACK WORK TO SAVEPOINT `a b`", "rollback_to(name => 'a b')"),
        ("RELEASE SAVEPOINT a", "release(name => 'a')"),
        ("release a", "release(name => 'a')"),
        ("SET TRANSACTION LABEL 'it\\'s'", "set_transaction(label => 'it\\'s', version => NULL, as_of => NULL)"),
        ("SET TRANSACTION LABEL :label", "set_transaction(label => :label, version => NULL, as_of => NULL)"),
        ("SET TRANSACTION SNAPSHOT 42", "set_transaction(label => NULL, version => 42, as_of => NULL)"),
        (
            "SET TRANSACTION SNAPSHOT TIMESTAMP '2026-01-31 10:00:00'",
            "set_transaction(label => NULL, version => NULL, as_of => TIMESTAMP '2026-01-31 10:00:00')",
        ),
        (
            "SET TRANSACTION SNAPSHOT TIMESTAMP :at",
            "set_transaction(label => NULL, version => NULL, as_of => :at)",
        ),
        ("SHOW TRANSACTIONS", "transactions()"),
        ("UNDO TRANSACTION 5;", "undo(txn_id => 5)"),
        ("undo transaction :id", "undo(txn_id => :id)"),
        (
            "RESTORE TABLES flights, ops.legs TO SAVEPOINT 'before load'",
            "restore(tables => array('air.flights', 'ops.legs'), savepoint => 'before load', version => NULL, "
            "as_of => NULL)",
        ),
        (
            "RESTORE TABLES TO TIMESTAMP '2026-01-31 10:00:00'",
            "restore(tables => NULL, savepoint => NULL, version => NULL, as_of => TIMESTAMP '2026-01-31 10:00:00')",
        ),
        (
            "RESTORE TABLES flights TO VERSION 42",
            "restore(tables => array('air.flights'), savepoint => NULL, version => 42, as_of => NULL)",
        ),
        ("ABORT TRANSACTIONS 5 7 9", "abort_transactions(ids => array(5, 7, 9))"),
        ("ABORT TRANSACTIONS 5, :other", "abort_transactions(ids => array(5, :other))"),
        ("SHOW LOCKS", "locks()"),
        ("SHOW LOCKS flights EXTENDED", "locks(table_name => 'air.flights', partition => NULL)"),
        ("SHOW LOCKS DATABASE air EXTENDED", "locks(table_name => 'air', partition => NULL)"),
        ("SHOW LOCKS SCHEMA txn.air", "locks(table_name => 'air', partition => NULL)"),
        (
            "LOCK TABLE txn.air.flights PARTITION (month = 1, day = -2) IN EXCLUSIVE MODE",
            "lock(table_name => 'air.flights', mode => 'X', partition => "
            "map('month', CAST(1 AS STRING), 'day', CAST(-2 AS STRING)), wait_seconds => NULL)",
        ),
        (
            "LOCK TABLE air.flights SHARED",
            "lock(table_name => 'air.flights', mode => 'S', partition => NULL, wait_seconds => NULL)",
        ),
        (
            "LOCK TABLE air.flights IN SHARED MODE NOWAIT",
            "lock(table_name => 'air.flights', mode => 'S', partition => NULL, wait_seconds => 0)",
        ),
        (
            "LOCK TABLE air.flights EXCLUSIVE WAIT 5",
            "lock(table_name => 'air.flights', mode => 'X', partition => NULL, wait_seconds => 5)",
        ),
        ("SHOW COMPACTIONS", "compactions()"),
        (
            "ALTER TABLE `flüge`.t COMPACT 'minor'",
            f"compact(table_name => CAST(X'{'flüge.t'.encode().hex()}' AS STRING), kind => 'minor', "
            "partition => NULL, wait => false)",
        ),
        (
            "ALTER TABLE air.flights PARTITION (day = 'a b') COMPACT 'major' AND WAIT",
            "compact(table_name => 'air.flights', kind => 'major', "
            "partition => map('day', CAST('a b' AS STRING)), wait => true)",
        ),
    ],
)
def test_what_a_statement_calls(text: str, expected: str) -> None:
    assert call(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELEKT 1",
        "BEGIN SELEKT 1; END",
        "SHOW TABELS",
        "ALTER TABLE air.t ADD COLUM x int",
        "CALL txn.system.x(",
    ],
)
def test_what_is_left_to_the_engine(text: str) -> None:
    assert call(text) is None


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("COMMIT later", "at 'later'"),
        ("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE", "at 'ISOLATION'"),
        ("START TRANSACTION READ", "at 'READ'"),
        ("SAVEPOINT", "at its end"),
        ("SAVEPOINT 'a'", "at \"'a'\""),
        ("SAVEPOINT a b", "at 'b'"),
        ("ROLLBACK TO", "at its end"),
        ("RELEASE SAVEPOINT", "at its end"),
        ("SET TRANSACTION LABEL", "at its end"),
        ("SET TRANSACTION LABEL nightly", "at 'nightly'"),
        ("UNDO TRANSACTION", "at its end"),
        ("UNDO TRANSACTION 5 6", "at '6'"),
        ("RESTORE TABLES flights", "at its end"),
        ("RESTORE TABLES flights legs TO VERSION 5", "at 'legs'"),
        ("RESTORE TABLES flights TO 5", "at '5'"),
        ("ABORT TRANSACTIONS", "at its end"),
        ("ABORT TRANSACTIONS all", "at 'all'"),
        ("SHOW LOCKS DATABASE", "at its end"),
        ("SHOW LOCKS DATABASE air.flights", "'air.flights' is no database of txn"),
        ("LOCK TABLE air.flights", "at its end"),
        ("LOCK TABLE air.flights EXCLUSIVE WAIT", "at its end"),
        ("LOCK TABLE air.flights PARTITION (month) SHARED", r"at '\)'"),
        ("ALTER TABLE air.flights COMPACT", "at its end"),
        ("ALTER TABLE air.flights COMPACT 'minor' AND", "at 'AND'"),
        ("BEGIN ATOMIC SELECT 1", "at its end"),
    ],
)
def test_what_is_wrong_is_told_with_what_is_right(text: str, at: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{at}: expected {text.split()[0]}"):
        call(text)


def test_a_table_that_is_in_no_catalog_of_ours() -> None:
    elsewhere = Session(["txn"], "spark_catalog", ["default"])
    for name in ("flights", "air.flights", "spark_catalog.air.flights"):
        with pytest.raises(InvalidArgument, match=f"'{name}' is no table of txn"):
            call(f"LOCK TABLE {name} SHARED", elsewhere)
    assert call("LOCK TABLE txn.air.flights SHARED", elsewhere) is not None


def test_a_restore_is_of_one_catalogs_tables() -> None:
    """All tables were looked for in the last catalog, where others may have their names."""
    several = Session(["one", "two"], "one", ["air"])
    assert call("RESTORE TABLES flights, one.air.legs TO VERSION 5", several) is not None
    with pytest.raises(InvalidArgument, match=r"flights is in catalog one, and two\.air\.legs in two"):
        call("RESTORE TABLES flights, two.air.legs TO VERSION 5", several)


def test_which_catalog_is_meant() -> None:
    several = Session(["one", "two"], "spark_catalog", [])
    with pytest.raises(InvalidArgument, match="which of the catalogs one, two"):
        call("COMMIT", several)
    for catalog in several.catalogs:
        found = called(words("COMMIT", Session(several.catalogs, catalog, [])))
        assert found == {"call": f"CALL `{catalog}`.system.commit()"}


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("BEGIN ATOMIC SELECT 1; END", "BEGIN SELECT 1; END"),
        ("BEGIN ATOMIC\n  SELECT 1; SELECT 2 -- the last\nEND;", "BEGIN\n  SELECT 1; SELECT 2; END"),
        ("BEGIN ATOMIC SELECT ';'; BEGIN SELECT 2; END END", "BEGIN SELECT ';'; BEGIN SELECT 2; END; END"),
        ("BEGIN ATOMIC END", "BEGIN END"),
        ("\n-- ü\n\tBegin\n atomic SELECT 1; END", "BEGIN SELECT 1; END"),
    ],
)
def test_a_script_is_a_block_of_the_engines_own_with_its_words_where_they_were(text: str, script: str) -> None:
    found = called(words(text))
    assert found is not None
    assert found["call"] == "CALL `txn`.system.atomic"
    assert found["script"].lstrip() == script
    body = text.upper().index("ATOMIC") + len("ATOMIC")
    assert [each.count("\n", 0, body) for each in (found["script"], text)] == [text.count("\n", 0, body)] * 2
    assert found["script"][body:].startswith(text[body : text.upper().rindex("END")].partition("--")[0].rstrip("; "))


def test_every_statement_calls_a_procedure_that_there_is() -> None:
    source = {name for each in STATEMENTS.values() for name in each.__code__.co_consts if isinstance(name, str)}
    assert {"begin", "commit", "rollback", "lock", "compact"} <= source & PROCEDURES.keys()
