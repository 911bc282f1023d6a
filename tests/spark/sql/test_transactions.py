"""Transactions that SQL begins and ends: BEGIN, COMMIT and their like, scripts, and how they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException

from tests.spark.sql.looking import found, ids, there
from txnclient import Client
from txnclient.sparksql import attach, detach
from txnstatus.errors import Conflict, IllegalState, InvalidArgument, NotFound, TxnAborted
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
pytestmark = pytest.mark.usefixtures("nothing_left")


def only(frame: DataFrame) -> Row:
    (row,) = frame.collect()
    return row


@pytest.mark.parametrize("begin", ["BEGIN", "/* one */ begin Transaction -- now\n;", "START TRANSACTION"])
def test_statements_see_one_time_and_commit_together(sql: Sql, client: Client, new_table: NewTable, begin: str) -> None:
    one, other = new_table("id bigint"), new_table("id bigint")
    client.write(ids(1), one)
    begun = only(sql(begin))
    sql(f"INSERT INTO txn.{one} VALUES (2)")
    client.write(ids(9), other)
    sql(f"INSERT INTO txn.{other} SELECT id + 10 FROM txn.{one}")
    client.write(ids(3), one)
    assert found(sql(f"SELECT * FROM txn.{one}")) == [1, 2]
    assert (there(client, one), there(client, other)) == ([1, 3], [9])
    receipt = only(sql("COMMIT"))
    assert (there(client, one), there(client, other)) == ([1, 2, 3], [9, 11, 12])
    assert (receipt.txn_id, receipt.tables) == (begun.txn_id, ", ".join(sorted([one, other])))
    assert receipt.commit_timestamp == client.last_commit()
    sql(f"INSERT INTO txn.{one} VALUES (4)")
    assert there(client, one) == [1, 2, 3, 4], "each statement is a transaction again"


def test_a_rollback_leaves_nothing(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    sql(f"CACHE TABLE txn.{table}")
    txn_id = only(sql("BEGIN")).txn_id
    sql(f"INSERT INTO txn.{table} VALUES (1)")
    assert found(sql(f"SELECT * FROM txn.{table}")) == [1]
    sql(f"CACHE TABLE txn.{table}")
    assert only(sql("ROLLBACK")).txn_id == txn_id
    assert there(client, table) == found(sql(f"SELECT * FROM txn.{table}")) == []
    assert client.get(txn_id).state in (TxnState.ABORTED, TxnState.ABORT_IN_PROGRESS)


def test_the_first_to_commit_wins(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    client.write(ids(1), table)
    sql("BEGIN")
    sql(f"UPDATE txn.{table} SET id = id + 1")
    client.write(ids(5), table, "overwrite")
    with pytest.raises(Conflict, match=table):
        sql("COMMIT")
    assert there(client, table) == [5]
    with pytest.raises(IllegalState, match="COMMIT: no transaction is open"):
        sql("COMMIT")
    sql("BEGIN")
    sql("ROLLBACK")


def test_a_statement_that_fails_leaves_the_rollback(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    sql("BEGIN")
    sql(f"INSERT INTO txn.{table} VALUES (1)")
    for refused in ("SELEKT", f"INSERT INTO txn.{table} VALUES (1, 2)", "BEGIN SELEKT 1; END"):
        with pytest.raises(Exception, match=r"PARSE_SYNTAX|ARITY_MISMATCH"):
            sql(refused)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql(f"INSERT INTO txn.{table} SELECT 1 DIV (id - id) FROM range(2)")
    for further in ("COMMIT", f"SELECT * FROM txn.{table}", f"INSERT INTO txn.{table} VALUES (2)", "COMMIT"):
        with pytest.raises(IllegalState, match=rf"can only be aborted: a write to {table} failed: .*DIVIDE_BY_ZERO"):
            sql(further).collect()
    sql("ROLLBACK")
    assert there(client, table) == []


def test_a_transaction_goes_back_to_a_savepoint(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    client.write(ids(1, 2), table)
    sql("BEGIN")
    sql(f"INSERT INTO txn.{table} VALUES (3)")
    sql("SAVEPOINT a")
    sql(f"DELETE FROM txn.{table} WHERE id < 3")
    sql(f"INSERT OVERWRITE txn.{table} VALUES (9)")
    assert found(sql(f"SELECT * FROM txn.{table}")) == [9]
    with pytest.raises(PySparkException):
        sql(f"INSERT INTO txn.{table} SELECT raise_error('no') FROM txn.{table}")
    with pytest.raises(IllegalState, match=r"can only be aborted or go back: .*USER_RAISED_EXCEPTION.* no"):
        sql(f"INSERT INTO txn.{table} VALUES (4)")
    sql("ROLLBACK TO SAVEPOINT a")
    assert found(sql(f"SELECT * FROM txn.{table}")) == [1, 2, 3]
    sql(f"INSERT INTO txn.{table} VALUES (5)")
    sql("RELEASE SAVEPOINT a")
    with pytest.raises(NotFound, match="no savepoint 'a'"):
        sql("CALL txn.system.rollback_to('a')")
    sql("COMMIT")
    assert there(client, table) == [1, 2, 3, 5]


def test_what_is_out_of_place_is_refused_by_name(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    for statement in ("COMMIT", "ROLLBACK", f"LOCK TABLE txn.{table} SHARED"):
        with pytest.raises(IllegalState, match=f"{statement.split(' txn')[0]}: no transaction is open in this session"):
            sql(statement)
    for wrong in ("COMMIT soon", "ABORT TRANSACTIONS", "SET TRANSACTION LABEL nightly"):
        with pytest.raises(InvalidArgument, match="expected"):
            sql(wrong)
    txn_id = only(sql("BEGIN")).txn_id
    with pytest.raises(IllegalState, match=f"BEGIN: transaction {txn_id} is open"):
        sql("BEGIN TRANSACTION")
    with pytest.raises(IllegalState, match=f"BEGIN: transaction {txn_id} is open"):
        sql("BEGIN ATOMIC SELECT 1; END")
    with pytest.raises(IllegalState, match="say it before BEGIN"):
        sql("SET TRANSACTION LABEL 'late'")
    with (
        pytest.raises(IllegalState, match=f"part of transaction {txn_id}"),
        client.transaction() as txn,
        txn.spark(spark),
    ):
        pass
    with pytest.raises(IllegalState, match=r"CREATE TABLE s.new cannot be part"):
        sql("CREATE TABLE txn.s.new (id int)")
    client.abort(txn_id, "an operator says so")
    with pytest.raises(TxnAborted, match="an operator says so"):
        sql(f"INSERT INTO txn.{table} VALUES (1)")
    with pytest.raises(TxnAborted, match="an operator says so"):
        sql("COMMIT")
    with client.transaction() as txn, txn.spark(spark), pytest.raises(IllegalState, match="part of transaction"):
        sql("BEGIN")
    with client.transaction() as txn, txn.spark(spark):
        with pytest.raises(IllegalState, match=r"COMMIT: no transaction is open") as refused:
            sql("COMMIT")
        assert refused.value.hint == f"the block of transaction {txn.id} commits as it ends"
    with pytest.raises(NotFound, match=r"no procedure system.comit"):
        sql("CALL txn.system.comit()")


def test_a_label_and_a_snapshot(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    then = client.write(ids(1), table).commit_timestamp
    client.write(ids(2), table)
    sql("SET TRANSACTION LABEL 'it\\'s nightly'")
    sql(f"SET TRANSACTION SNAPSHOT {then}")
    txn_id = only(sql("BEGIN")).txn_id
    assert client.get(txn_id).label == "it's nightly"
    assert found(sql(f"SELECT * FROM txn.{table}")) == [1]
    sql(f"INSERT INTO txn.{table} VALUES (3)")
    assert found(sql(f"SELECT * FROM txn.{table}")) == [1, 3]
    sql("COMMIT")
    assert there(client, table) == [1, 2, 3]
    with pytest.raises(InvalidArgument, match="in the future"):
        sql("SET TRANSACTION SNAPSHOT TIMESTAMP '2999-01-01'")
    sql(f"SET TRANSACTION SNAPSHOT {then}")
    assert found(sql(f"BEGIN ATOMIC SELECT * FROM txn.{table}; END")) == [1]


def test_a_bad_load_is_undone_and_tables_are_restored(sql: Sql, client: Client, new_table: NewTable) -> None:
    tables = [new_table("id bigint") for _ in range(2)]
    for table in tables:
        sql(f"INSERT INTO txn.{table} VALUES (1), (2)")
    client.savepoint(f"before {tables[0]}", tables)
    load = client.transaction("bad")
    with load:
        for table in tables:
            load.delete_where(table, "id = 1")
    assert [there(client, table) for table in tables] == [[2], [2]]
    undone = only(sql(f"UNDO TRANSACTION {load.id}"))
    assert undone.tables == ", ".join(sorted(tables))
    assert [found(sql(f"SELECT * FROM txn.{table}")) for table in tables] == [[1, 2], [1, 2]]
    with pytest.raises(Conflict, match=f"transaction {load.id} cannot be undone"):
        sql(f"UNDO TRANSACTION {load.id}")
    for table in tables:
        sql(f"DELETE FROM txn.{table}")
    sql(f"RESTORE TABLES txn.{tables[0]} TO SAVEPOINT 'before {tables[0]}'")
    assert [there(client, table) for table in tables] == [[1, 2], []]
    only(sql(f"RESTORE TABLES TO VERSION {undone.commit_timestamp}"))
    assert [there(client, table) for table in tables] == [[1, 2], [1, 2]]
    client.release_savepoint(f"before {tables[0]}")


NO_PARAMETERS = pyspark.__version__ < "4.1"
"""Whether there are none in scripts, and in calls of procedures none beside other arguments."""


def test_what_there_is_comes_as_rows(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, day int", partition_by=["day"])
    one, other = client.begin("the first"), client.begin("the second")
    shown = {row.txn_id: row for row in sql("SHOW TRANSACTIONS").collect()}
    assert shown[one.id].asDict() | {"began": None, "changed": None} == {
        "txn_id": one.id,
        "state": "OPEN",
        "owner": client.owner,
        "label": "the first",
        "began": None,
        "changed": None,
        "tables": "",
        "reason": None,
    }
    aborted = sql(f"ABORT TRANSACTIONS {one.id} {other.id} 999999").collect()
    assert [(row.txn_id, row.aborted) for row in aborted] == [(one.id, True), (other.id, True), (999999, False)]
    assert "ABORT TRANSACTIONS" in {row.txn_id: row for row in sql("SHOW TRANSACTIONS").collect()}[other.id].reason
    begun = only(sql("BEGIN"))
    sql(f"LOCK TABLE txn.{table} PARTITION (day = 1) EXCLUSIVE")
    sql(f"INSERT INTO txn.{table} VALUES (1, 1), (2, 2)")
    locks = sql(f"SHOW LOCKS txn.{table}").collect()
    assert {(row.object, row.mode, row.txn_id) for row in locks} >= {(f"{table}/day=1", "X", begun.txn_id)}
    assert [row.object for row in sql(f"SHOW LOCKS txn.{table} PARTITION (day = 1)").collect()] == [f"{table}/day=1"]
    sql("COMMIT")
    assert not sql(f"SHOW LOCKS txn.{table}").collect()
    client.write(pa.table({"id": [3], "day": pa.array([1], pa.int32())}), table)
    name, args = (f"'{table}'", {}) if NO_PARAMETERS else (":name", {"name": table})
    (asked,) = spark.sql(f"CALL txn.system.compact(table_name => {name}, partition => map('day', '1'))", args).collect()
    assert (asked.partition, asked.kind) == ("day=1", "major")
    sql(f"ALTER TABLE txn.{table} PARTITION (day = 1) COMPACT 'minor'")
    assert table in [row.table_name for row in sql("SHOW COMPACTIONS").collect()]


SCRIPT = """
    DECLARE total BIGINT;
    INSERT INTO txn.{one} VALUES (1), (2);
    SET total = (SELECT count(*) FROM txn.{one});
    IF total = 2 THEN
        INSERT INTO txn.{other} SELECT id + 10 FROM txn.{one};
    END IF;
    SELECT total, count(*) AS others FROM txn.{other}"""


def test_a_script_is_one_transaction(sql: Sql, client: Client, new_table: NewTable) -> None:
    one, other = new_table("id bigint"), new_table("id bigint")
    before = client.last_commit()
    sql("SET TRANSACTION LABEL 'a script'")
    result = sql(f"BEGIN ATOMIC {SCRIPT.format(one=one, other=other)} END")
    assert only(result).asDict() == {"total": 2, "others": 2}
    assert (there(client, one), there(client, other)) == ([1, 2], [11, 12])
    (txn,) = client.transactions(label="a script")
    assert txn.participants == tuple(sorted([one, other]))
    assert txn.commit_timestamp == client.last_commit() > before


@pytest.mark.parametrize(
    "third", ["SELECT * FROM txn.s.nowhere", "INSERT INTO txn.{one} SELECT 1 DIV (id - id) FROM range(2)"]
)
def test_a_script_with_an_error_in_its_third_statement_leaves_nothing(
    sql: Sql, client: Client, new_table: NewTable, third: str
) -> None:
    one, other = new_table("id bigint"), new_table("id bigint")
    with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|DIVIDE_BY_ZERO"):
        sql(
            f"BEGIN ATOMIC INSERT INTO txn.{one} VALUES (1); INSERT INTO txn.{other} VALUES (1);"
            f"{third.format(one=one)}; END"
        )
    assert (there(client, one), there(client, other)) == ([], [])
    with pytest.raises(IllegalState, match=r"COMMIT: transaction .* is that of a script"):
        sql(f"BEGIN ATOMIC INSERT INTO txn.{one} VALUES (1); CALL txn.system.commit(); END")
    assert there(client, one) == []


def test_what_is_wrong_in_a_script_is_shown_in_the_programs_text(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    script = f"-- nightly\nBEGIN ATOMIC INSERT INTO txn.{table} VALUES (1);\n  INSERT INTO txn.{table} VALEUS (2);\nEND"
    with pytest.raises(PySparkException, match=r"PARSE_SYNTAX_ERROR.*near '(2|VALEUS)'.*\(line 3, pos") as refused:
        sql(script)
    said = str(refused.value)
    assert "CALL" not in said
    assert all(line in said.splitlines() for line in script.splitlines()), said
    assert not client.transactions([TxnState.OPEN]), "none has begun"
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO") as failed:
        sql("BEGIN ATOMIC SELECT 1 DIV id FROM VALUES (0L) AS v(id); END").collect()
    assert "CALL" not in str(failed.value)


def test_a_script_whose_handler_takes_the_error_of_a_write_ends_with_it(
    sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    with pytest.raises(IllegalState, match=r"(?s)COMMIT is refused.*a handler took an error"):
        sql(
            "BEGIN ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 7;"
            f"INSERT INTO txn.{table} SELECT 1 DIV (id - id) FROM range(2); END"
        )
    assert not client.transactions([TxnState.OPEN])
    sql(f"INSERT INTO txn.{table} VALUES (1)")
    assert there(client, table) == [1]


@pytest.mark.usefixtures("catalog")
def test_what_spark_says_of_parameters_is_its_message(spark: SparkSession) -> None:
    text = "SELECT * FROM VALUES (1) AS t(a) WHERE a = :p"
    for args in (None, {"q": 1}):
        with pytest.raises(PySparkException, match="UNBOUND_SQL_PARAMETER"):
            spark.sql(text, args).collect()


def test_what_spark_says_of_a_script_of_its_own_is_its_message(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="INVALID_VARIABLE_DECLARATION"):
        spark.sql("BEGIN SELECT 1; DECLARE late INT; END")


def test_a_script_of_the_clients_own(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    one, other = new_table("id bigint"), new_table("id bigint")
    first, args = ("1", None) if NO_PARAMETERS else (":first", {"first": 1})
    insert = f"INSERT INTO txn.{one} VALUES ({first}), (2); -- not; the last"
    script = f"{insert}\nSELECT ';' AS text, id FROM txn.{one} WHERE id > 1 -- it is"
    assert only(client.sql(spark, script, args, label="with a name")).asDict() == {"text": ";", "id": 2}
    assert there(client, one) == [1, 2]
    with client.transaction() as txn:
        txn.write(ids(7), one)
        assert found(
            txn.sql(spark, f"INSERT INTO txn.{other} SELECT id FROM txn.{one}; SELECT id FROM txn.{other};")
        ) == [1, 2, 7]
        assert there(client, other) == []
    assert there(client, other) == [1, 2, 7]
    txn = client.begin()
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        txn.sql(spark, f"INSERT INTO txn.{other} VALUES (8); SELECT * FROM nowhere")
    with pytest.raises(IllegalState, match=r"a script failed: .*TABLE_OR_VIEW_NOT_FOUND"):
        txn.commit()
    assert there(client, other) == [1, 2, 7]


def test_a_copy_of_a_session_is_another_one(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    """A query of Structured Streaming runs in a copy: what it wrote was lost with a ROLLBACK of the other one."""
    table = new_table("id bigint")
    copy = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())  # as of foreachBatch
    sql("BEGIN")
    sql(f"INSERT INTO txn.{table} VALUES (1)")
    copy.sql(f"INSERT INTO txn.{table} VALUES (2)")
    assert there(client, table) == found(copy.sql(f"SELECT * FROM txn.{table}")) == [2]
    copy.sql("BEGIN")
    copy.sql(f"INSERT INTO txn.{table} VALUES (3)")
    assert found(sql(f"SELECT * FROM txn.{table}")) == [1]
    sql("ROLLBACK")
    copy.sql("COMMIT")
    assert there(client, table) == [2, 3]
    with client.transaction() as txn, txn.spark(copy):
        copy.sql(f"INSERT INTO txn.{table} VALUES (4)")
        sql(f"INSERT INTO txn.{table} VALUES (5)")
        assert there(client, table) == [2, 3, 5]
    assert there(client, table) == [2, 3, 4, 5]


def test_a_session_has_a_transaction_of_its_own(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table, session = new_table("id bigint"), spark.newSession()
    attach(session, client, name="other")
    try:
        sql("BEGIN")
        session.sql(f"INSERT INTO other.{table} VALUES (1)")
        session.sql("BEGIN")
        session.sql(f"INSERT INTO other.{table} VALUES (2)")
        sql(f"INSERT INTO txn.{table} VALUES (3)")
        assert there(client, table) == [1]
        sql("COMMIT")
        assert found(session.sql(f"SELECT * FROM other.{table}")) == [1, 2]
        session.sql("COMMIT")
        assert there(client, table) == [1, 2, 3]
    finally:
        detach(session, name="other")
