"""What one user may take, in a cluster of real processes: who takes more is refused, and nobody else."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner

from tests import blocks
from tests.support import fast_cluster, wait_until
from txnclient import Client, LimitReached, NotAuthorized, connect
from txndeploy.ctl import commands
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txnstatus.proto import admin_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Purpose
from txnstatus.security import tls
from txnstatus.security.principals import Kind
from txnstatus.security.tls import VARIABLE

Ctl = Callable[..., str]
MANAGER = "txnstatus.TxnManager"
USERS = ("greedy", "modest")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("limits"), secure=True) as running:
        yield running


@pytest.fixture(scope="module")
def users(cluster: LocalCluster) -> Iterator[list[Client]]:
    """Clients of USERS, each of whom reads everything."""
    authority, there = Authority.load(cluster.directory / "authority"), cluster.directory / "users"
    with connect(cluster.addresses, credentials=cluster.credentials) as admin:
        for name in USERS:
            authority.issue(Kind.USER, name, there / name)
            admin.grant("reader", name, on=None)
    clients = [connect(cluster.addresses, credentials=there / name) for name in USERS]
    for client in clients:
        wait_until(lambda client=client: all(client.grants(client.owner) for _ in range(6)), "every node knows him")  # type: ignore[misc]
    yield clients
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def ctl(cluster: LocalCluster) -> Ctl:
    shown = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.credentials)}

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(commands.app, arguments, env=shown)
        assert result.exit_code == code, f"{arguments}: {result.output}{result.exception!r}"
        return result.output

    return run


def begun(client: Client, most: int) -> tuple[int, str]:
    """How many can be begun, and what the refusal says; all are aborted again."""
    there, why = [], ""
    try:
        for _ in range(most):
            there.append(client.begin())
    except LimitReached as refusal:
        why = refusal.message
    for txn in there:
        txn.abort()
    return len(there), why


def test_whoever_has_too_many_open_is_refused_and_nobody_else_whatever_node_is_asked(
    users: list[Client], ctl: Ctl
) -> None:
    greedy, modest = users
    ctl("limit", "set", "greedy", "user_open_transactions", "3")
    try:
        wait_until(lambda: begun(greedy, 10)[0] == 3, "the leader has heard of it")
        count, why = begun(greedy, 10)
        assert count == 3
        assert "greedy has 3 unfinished transactions" in why
        assert "user_open_transactions = 3 are possible" in why
        assert begun(modest, 10) == (10, "")
    finally:
        ctl("limit", "unset", "greedy", "user_open_transactions")
    wait_until(lambda: begun(greedy, 10)[0] == 10, "there is no limit any more")


def test_a_limit_of_ones_own_holds_in_place_of_that_of_all(users: list[Client], ctl: Ctl) -> None:
    modest = users[1]
    ctl("config", "set", "user_open_transactions", "2")
    ctl("limit", "set", "modest", "user_open_transactions", "5")
    try:
        wait_until(lambda: [begun(each, 10)[0] for each in users] == [2, 5], "the leader has heard of it")
        rows = json.loads(ctl("limit", "show", "--json"))["limits"]
        told = [(row["user"], row["value"]) for row in rows if row["name"] == "user_open_transactions"]
        assert told == [("all", 2), ("modest", 5)]
    finally:
        ctl("config", "set", "user_open_transactions", "0")
        ctl("limit", "unset", "modest", "user_open_transactions")
    wait_until(lambda: begun(modest, 10)[0] == 10, "there is no limit any more")


def test_who_asks_for_anothers_limits_is_refused_and_not_shown_what_holds_for_all(
    cluster: LocalCluster, users: list[Client], ctl: Ctl
) -> None:
    ctl("limit", "set", "modest", "user_lock_waits", "7")
    try:
        modest = {"TXN_CLUSTER": cluster.addresses, VARIABLE: str(cluster.directory / "users" / "modest")}

        def shown(user: str, code: int) -> str:
            result = CliRunner().invoke(commands.app, ["limit", "show", user, "--json"], env=modest)
            assert result.exit_code == code, result.output
            return result.output

        wait_until(lambda: '"value": 7' in shown("modest", 0), "the node that is asked has heard of it")
        assert "modest is shown his own limits, and those of greedy an operator alone" in shown("greedy", 1)
        assert '"user": "greedy"' in ctl("limit", "show", "greedy", "--json")
    finally:
        ctl("limit", "unset", "modest", "user_lock_waits")


def test_who_floods_a_node_with_begins_is_answered_late_and_keeps_what_he_has_alive(
    cluster: LocalCluster, users: list[Client], ctl: Ctl
) -> None:
    """What he asks beside them, over the same connection too, waits behind none of them, and nobody else's does."""
    rate, flood = 5, 500
    greedy, modest = users
    ctl("limit", "set", "greedy", "user_begins_per_second", str(rate))
    try:
        wait_until(lambda: _is_late(greedy), "the node that is asked has heard of it")
        mine = greedy.begin(keepalive_millis=1_000)
        shown = tls.within(cluster.directory / "users" / "greedy")

        async def beside() -> tuple[int, int, float]:
            """How many of the flood were answered while he beat for three seconds, how many in the end, and how long
            it was."""
            channel = PeerChannel(cluster.addresses.split(",")[0], tls=shown, purpose=Purpose.CALLS)
            loop, beat = asyncio.get_running_loop(), pb.KeepTransactionAliveRequest(txn_ids=[mine.id])
            keep, began, answered = f"{MANAGER}/KeepTransactionAlive", loop.time(), 0

            async def one() -> type[Exception] | None:
                nonlocal answered
                begin = pb.BeginTransactionRequest(request_id=uuid.uuid4().hex, owner=greedy.owner)
                try:
                    await channel.call(f"{MANAGER}/BeginTransaction", begin, pb.BeginTransactionResponse, 8.0)
                except LimitReached:
                    return LimitReached
                finally:
                    answered += 1
                return None

            tasks = [asyncio.create_task(one()) for _ in range(flood)]
            while loop.time() < began + 3.0:
                told = await channel.call(keep, beat, pb.KeepTransactionAliveResponse, 8.0)
                assert not told.refused
                await asyncio.to_thread(lambda: modest.begin().abort())
            soon, took = answered, loop.time() - began
            ends = await asyncio.gather(*tasks)
            await channel.close()
            return soon, ends.count(LimitReached), took

        soon, refused, took = asyncio.run(beside())
        assert took > 7.0 or soon <= rate + 2 * rate * (took + 1)
        assert flood - refused <= rate + rate * 9
        mine.abort()
    finally:
        ctl("limit", "unset", "greedy", "user_begins_per_second")
    wait_until(lambda: not _is_late(greedy), "there is no limit any more")


def _is_late(client: Client) -> bool:
    """Whether what a user begins has to wait."""
    began = time.monotonic()
    for txn in client.begin_many(10) + client.begin_many(1):
        txn.abort()
    return time.monotonic() - began > 0.9


def test_what_the_page_shows_is_done(ctl: Ctl) -> None:
    for line in blocks.block("docs/security.md", "txnctl limit").splitlines():
        ctl(*line.partition("#")[0].split()[1:])
    ctl("limit", "set", "etl", "retention_ms", "3", code=1)


@pytest.mark.parametrize("of", [("config",), ("limit", "greedy")])
def test_a_number_below_zero_is_told_to_be_out_of_range(ctl: Ctl, of: tuple[str, ...]) -> None:
    """It was taken for an option of the command."""
    told = ctl(of[0], "set", *of[1:], "user_connections", "-5", code=1)
    assert "user_connections = -5 is out of range" in told


def test_a_user_sets_no_limits(users: list[Client]) -> None:
    request = admin_pb2.SetLimitRequest(identity="greedy", name="user_open_transactions", value=0)
    with pytest.raises(NotAuthorized, match="operator on the cluster"):
        users[0].call("txnstatus.Admin/SetLimit", request, admin_pb2.SetLimitResponse)
