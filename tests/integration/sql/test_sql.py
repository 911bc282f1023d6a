"""SQL without Spark: statements of a program, one by one, in scripts, and between BEGIN and COMMIT."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from tests import blocks
from txnclient import (
    AlreadyExists,
    Client,
    CommitUnknown,
    Conflict,
    IllegalState,
    InvalidArgument,
    NotFound,
    Transaction,
)
from txnclient.session import Conversation
from txndeploy.local.cluster import LocalCluster

Rows = list[tuple[Any, ...]]


def rows(found: pa.Table) -> Rows:
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture
def flights(client: Client, new_table: Callable[..., str]) -> str:
    name = new_table("origin string, minutes int")
    client.sql(f"INSERT INTO {name} VALUES ('JFK', 7), ('LGA', 12), ('JFK', 9), (NULL, NULL)")
    return name


def test_a_query_is_answered_over_files_dead_rows_and_rows_changed_by_key(
    client: Client, new_table: Callable[..., str]
) -> None:
    name = new_table("id bigint, note string, day date", primary_key=["id"])
    client.sql(f"INSERT INTO {name} VALUES (1, 'a', DATE '2026-01-01'), (2, 'b', NULL), (3, 'c', NULL)")
    client.upsert(name, pa.table({"id": [3, 4], "note": ["C", "D"], "day": pa.nulls(2, pa.date32())}))
    client.delete_where(name, "id = 2")
    assert rows(client.sql(f"SELECT * FROM {name} ORDER BY id")) == [
        (1, "a", date(2026, 1, 1)),
        (3, "C", None),
        (4, "D", None),
    ]
    assert rows(client.sql(f"SELECT count(*), sum(id) FROM {name}")) == [(3, 8)]
    assert rows(client.sql(f"SELECT count(*) FROM {name} WHERE note <= 'D'")) == [(2,)]
    assert client.sql(f"SELECT sum(id) AS s FROM {name}").schema.field("s").type == pa.int64()


def test_rows_are_counted_by_manifests_where_they_tell(client: Client, new_table: Callable[..., str]) -> None:
    plain, keyed = new_table("id bigint, p string", partition_by=["p"]), new_table("id bigint", primary_key=["id"])

    def counts(table: str, session: Conversation | Client = client) -> set[int]:
        """By manifests alone, and by a look at the rows."""
        return {rows(session.sql(f"SELECT {what} FROM {table}"))[0][0] for what in ("count(*)", "count(*), 1")}

    assert counts(plain) == counts(keyed) == {0}
    client.write(pa.table({"id": range(10), "p": ["a", "b"] * 5}), plain)
    then = client.write(pa.table({"id": range(3)}), keyed).commit_timestamp
    client.delete_where(plain, "id < 3")
    client.upsert(keyed, pa.table({"id": [2, 7]}))
    assert (counts(plain), counts(keyed), counts(f"{keyed} VERSION AS OF {then}")) == ({7}, {4}, {3})
    with client.sql_session() as session:
        session.sql(f"BEGIN; DELETE FROM {plain} WHERE p = 'a'; INSERT INTO {plain} VALUES (1, 'c')")
        assert (counts(plain, session), counts(plain)) == ({5}, {7})
    assert client.sql(f"SELECT COUNT(*) AS n FROM {plain} x").to_pylist() == [{"n": 7}]
    assert client.sql(f"SELECT COUNT(*) FROM {plain}").schema == pa.schema([("count(*)", pa.int64())])
    for other in ("WHERE id > 5", "LIMIT 0", "GROUP BY p HAVING count(*) > 100", f"CROSS JOIN {keyed} WHERE false"):
        assert rows(client.sql(f"SELECT count(*) FROM {plain} {other}")) in ([], [(0,)], [(4,)]), other
    assert rows(client.sql(f"SELECT count(DISTINCT p) FROM {plain}")) == [(2,)]
    assert rows(client.sql("SELECT count(*) FROM system.locks")) == [(0,)]


def test_a_count_loads_neither_duckdb_nor_pandas(cluster: LocalCluster, client: Client, flights: str) -> None:
    """What is loaded is most of the time that `txnctl sql -c` takes."""
    asked = f"txnclient.connect({cluster.addresses!r}).sql('SELECT count(*) FROM {flights}').column(0).to_pylist()"
    loaded = "[name for name in ('duckdb', 'pandas', 'pyarrow.dataset') if name in sys.modules]"
    said = subprocess.check_output(
        [sys.executable, "-c", f"import sys, txnclient; print({asked}, {loaded})"], text=True
    )
    assert said == "[4] []\n"


def test_the_page_runs_as_pasted(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    exec(blocks.block("docs/sql.md", "client.sql_session()"), {"client": client})
    assert capsys.readouterr().out == "[{'origin': 'JFK', 'max(minutes)': 7}, {'origin': 'LGA', 'max(minutes)': 12}]\n"
    assert rows(client.sql("SELECT * FROM air.delays ORDER BY minutes")) == [("JFK", 8), ("JFK", 9)]


def test_joins_with_and_subqueries_name_tables_as_they_are_meant(client: Client, flights: str) -> None:
    database, table = flights.split(".")
    assert rows(
        client.sql(
            f"SELECT f.origin, g.minutes FROM {flights} f JOIN {flights} g ON f.minutes = g.minutes "
            "WHERE f.minutes > 8 ORDER BY 2"
        )
    ) == [("JFK", 9), ("LGA", 12)]
    assert rows(client.sql(f"SELECT {flights}.minutes, {table}.origin FROM {flights} WHERE minutes = 7")) == [
        (7, "JFK")
    ]
    shadowing = f"WITH {table} AS (SELECT max(minutes) AS m FROM txn.{flights}) SELECT m FROM {table}"
    assert rows(client.sql(shadowing)) == [(12,)]
    twice = f"WITH q AS (SELECT minutes FROM {flights}) SELECT (SELECT count(*) FROM q), (SELECT max(minutes) FROM q)"
    assert rows(client.sql(twice)) == [(4, 12)]
    with client.sql_session() as session:
        session.sql(f"USE {database}")
        inner = f"WITH {table} AS (SELECT minutes FROM {table} WHERE minutes > 8) SELECT count(*) FROM {table}"
        assert rows(session.sql(inner)) == [(2,)]
    assert rows(client.sql(f"SELECT origin FROM {flights} ORDER BY minutes LIMIT 1")) == [(None,)]  # nulls come first


def test_parameters_are_values_whatever_is_in_them(client: Client, flights: str) -> None:
    args = {"o": "it's \\ 'x'; DROP TABLE t", "m": 5, "at": datetime(2026, 1, 1, tzinfo=UTC), "x": 1.5, "n": None}
    client.sql(f"INSERT INTO {flights} VALUES (:o, :m)", args)
    assert rows(client.sql(f"SELECT origin FROM {flights} WHERE origin = :o AND minutes = :m", args)) == [(args["o"],)]
    assert rows(client.sql("SELECT :at, :x, :n", args))[0][:2] == (args["at"], 1.5)
    client.sql(f"DELETE FROM {flights} WHERE origin = :o", args)
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(4,)]
    with pytest.raises(InvalidArgument, match="parameter :nobody has no value"):
        client.sql("SELECT :nobody", args)


def test_changes_are_the_calls_of_a_transaction(client: Client, flights: str) -> None:
    assert rows(client.sql(f"UPDATE {flights} AS f SET minutes = f.minutes + 1 WHERE f.origin = 'JFK'")) == [(0, 2, 0)]
    assert rows(client.sql(f"DELETE FROM {flights} f WHERE f.minutes IS NULL")) == [(0, 0, 1)]
    merged = client.sql(
        f"MERGE INTO {flights} AS t USING (SELECT 'LGA' AS o, 20 AS m UNION ALL SELECT 'EWR', 1) AS s "
        "ON t.origin = s.o "
        "WHEN MATCHED AND s.m > 100 THEN DELETE WHEN MATCHED THEN UPDATE SET t.minutes = s.m "
        "WHEN NOT MATCHED THEN INSERT (origin, minutes) VALUES (s.o, s.m) "
        "WHEN NOT MATCHED BY SOURCE AND t.minutes > 9 THEN DELETE"
    )
    assert rows(merged) == [(1, 1, 1)]
    assert sorted(rows(client.sql(f"SELECT * FROM {flights}"))) == [("EWR", 1), ("JFK", 8), ("LGA", 20)]
    assert rows(client.sql(f"INSERT OVERWRITE {flights} SELECT origin, minutes * 2 FROM {flights}")) == [(3, 0, 0)]
    assert rows(client.sql(f"SELECT sum(minutes) FROM {flights}")) == [(58,)]
    client.sql(f"TRUNCATE TABLE {flights}")
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(0,)]


def test_inserted_values_are_stored_as_spark_stores_them(client: Client, new_table: Callable[..., str]) -> None:
    name = new_table("a bigint, b double, c string, d decimal(6,2), m int", partition_by=["m"])
    client.sql(f"INSERT INTO {name} (c, a, b, m) VALUES ('x', 1, 2.5, 1)")
    client.sql(f"INSERT INTO {name} PARTITION (m = 2) SELECT 2, 1, 'y', 3.25")
    client.sql(f"INSERT OVERWRITE {name} PARTITION (m = 1) SELECT 3, 0, 'z', 1")
    found = client.sql(f"SELECT a, b, c, CAST(d AS STRING), m FROM {name} ORDER BY a")
    assert rows(found) == [(2, 1.0, "y", "3.25", 2), (3, 0.0, "z", "1.00", 1)]
    with pytest.raises(InvalidArgument, match="column 'a' is bigint, and its new value a is string"):
        client.sql(f"INSERT INTO {name} VALUES ('1', 1, 'x', 1, 1)")
    with pytest.raises(InvalidArgument, match="2 values for the columns a, b, c, d, m"):
        client.sql(f"INSERT INTO {name} VALUES (1, 1)")
    with pytest.raises(InvalidArgument, match="out of range"):
        client.sql(f"INSERT INTO {name} VALUES (1, 1, 'x', 1, 5000000000)")


def test_a_table_that_was_filled_stays_though_the_answer_was_lost(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Transaction.commit

    def lost(txn: Transaction) -> None:
        commit(txn)
        raise CommitUnknown("no answer came", txn_id=txn.id)

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "commit", lost)
        with pytest.raises(CommitUnknown):
            client.sql("CREATE TABLE made.lost AS SELECT 1 AS n")
    assert rows(client.sql("SELECT * FROM made.lost")) == [(1,)]
    client.sql("DROP TABLE made.lost")
    with pytest.raises(InvalidArgument):
        client.sql("CREATE TABLE made.lost AS SELECT 1 AS n, 2 AS n")
    with pytest.raises(NotFound):
        client.table("made.lost")


def test_tables_are_made_shown_and_dropped(client: Client) -> None:
    client.sql(
        "CREATE TABLE made.one (id BIGINT NOT NULL, `a b` STRUCT<x: INT> COMMENT 'it\\'s', m INT) "
        "PARTITIONED BY (m) TBLPROPERTIES (primary_key = 'id, m', conflicts = 'wait')"
    )
    info = client.table("made.one")
    assert (info.schema.partition_by, info.schema.primary_key, info.conflicts) == (("m",), ("id", "m"), "wait")
    assert rows(client.sql("DESCRIBE made.one"))[1] == ("a b", "struct<x:int>", "it's")
    client.sql("CREATE TABLE made.two AS SELECT 1 AS n, 'x' AS t, sum(2) AS s")
    assert rows(client.sql("SELECT * FROM made.two")) == [(1, "x", 2)]
    assert rows(client.sql("SHOW TABLES IN made")) == [("made", "one"), ("made", "two")]
    assert rows(client.sql("SHOW TABLES IN made LIKE 't*'")) == [("made", "two")]
    assert ("made",) in rows(client.sql("SHOW DATABASES"))
    client.sql("ALTER TABLE made.one SET TBLPROPERTIES (compact_delta_num = '7')")
    assert client.table("made.one").properties == {"compact_delta_num": "7"}
    with pytest.raises(InvalidArgument, match="stays in its database"):
        client.sql("ALTER TABLE made.one RENAME TO elsewhere.one")
    client.sql("DROP TABLE made.one")
    client.sql("DROP TABLE IF EXISTS made.one")
    with pytest.raises(NotFound):
        client.sql("DROP TABLE made.one")
    with pytest.raises(AlreadyExists):
        client.sql("CREATE TABLE made.two (a int)")


def test_a_session_begins_and_commits(client: Client, flights: str) -> None:
    with client.sql_session() as session:
        session.sql("SET TRANSACTION LABEL 'nightly'; BEGIN")
        session.sql(f"INSERT INTO {flights} VALUES ('EWR', 1)")
        assert rows(session.sql(f"SELECT count(*) FROM {flights}")) == [(5,)]
        assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(4,)]
        assert "nightly" in {row[3] for row in rows(session.sql("SHOW TRANSACTIONS"))}
        with pytest.raises(IllegalState, match="outside of transactions"):
            session.sql("CREATE TABLE t.never (a int)")
        with pytest.raises(IllegalState, match="is open in this session"):
            session.sql("BEGIN")
        ((txn_id, at, tables),) = rows(session.sql("COMMIT"))
        assert tables == flights
        assert client.get(txn_id).commit_timestamp == at
        assert rows(session.sql(f"SELECT count(*) FROM {flights} VERSION AS OF {at}")) == [(5,)]
        assert rows(session.sql(f"SELECT count(*) FROM {flights} VERSION AS OF {at - 1}")) == [(4,)]
        with pytest.raises(IllegalState, match="no transaction is open"):
            session.sql("COMMIT")
        session.sql(f"BEGIN TRANSACTION; DELETE FROM {flights}; ROLLBACK")
        session.sql(f"START TRANSACTION; DELETE FROM {flights}")
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(5,)]


def test_a_statement_that_fails_leaves_a_transaction_to_be_rolled_back(client: Client, flights: str) -> None:
    with client.sql_session() as session:
        session.sql(f"BEGIN; INSERT INTO {flights} VALUES ('EWR', 1)")
        with pytest.raises(InvalidArgument):
            session.sql(f"INSERT INTO {flights} SELECT origin, CAST(origin AS INT) FROM {flights}")
        with pytest.raises(IllegalState, match="COMMIT is refused"):
            session.sql("COMMIT")
        session.sql("ROLLBACK")
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(4,)]


def test_a_session_that_is_closed_runs_nothing_more(client: Client, flights: str) -> None:
    with client.sql_session() as session:
        session.sql("BEGIN")
        session.sql(f"DELETE FROM {flights}")
    for statement in ("BEGIN", "COMMIT", f"SELECT count(*) FROM {flights}", f"DELETE FROM {flights}", "SHOW TABLES"):
        with pytest.raises(IllegalState, match=f"{statement.split()[0]}.*: this SQL session is closed"):
            session.sql(statement)
    assert client.sql(f"SELECT count(*) > 0 AS there FROM {flights}")["there"].to_pylist() == [True]
    session.close()


@pytest.mark.parametrize(
    ("name", "is_possible"), [("x" * 128, True), ("ü" * 128, True), ("x" * 129, False), ("ü" * 129, False)]
)
def test_names_of_savepoints_are_counted_in_characters(client: Client, name: str, is_possible: bool) -> None:
    with client.sql_session() as session:
        session.sql("BEGIN")
        if is_possible:
            session.sql(f"SAVEPOINT `{name}`; ROLLBACK TO `{name}`")
        else:
            with pytest.raises(InvalidArgument, match="1 to 128 printable characters"):
                session.sql(f"SAVEPOINT `{name}`")


def test_a_session_goes_back_to_a_savepoint(client: Client, flights: str) -> None:
    count = f"SELECT count(*) AS n FROM {flights}"

    def counted() -> int:
        return int(session.sql(count)["n"][0].as_py())

    with client.sql_session() as session:
        with pytest.raises(IllegalState, match="SAVEPOINT: no transaction is open"):
            session.sql("SAVEPOINT a")
        before = counted()
        session.sql("BEGIN")
        session.sql("SAVEPOINT a")
        session.sql(f"DELETE FROM {flights}; SAVEPOINT b")
        assert counted() == 0
        with pytest.raises(InvalidArgument):
            session.sql(f"INSERT INTO {flights} VALUES ('no', 'number', 'of', 'columns', 'fits', 'this')")
        with pytest.raises(IllegalState, match="COMMIT is refused") as error:
            session.sql("COMMIT")
        assert error.value.hint == "ROLLBACK TO b, or ROLLBACK"
        session.sql("ROLLBACK TO SAVEPOINT A")
        assert counted() == before
        with pytest.raises(NotFound, match="no savepoint 'b'"):
            session.sql("ROLLBACK TO b")
        session.sql("RELEASE a; COMMIT")
        assert counted() == before
    with client.transaction() as txn:
        txn.sql(f"SAVEPOINT a; DELETE FROM {flights}; ROLLBACK TO a; DELETE FROM {flights} WHERE false")
    assert client.sql(count)["n"][0].as_py() == before


def test_tables_are_restored_to_a_savepoint_a_version_and_a_time(client: Client, flights: str) -> None:
    """Names of tables were refused: an array could have nothing but numbers in it."""
    name = f"before {flights}"
    client.savepoint(name, [flights])
    then = client.snapshot().timestamp
    try:
        for to in (f"SAVEPOINT '{name}'", f"VERSION {then}", f"TIMESTAMP '{datetime.now(UTC).isoformat()}'"):
            client.sql(f"DELETE FROM {flights} WHERE minutes > 8")
            assert rows(client.sql(f"RESTORE TABLES {flights} TO {to}"))[0][2] == flights
            assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(4,)]
    finally:
        client.release_savepoint(name)


def test_a_script_is_one_transaction(client: Client, flights: str) -> None:
    found = client.sql(f"INSERT INTO {flights} VALUES (';', 1); SELECT count(*) FROM {flights} -- ;\n;", label="both")
    assert rows(found) == [(5,)]
    assert [each.label for each in client.transactions(participant=flights, limit=1)] == ["both"]
    with pytest.raises(InvalidArgument):
        client.sql(f"DELETE FROM {flights}; DELETE FROM {flights} WHERE nothing = 1; SELECT 1")
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(5,)]
    block = (
        f"BEGIN ATOMIC DELETE FROM {flights} WHERE CASE WHEN minutes = 1 THEN true ELSE false END; SELECT 'x' AS x; END"
    )
    assert rows(client.sql(block)) == [("x",)]
    with pytest.raises(IllegalState, match="begins a transaction"):
        client.sql("BEGIN")
    with client.transaction() as txn:
        txn.sql(f"INSERT INTO {flights} VALUES ('a', 1)")
        assert rows(txn.sql(f"SELECT count(*) FROM {flights}")) == [(5,)]
        with pytest.raises(IllegalState):
            txn.sql("COMMIT")
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(5,)]


@pytest.mark.parametrize("what", [(None,), (b"SELECT 1",), (["SELECT 1"],), (1, "SELECT 1"), (1, "", [1])])
def test_what_is_no_sql_is_refused(client: Client, what: tuple[object, ...]) -> None:
    with pytest.raises(InvalidArgument, match=r"SQL is text|spark is a SparkSession|args are values"):
        client.sql(*what)  # type: ignore[call-overload]


def test_tables_are_restored_by_a_statement(client: Client, flights: str) -> None:
    client.savepoint(f"before {flights}", [flights])
    client.sql(f"DELETE FROM {flights}")
    client.sql(f"RESTORE TABLES {flights}, {flights} TO SAVEPOINT 'before {flights}'")
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(4,)]


def test_names_in_a_script_are_no_words_of_it(client: Client) -> None:
    client.sql("CREATE TABLE words.of (`end` int, `case` int)")
    script = (
        "INSERT INTO words.of VALUES (1, 2); SELECT `end`, o.case, o.end FROM words.of o; SELECT `case` FROM words.of"
    )
    for text in (script, f"BEGIN ATOMIC {script}; END"):
        assert {*rows(client.sql(text))} == {(2,)}
    assert rows(client.sql("SELECT count(*) FROM words.of")) == [(2,)]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (f"SNAPSHOT {(1 << 63) - 1}", "in the future"),
        ("SNAPSHOT -1", "no point in time"),
        (f"SNAPSHOT {1 << 63}", "expected BIGINT"),
        ("SNAPSHOT TIMESTAMP '2999-01-01'", "in the future"),
        ("SNAPSHOT TIMESTAMP '0001-01-01 00:00:00+14:00'", "is no time"),
        (f"LABEL '{'x' * 257}'", "257 characters"),
    ],
)
def test_what_no_transaction_can_have_does_not_stay_with_the_session(client: Client, what: str, said: str) -> None:
    with client.sql_session() as session:
        with pytest.raises(InvalidArgument, match=said):
            session.sql(f"SET TRANSACTION {what}")
        session.sql("BEGIN; COMMIT")


def test_of_two_sessions_the_first_to_commit_wins(client: Client, flights: str) -> None:
    with client.sql_session() as one, client.sql_session() as other:
        for session in (one, other):
            session.sql(f"BEGIN; UPDATE {flights} SET minutes = minutes + 1 WHERE origin = 'LGA'")
        one.sql("COMMIT")
        with pytest.raises(Conflict):
            other.sql("COMMIT")
    assert rows(client.sql(f"SELECT minutes FROM {flights} WHERE origin = 'LGA'")) == [(13,)]


def test_locks_and_operators_statements(client: Client, flights: str) -> None:
    with client.sql_session() as session:
        ((txn_id,),) = rows(session.sql("BEGIN"))
        session.sql(f"LOCK TABLE {flights} IN EXCLUSIVE MODE")
        assert rows(session.sql(f"SHOW LOCKS {flights}"))[0][:4] == (flights, "X", True, txn_id)
        assert rows(client.sql(f"ABORT TRANSACTIONS {txn_id} 999999999"))[0][:2] == (txn_id, True)
        with pytest.raises(InvalidArgument, match="ids is"):
            session.sql("ABORT TRANSACTIONS 'x'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELEC 1", "does not read as Spark SQL"),
        ("SAVEPOINTS x", "does not read as Spark SQL"),
        ("SELECT * FROM", "Expected table name but got nothing more, at character 13"),
        ("DELETE FROM WHERE minutes = 1", "Expected table name but got 'WHERE', at character 17"),
        ("ABORT TRANSACTIONS true", "at 'true'"),
        ("SELECT 'x", "does not read as SQL"),
        ("SELECT * FROM nobody", "a table is named database.table"),
        ("SELECT * FROM parquet.`/etc/passwd`", "."),
        ("SELECT * FROM read_csv('/etc/passwd')", "."),
        ("SELECT 1 / 0 FROM {t}", "."),
        ("SELECT nothing FROM {t}", "nothing"),
        ("SELECT no_such_function(minutes) FROM {t}", "no_such_function"),
        ("INSERT INTO {t} REPLACE WHERE minutes > 1 SELECT 'a', 2", "WHERE is nothing that can be done"),
        ("CREATE VIEW t.v AS SELECT 1", "only tables"),
        ("CREATE TABLE t.x (a int DEFAULT 1 + 1)", "a default is a literal"),
        ("CREATE TABLE t.x (a int UNIQUE)", "NOT NULL, DEFAULT and COMMENT"),
        ("EXPLAIN SELECT 1", "nothing that can be done without Spark"),
        ("MERGE INTO {t} USING {t} ON 1 = 1 WHEN MATCHED THEN DELETE", "has no name of its own"),
        ("SHOW TABLE", "expected SHOW TABLES"),
        ("SHOW TRANSACTION", "SHOW TRANSACTIONS"),
        ("BEGIN ATOMIC SELECT 1", "expected BEGIN ATOMIC statements END"),
        ("SELECT * FROM {t} VERSION AS OF 'x'", "a version is"),
        ("UPDATE {t} SET minutes = 1, minutes = 2", "set twice"),
        (f"ABORT TRANSACTIONS 1 {1 << 63}", "expected ARRAY<BIGINT>"),
    ],
)
def test_what_cannot_be_done_is_refused_and_says_why(client: Client, flights: str, text: str, said: str) -> None:
    with pytest.raises((InvalidArgument, NotFound), match=said):
        client.sql(text.format(t=flights))
    assert rows(client.sql(f"SELECT count(*) FROM {flights}")) == [(4,)]
