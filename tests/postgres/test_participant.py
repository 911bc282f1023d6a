"""PostgresParticipant on a real server, without a cluster: what it answers when, and what it never does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import sql

from tests.postgres.server import PostgresServer, find_binaries
from txnclient.foreign.postgres import PostgresPart
from txnparticipant.foreign.postgres import PostgresParticipant
from txnstatus.errors import IllegalState, InvalidArgument, TxnError, Unavailable
from txnstatus.foreign import LEDGER, gid
from txnstatus.types import Timestamp, TxnId

CLUSTER, NAME = "a-cluster.1", "shop"
COMMIT_TS = Timestamp(1)
_ids = itertools.count(1)


@pytest.fixture(scope="module")
def participant(server: PostgresServer) -> Iterator[PostgresParticipant]:
    made = PostgresParticipant(CLUSTER, NAME, server.conninfo)
    made.set_up()
    yield made
    made.close()


@pytest.fixture
def txn_id() -> TxnId:
    return TxnId(next(_ids))


def part(server: PostgresServer, txn_id: TxnId, conninfo: str = "") -> PostgresPart:
    made = PostgresPart(CLUSTER, NAME, txn_id, conninfo or server.conninfo)
    made.begin()
    made._connection.execute("INSERT INTO bills VALUES (%s, 'of a part')", (1_000_000 + txn_id,))
    return made


def prepared(server: PostgresServer, txn_id: TxnId) -> PostgresPart:
    made = part(server, txn_id)
    made.prepare()
    return made


def is_visible(server: PostgresServer, txn_id: TxnId) -> bool:
    return bool(server.query("SELECT 1 FROM bills WHERE id = %s", 1_000_000 + txn_id))


def test_prepared_work_is_published_however_often_that_is_asked_for(
    server: PostgresServer, participant: PostgresParticipant, txn_id: TxnId
) -> None:
    prepared(server, txn_id).close()
    for _ in range(2):
        participant.prepare(txn_id)
    assert list(participant.prepared()) == [txn_id]
    for _ in range(2):
        participant.publish(txn_id, COMMIT_TS)
    assert is_visible(server, txn_id)
    assert list(participant.prepared()) == []
    for refused in (participant.discard, participant.prepare):
        with pytest.raises(IllegalState, match="has published of transaction"):
            refused(txn_id)
    assert is_visible(server, txn_id)


def test_prepared_work_is_discarded_however_often_that_is_asked_for(
    server: PostgresServer, participant: PostgresParticipant, txn_id: TxnId
) -> None:
    prepared(server, txn_id).close()
    for _ in range(2):
        participant.discard(txn_id)
    for refused in (participant.prepare, lambda txn_id: participant.publish(txn_id, COMMIT_TS)):
        with pytest.raises(IllegalState, match="has nothing of transaction"):
            refused(txn_id)
    assert not is_visible(server, txn_id)


def test_what_a_database_administrator_rolled_back_does_not_pass_for_published(
    server: PostgresServer, participant: PostgresParticipant, txn_id: TxnId
) -> None:
    prepared(server, txn_id).close()
    participant.prepare(txn_id)
    name = sql.Literal(gid(CLUSTER, NAME, txn_id))
    with psycopg.connect(server.conninfo, autocommit=True) as administrator:
        administrator.execute(sql.SQL("ROLLBACK PREPARED {}").format(name))
    with pytest.raises(IllegalState):
        participant.publish(txn_id, COMMIT_TS)


def test_the_program_and_the_host_may_publish_at_the_same_time(
    server: PostgresServer, participant: PostgresParticipant
) -> None:
    with ThreadPoolExecutor(4) as pool:
        for txn_id in (TxnId(next(_ids)) for _ in range(10)):
            work = prepared(server, txn_id)
            calls: list[Callable[[], None]] = [lambda t=txn_id: participant.publish(t, COMMIT_TS)] * 3  # type: ignore[misc]
            errors = list(pool.map(_error_of, [work.publish, *calls]))
            assert all(error is None or isinstance(error, Unavailable | InvalidArgument) for error in errors), errors
            participant.publish(txn_id, COMMIT_TS)
            assert is_visible(server, txn_id)


def _error_of(call: Callable[[], None]) -> TxnError | None:
    try:
        call()
    except TxnError as error:
        return error
    return None


def test_a_second_session_cannot_commit_after_the_first(
    server: PostgresServer, participant: PostgresParticipant, txn_id: TxnId
) -> None:
    """Else the same transaction would be published twice, by a program that is late."""
    late = PostgresPart(CLUSTER, NAME, txn_id, server.conninfo)
    late.begin()
    late._connection.execute("INSERT INTO bills VALUES (%s, 'late')", (2_000_000 + txn_id,))
    prepared(server, txn_id).close()
    participant.publish(txn_id, COMMIT_TS)
    with pytest.raises(IllegalState, match="another session of the same transaction was first"):
        late.prepare()
    late.discard()
    assert is_visible(server, txn_id)
    assert list(participant.prepared()) == []


def test_the_waiting_time_for_locks_stays_as_the_program_has_set_it(server: PostgresServer, txn_id: TxnId) -> None:
    with psycopg.connect(server.conninfo) as own:
        own.execute("SET lock_timeout = '17s'")
        own.commit()
        work = PostgresPart(CLUSTER, NAME, txn_id, own)
        work.begin()
        with own.cursor() as cursor:
            work._enter_in_ledger(cursor)
            assert cursor.execute("SHOW lock_timeout").fetchone() == ("17s",)
        work.discard()


def test_others_prepared_transactions_are_left_alone(
    server: PostgresServer, participant: PostgresParticipant, txn_id: TxnId
) -> None:
    others = [gid("other", NAME, txn_id), gid(CLUSTER, "other", txn_id), "somebody's own"]
    for name in others:
        with psycopg.connect(server.conninfo) as connection:
            connection.execute("SELECT pg_current_xact_id()")
            connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(name)))
    assert list(participant.prepared()) == []
    participant.discard(txn_id)
    assert server.prepared() == sorted(others)
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        for name in others:
            connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(name)))


def test_a_role_that_could_not_end_the_work_refuses_it_at_once(
    server: PostgresServer, participant: PostgresParticipant, txn_id: TxnId
) -> None:
    """Not only when the decision is taken, and nobody can go back."""
    server.query("CREATE ROLE plain LOGIN")
    server.query(f"GRANT USAGE ON SCHEMA txnstatus TO plain; GRANT SELECT ON {LEDGER} TO plain")
    stranger = PostgresParticipant(CLUSTER, NAME, server.conninfo.replace("user=postgres", "user=plain"))
    prepared(server, txn_id).close()
    with pytest.raises(IllegalState, match="another role did it"):
        stranger.prepare(txn_id)
    stranger.close()
    participant.discard(txn_id)


def test_the_ledger_keeps_what_somebody_may_ask_about(server: PostgresServer, participant: PostgresParticipant) -> None:
    first, second = TxnId(next(_ids)), TxnId(next(_ids))
    for txn_id in (first, second):
        prepared(server, txn_id).close()
        participant.publish(txn_id, COMMIT_TS)
    participant.forget(first, second)
    kept = [txn_id for (txn_id,) in server.query(f"SELECT txn_id FROM {LEDGER} WHERE cluster_id = %s", CLUSTER)]
    assert first not in kept
    assert second in kept
    participant.publish(second, COMMIT_TS)
    with pytest.raises(IllegalState):
        participant.publish(first, COMMIT_TS)


def test_it_goes_on_after_the_server_was_killed(
    server: PostgresServer, participant: PostgresParticipant, txn_id: TxnId
) -> None:
    prepared(server, txn_id).close()
    server.kill()
    with pytest.raises(Unavailable):
        participant.publish(txn_id, COMMIT_TS)
    server.restart()
    participant.publish(txn_id, COMMIT_TS)
    assert is_visible(server, txn_id)


def test_a_server_that_prepares_nothing_names_the_setting() -> None:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server")
    with PostgresServer(binaries, max_prepared_transactions=0) as other:
        with pytest.raises(InvalidArgument, match="max_prepared_transactions is 0") as told:
            PostgresParticipant(CLUSTER, NAME, other.conninfo).check(is_new=True)
        assert "restart" in told.value.hint
        with pytest.raises(InvalidArgument, match="max_prepared_transactions is 0"):
            PostgresPart(CLUSTER, NAME, TxnId(1), other.conninfo)


def test_a_database_of_a_cluster_that_was_founded_anew_is_told_from_this_ones(
    server: PostgresServer, participant: PostgresParticipant
) -> None:
    """What the earlier one has prepared there nobody would end."""
    participant.check(is_new=True)
    anew = PostgresParticipant("a-cluster.2", NAME, server.conninfo)
    anew.check(is_new=False)
    with pytest.raises(InvalidArgument, match=r"of an earlier cluster, a-cluster\.1; this one is a-cluster\.2"):
        anew.check(is_new=True)
    PostgresParticipant("another.1", NAME, server.conninfo).check(is_new=True)


@pytest.mark.parametrize("wrong", ["host=127.0.0.1 port=1 dbname=x user=x", "host=127.0.0.1 port=1 dbname=x no=thing"])
def test_a_server_that_is_not_there_or_text_that_says_nothing(wrong: str, txn_id: TxnId) -> None:
    with pytest.raises((Unavailable, InvalidArgument), match=NAME):
        PostgresPart(CLUSTER, NAME, txn_id, wrong)
    with pytest.raises((Unavailable, IllegalState, InvalidArgument), match=NAME):
        PostgresParticipant(CLUSTER, NAME, wrong).set_up()


def test_a_connection_that_is_at_work_or_in_autocommit_is_refused(server: PostgresServer, txn_id: TxnId) -> None:
    with psycopg.connect(server.conninfo) as busy, psycopg.connect(server.conninfo, autocommit=True) as automatic:
        busy.execute("SELECT 1")
        for connection in (busy, automatic):
            with pytest.raises(InvalidArgument, match="must be idle, and not in autocommit"):
                PostgresPart(CLUSTER, NAME, txn_id, connection)
