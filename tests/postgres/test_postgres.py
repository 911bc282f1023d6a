"""One transaction over tables and a PostgreSQL database, with real processes: all of it or none of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests import blocks
from tests.collector import collecting
from tests.faults.points import FOREIGN_POINTS
from tests.postgres.rig import NAME, Host
from tests.postgres.server import PostgresServer, find_binaries
from tests.support import commit_until_known, connect, fast_cluster, foreign, rows, visible, wait_until
from txnclient import (
    Client,
    CommitUnknown,
    Conflict,
    IllegalState,
    InvalidArgument,
    NotFound,
    Transaction,
    TxnAborted,
    TxnState,
)
from txnclient.foreign.work import ForeignWork
from txndeploy.local.cluster import LocalCluster
from txnstatus.tracing import spans

pytestmark = pytest.mark.usefixtures("host")

NewTable = Callable[[], str]
INSERT = "INSERT INTO bills VALUES (%s, 'of a test')"
RESOLVED_SECONDS = 30.0


def bills(server: PostgresServer, *ids: int) -> list[int]:
    return [found for (found,) in server.query("SELECT id FROM bills WHERE id = ANY(%s) ORDER BY id", list(ids))]


def await_nothing_prepared(server: PostgresServer) -> None:
    wait_until(lambda: server.prepared() == [], "nothing is left prepared", RESOLVED_SECONDS)


def test_what_the_host_does_is_in_the_trace(
    server: PostgresServer, bill: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pins: the host began no traces, whatever its environment asked for."""
    name = "traced"
    with collecting() as collector:
        for variable, value in collector.environment.items():
            monkeypatch.setenv(variable, value)
        cluster = fast_cluster(tmp_path / "cluster", nodes=1, environment=collector.environment)
        with cluster, Host(tmp_path, cluster, server, name) as host:
            host.start()
            with (
                connect(cluster) as client,
                client.transaction(label="billed") as txn,
                txn.postgres(name, server.conninfo) as connection,
            ):
                connection.execute(INSERT, (bill,))
            spans.close(5.0)
            seen = wait_until(lambda: collector.spans(service="txnstatus-participant"), "the host sends its spans")
        (whole,) = [each for each in collector.spans(name="transaction") if each.facts["txn.label"] == "billed"]
        assert {(each.trace, each.process) for each in seen} == {(whole.trace, name)}
    assert bills(server, bill) == [bill]


def test_a_commit_shows_in_both_and_leaves_nothing_prepared(
    client: Client, server: PostgresServer, new_table: NewTable, bill: int
) -> None:
    first, second = new_table(), new_table()
    with client.transaction(label="both") as txn:
        txn.write(rows(1), first)
        with txn.postgres(NAME, server.conninfo) as connection:
            connection.execute(INSERT, (bill,))
        txn.write(rows(2), second)
        assert bills(server, bill) == []
    assert visible(client, first, second) == [[1], [2]]
    await_nothing_prepared(server)  # where the host is first, the handle leaves it to that
    assert bills(server, bill) == [bill]
    assert client.get(txn.id).participants == tuple(sorted((f"@{NAME}", first, second)))
    wait_until(lambda: client.get(txn.id).state is TxnState.COMMITTED, "the host has acknowledged it")


def test_an_exception_shows_in_none(client: Client, server: PostgresServer, new_table: NewTable, bill: int) -> None:
    table = new_table()

    def job() -> None:
        with client.transaction() as txn:
            txn.write(rows(1), table)
            with txn.postgres(NAME, server.conninfo) as connection:
                connection.execute(INSERT, (bill,))
                raise ZeroDivisionError("of the program")

    with pytest.raises(ZeroDivisionError):
        job()
    assert visible(client, table) == [[]]
    assert bills(server, bill) == []
    assert server.prepared() == []


def test_a_connection_of_the_programs_own_is_idle_afterwards_and_stays_open(
    client: Client, server: PostgresServer, bill: int
) -> None:
    with psycopg.connect(server.conninfo) as own:
        for number in range(2):
            with client.transaction() as txn, txn.postgres(NAME, own) as connection:
                connection.execute(INSERT, (bill + number,))
        await_nothing_prepared(server)
        assert bills(server, bill, bill + 1) == [bill, bill + 1]
        assert own.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
        assert not own.autocommit


def test_a_conflict_on_a_table_rolls_postgresql_back(
    client: Client, server: PostgresServer, new_table: NewTable, bill: int
) -> None:
    table = new_table()
    with client.transaction() as txn:
        txn.write(rows(0), table)
    loser = client.begin()
    loser.write(rows(1), table, mode="overwrite")
    with loser.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    with client.transaction() as winner:
        winner.write(rows(2), table, mode="overwrite")
    with pytest.raises(Conflict):
        loser.commit()
    assert bills(server, bill) == []
    assert visible(client, table) == [[2]]
    await_nothing_prepared(server)


def test_a_constraint_that_fails_when_it_is_prepared_aborts_the_tables(
    client: Client, server: PostgresServer, new_table: NewTable, bill: int
) -> None:
    server.query("CREATE TABLE IF NOT EXISTS deferred (id bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute("INSERT INTO deferred VALUES (%s), (%s)", (bill, bill))
    with pytest.raises(InvalidArgument, match="duplicate key"):
        txn.commit()
    summary = client.get(txn.id)
    assert summary.cause is not None
    assert summary.cause.message.startswith(f"{NAME} was not prepared: ")
    assert visible(client, table) == [[]]
    await_nothing_prepared(server)


def test_a_serialization_failure_at_prepare_is_to_be_run_again(
    client: Client, server: PostgresServer, new_table: NewTable, bill: int
) -> None:
    """Two write skews of one another, under SERIALIZABLE: the second to prepare fails."""
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    with psycopg.connect(server.conninfo) as other, psycopg.connect(server.conninfo) as own:
        other.isolation_level = own.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        with txn.postgres(NAME, own) as connection:
            connection.execute("SELECT count(*) FROM bills WHERE id >= %s", (bill,))
            other.execute("SELECT count(*) FROM bills WHERE id >= %s", (bill,))
            connection.execute(INSERT, (bill,))
            other.execute(INSERT, (bill + 1,))
        other.commit()
        with pytest.raises(TxnAborted, match="could not serialize"):
            txn.commit()
    assert visible(client, table) == [[]]
    assert bills(server, bill, bill + 1) == [bill + 1]
    await_nothing_prepared(server)


def test_a_failed_statement_cannot_be_committed(client: Client, server: PostgresServer, bill: int) -> None:
    txn = client.begin()
    connection = txn.postgres(NAME, server.conninfo).__enter__()
    connection.execute(INSERT, (bill,))
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(INSERT, (bill,))
    with pytest.raises(IllegalState, match="a statement failed"):
        txn.commit()
    assert txn.state() in (TxnState.ABORTED, TxnState.ABORT_IN_PROGRESS)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_program_that_ends_its_own_postgresql_transaction_cannot_commit(
    client: Client, server: PostgresServer, bill: int, end: str
) -> None:
    txn = client.begin()
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
        getattr(connection, end)()
        connection.execute(INSERT, (bill + 1,))
    with pytest.raises(IllegalState, match="was ended before the commit"):
        txn.commit()
    assert bills(server, bill + 1) == []
    assert server.prepared() == []


def test_work_that_was_never_prepared_aborts_the_transaction(
    cluster: LocalCluster, client: Client, server: PostgresServer, new_table: NewTable, bill: int
) -> None:
    """Another process commits, and knows nothing of the session here."""
    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    with connect(cluster) as elsewhere, pytest.raises(TxnAborted, match=f"@{NAME} refused to prepare"):
        elsewhere.join(txn.token()).commit()
    assert visible(client, table) == [[]]
    txn.abort()


def test_a_second_session_of_one_transaction_is_refused(
    cluster: LocalCluster, client: Client, server: PostgresServer, bill: int
) -> None:
    """Its work would be lost, or the first one's: one of them can have the name."""
    first = client.begin()
    with first.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    with connect(cluster) as elsewhere:
        second = elsewhere.join(first.token())
        with second.postgres(NAME, server.conninfo) as connection:
            connection.execute(INSERT, (bill + 1,))
        first._foreign.prepare(first.abort)
        with pytest.raises(IllegalState, match="another session of the same transaction"):
            second.commit()
    with pytest.raises(TxnAborted):
        first.commit()
    assert bills(server, bill, bill + 1) == []
    await_nothing_prepared(server)


def test_who_is_not_known_and_what_is_not_the_database_is_named(
    client: Client, server: PostgresServer, bill: int
) -> None:
    with pytest.raises(NotFound, match="knows no foreign participant ledgers"):
        client.begin().enlist("ledgers", None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is no name of a foreign participant"):
        client.begin().enlist("../x", None)  # type: ignore[arg-type]
    server.query(f"CREATE DATABASE other_{bill}")
    txn = client.begin()
    with pytest.raises(InvalidArgument, match=f"is not the participant {NAME}"):
        txn.postgres(NAME, server.conninfo.replace("dbname=postgres", f"dbname=other_{bill}"))
    assert client.get(txn.id).participants == ()


def test_a_session_of_what_takes_no_part_is_closed(
    client: Client, server: PostgresServer, bill: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sessions() -> int:
        ((count,),) = server.query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'brief'")
        return int(count)

    def interrupted(*_: object) -> None:
        assert sessions() == 1
        raise KeyboardInterrupt

    server.query(f"CREATE DATABASE beside_{bill}")
    conninfo, kept = f"{server.conninfo} application_name=brief", list[BaseException]()
    with pytest.raises(InvalidArgument, match="is not the participant") as error:
        client.begin().postgres(NAME, conninfo.replace("dbname=postgres", f"dbname=beside_{bill}"))
    kept.append(error.value)  # and with it whatever its frames refer to
    wait_until(lambda: not sessions(), "that of another database is closed")
    monkeypatch.setattr(ForeignWork, "enlist", interrupted)
    with pytest.raises(KeyboardInterrupt) as interruption:
        client.begin().postgres(NAME, conninfo)
    kept.append(interruption.value)
    wait_until(lambda: not sessions(), "that of a program which was interrupted is closed")


def test_a_second_part_is_refused_and_ends_the_transaction(client: Client, server: PostgresServer, bill: int) -> None:
    txn = client.begin()
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    with pytest.raises(IllegalState, match="is part of transaction"):
        txn.postgres(NAME, server.conninfo)
    with pytest.raises(IllegalState, match=f"work in {NAME} failed"):
        txn.commit()
    assert bills(server, bill, bill) == []
    await_nothing_prepared(server)


VANISHES = """
import os, signal, sys
import txnclient
client = txnclient.connect(sys.argv[1])
txn = client.begin(keepalive_millis=1000)
with txn.postgres(sys.argv[4], sys.argv[2]) as connection:
    connection.execute("INSERT INTO bills VALUES (%s, 'of a program that dies')", (int(sys.argv[3]),))
txn._foreign.prepare(txn.abort)
print(txn.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_that_dies_after_it_has_prepared_expires_and_is_rolled_back(
    cluster: LocalCluster, client: Client, server: PostgresServer, bill: int
) -> None:
    arguments = [cluster.addresses, server.conninfo, str(bill), NAME]
    done = subprocess.run(
        [sys.executable, "-c", VANISHES, *arguments], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    txn_id = int(done.stdout)
    assert len(server.prepared()) == 1
    await_nothing_prepared(server)
    wait_until(lambda: client.get(txn_id).state is TxnState.ABORTED, "it has expired")
    assert bills(server, bill) == []


def test_what_is_prepared_after_the_abort_is_found_and_rolled_back(
    cluster: LocalCluster, client: Client, server: PostgresServer, bill: int
) -> None:
    """The status leader has told the host already, when there was nothing to discard."""
    txn = client.begin()
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    with connect(cluster) as operator:
        operator.abort(txn.id, "too slow")
    wait_until(lambda: client.get(txn.id).state is TxnState.ABORTED, "everybody has acknowledged the abort")
    txn._foreign.prepare(txn.abort)
    assert len(server.prepared()) == 1
    await_nothing_prepared(server)
    assert bills(server, bill) == []


def test_the_host_is_down_and_an_abort_holds_up_nobody_else(
    client: Client, server: PostgresServer, host: Host, new_table: NewTable, bill: int
) -> None:
    table = new_table()
    txn = client.begin()
    txn.lock(table, "X")
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    txn._foreign.prepare(txn.abort)
    host.kill()
    txn.abort()
    with client.transaction() as other:
        other.lock(table, "X", numretries=20, sleep_between_retries=0.5)
    assert client.get(txn.id).state is TxnState.ABORT_IN_PROGRESS
    host.start()
    wait_until(lambda: client.get(txn.id).state is TxnState.ABORTED, "the host has acknowledged the abort")
    await_nothing_prepared(server)
    assert bills(server, bill) == []


def commit_that_waits(client: Client, server: PostgresServer, table: str, bill: int) -> Transaction:
    """A commit of a row in the table and a bill, while the host is down: prepared, and not decided."""
    txn = client.begin()
    txn.write(rows(1), table)
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    with pytest.raises(CommitUnknown, match=rf"COMMIT_IN_PROGRESS, and waits for @{NAME} .*cannot be reached"):
        txn.commit(timeout=1)
    return txn


def test_a_commit_waits_for_a_host_that_is_down(
    client: Client, server: PostgresServer, host: Host, new_table: NewTable, bill: int
) -> None:
    table = new_table()
    host.kill()
    txn = commit_that_waits(client, server, table, bill)
    assert (visible(client, table), bills(server, bill)) == ([[]], [])
    host.start()
    commit_until_known(txn)
    assert visible(client, table) == [[1]]
    wait_until(lambda: bills(server, bill) == [bill], "the handle or the host has published it", RESOLVED_SECONDS)


def test_a_host_moves_to_another_address(
    cluster: LocalCluster, client: Client, server: PostgresServer, host: Host, tmp_path: Path, bill: int
) -> None:
    host.kill()
    with Host(tmp_path, cluster, server) as moved:
        moved.start()
        with client.transaction() as txn, txn.postgres(NAME, server.conninfo) as connection:
            connection.execute(INSERT, (bill,))
        assert bills(server, bill) == [bill]


def test_the_server_is_killed_between_prepare_and_publish(
    client: Client, server: PostgresServer, host: Host, new_table: NewTable, bill: int
) -> None:
    table = new_table()
    host.kill()
    txn = commit_that_waits(client, server, table, bill)
    server.restart()
    assert len(server.prepared()) == 1
    host.start()
    commit_until_known(txn)
    wait_until(lambda: bills(server, bill) == [bill], "the host has published it", RESOLVED_SECONDS)
    assert visible(client, table) == [[1]]
    await_nothing_prepared(server)


def test_the_status_leader_is_killed_while_it_commits(
    cluster: LocalCluster, client: Client, server: PostgresServer, host: Host, new_table: NewTable, bill: int
) -> None:
    table = new_table()
    host.kill()
    txn = commit_that_waits(client, server, table, bill)
    cluster.kill(cluster.leader())
    host.start()
    commit_until_known(txn)
    cluster.start()
    wait_until(lambda: bills(server, bill) == [bill], "the host has published it", RESOLVED_SECONDS)
    assert visible(client, table) == [[1]]
    await_nothing_prepared(server)


@pytest.mark.parametrize("point", FOREIGN_POINTS)
def test_the_host_is_killed_at_every_step(
    client: Client,
    server: PostgresServer,
    host: Host,
    new_table: NewTable,
    bill: int,
    tmp_path: Path,
    point: str,
) -> None:
    table, mark = new_table(), tmp_path / "mark"
    host.kill()
    host.start(f"{point}=crash@{mark}")
    aborts = point.endswith("ABORT_TXN")
    txn = client.begin()
    txn.write(rows(1), table)
    with txn.postgres(NAME, server.conninfo) as connection:
        connection.execute(INSERT, (bill,))
    txn._foreign.prepare(txn.abort)
    txn._foreign._parts.clear()  # else the handle would be first to end it
    txn.abort() if aborts else txn.start_commit()
    assert host.wait_ended() == -signal.SIGKILL
    assert int(mark.read_text()) != os.getpid()
    host.start()
    ended = TxnState.ABORTED if aborts else TxnState.COMMITTED
    wait_until(lambda: client.get(txn.id).state is ended, f"it is {ended.name}", RESOLVED_SECONDS)
    assert server.prepared() == []
    assert (visible(client, table), bills(server, bill)) == (([[]], []) if aborts else ([[1]], [bill]))


def test_a_participant_that_is_gone_for_good_is_removed_and_the_others_go_on(
    cluster: LocalCluster, client: Client, server: PostgresServer, new_table: NewTable, bill: int, tmp_path: Path
) -> None:
    table, name = new_table(), "lost"
    with Host(tmp_path, cluster, server, name) as lost:
        lost.start("foreign.before.FINALIZE_COMMIT=crash")
        txn = client.begin()
        txn.write(rows(1), table)
        with txn.postgres(name, server.conninfo) as connection:
            connection.execute(INSERT, (bill,))
        txn._foreign.prepare(txn.abort)
        txn._foreign._parts.clear()  # else the handle would publish it
        commit_until_known(txn)
        assert lost.wait_ended() == -signal.SIGKILL
        listed = txnctl("participant", "list", "-c", cluster.addresses)
        assert all(word in listed for word in (name, "no answer", str(txn.id), NAME, "answers"))
        assert "--gone-for-good" in txnctl("participant", "remove", "-c", cluster.addresses, name, code=2)
        txnctl("participant", "remove", "-c", cluster.addresses, name, "--gone-for-good")
        wait_until(lambda: client.get(txn.id).state is TxnState.COMMITTED, "nobody waits for it any more")
        with pytest.raises(NotFound):
            client.begin().postgres(name, server.conninfo)
        lost.start()
        assert lost.wait_ended() == 2, "it must not take what it finds for its own to end"
        assert "was removed" in lost.log.read_text()
        (gid,) = server.prepared()
        server.query(f"COMMIT PREPARED '{gid}'")


def test_a_host_that_runs_ends_when_its_participant_is_removed(
    cluster: LocalCluster, server: PostgresServer, tmp_path: Path
) -> None:
    """What it finds prepared later, nobody may know the outcome of any more."""
    with Host(tmp_path, cluster, server, "retired") as host:
        host.start()
        txnctl("participant", "remove", "-c", cluster.addresses, "retired", "--gone-for-good")
        assert host.wait_ended() == 2
        assert "was removed" in host.log.read_text()


def test_a_host_whose_server_prepares_nothing_ends_and_says_why(
    cluster: LocalCluster, server: PostgresServer, tmp_path: Path
) -> None:
    binaries = find_binaries()
    assert binaries is not None
    with (
        PostgresServer(binaries, max_prepared_transactions=0) as other,
        Host(tmp_path, cluster, other, "unable") as host,
    ):
        host.start()
        assert host.wait_ended() == 2
        assert "max_prepared_transactions is 0" in host.log.read_text()


def test_the_readme_example_runs_as_pasted(cluster: LocalCluster, server: PostgresServer, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(blocks.block("README.md", "txn.postgres("))
    environment = {**os.environ, "TXN_CLUSTER": cluster.addresses, "BILLING": server.conninfo}
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert server.query("SELECT sale, amount::text FROM invoices") == [(1, "9.5")]
    with connect(cluster) as client:
        assert client.snapshot().to_arrow("shop.sales").to_pylist() == [{"id": 1, "total": 9.5}]


def txnctl(*arguments: str, code: int = 0) -> str:
    """What it says."""
    command = [sys.executable, "-m", "txndeploy.ctl.cli", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_second_host_of_another_database_is_refused(
    cluster: LocalCluster, client: Client, server: PostgresServer, host: Host, tmp_path: Path
) -> None:
    """It would be asked to publish what the first database has prepared."""
    server.query("CREATE DATABASE elsewhere")
    dsn = server.conninfo.replace("dbname=postgres", "dbname=elsewhere")
    second = Host(tmp_path, cluster, server, dsn=dsn)
    try:
        second.start()
        assert second.wait_ended() == 2
    finally:
        second.kill()
    said = second.log.read_text()
    for named in (
        NAME,
        "PostgreSQL database postgres ",
        "PostgreSQL database elsewhere ",
        host.address,
        second.address,
    ):
        assert named in said
    assert "Traceback" not in said
    assert foreign(client)[NAME] == host.address
    # Renamed, or reached in another way, it is the same one.
    moved = Host(tmp_path, cluster, server, dsn=f"{server.conninfo} application_name=moved")
    try:
        moved.start()
        assert foreign(client)[NAME] == moved.address
    finally:
        moved.kill()
        host.restart()


def test_savepoints_and_restores_are_of_tables_alone(
    client: Client, server: PostgresServer, new_table: NewTable, bill: int
) -> None:
    """The database keeps what it has: an undo of what both have is refused by its name, a restore of tables is not."""
    table = new_table()
    client.write(rows(1), table)
    client.savepoint(f"before {table}", [table])
    client.savepoint(f"all before {table}")
    with client.transaction() as txn:
        txn.write(rows(2), table)
        with txn.postgres(NAME, server.conninfo) as connection:
            connection.execute(INSERT, (bill,))
    await_nothing_prepared(server)
    with pytest.raises(IllegalState, match=f"took part in @{NAME}, which knows no undo"):
        client.undo(txn.id)
    for tables in ([f"@{NAME}"], [table, f"@{NAME}"]):
        with pytest.raises(InvalidArgument, match=f"@{NAME}"):
            client.savepoint("of a database", tables)
        with pytest.raises(InvalidArgument, match=f"@{NAME}"):
            client.restore(f"before {table}", tables)
    assert (visible(client, table), bills(server, bill)) == ([[1, 2]], [bill])
    restored = client.restore(f"before {table}")
    assert (visible(client, table), bills(server, bill)) == ([[1]], [bill])
    client.undo(restored.txn_id)
    client.restore(f"all before {table}", [table])
    assert (visible(client, table), bills(server, bill)) == ([[1]], [bill])
    for name in (f"before {table}", f"all before {table}"):
        client.release_savepoint(name)
