"""Turns: one user's many calls begin a few in each turn of the loop while others have some, and all at once else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.harness.answering import SECONDS, STATE, Served
from tests.unit.harness.identities import REQUEST, Identities
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc import turns
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Purpose
from txnstatus.rpc.turns import FEW, PRESENT_SECONDS, Turns
from txnstatus.security.principals import Kind, Principal

ADA = Principal("air", Kind.USER, "ada")
BOB, NODE = replace(ADA, name="bob"), Principal("air", Kind.NODE, "n1")
MANY, MOST = 1_000, 256


async def test_whoever_is_alone_has_the_whole_turn() -> None:
    there = Turns()
    assert there.take(ADA, MANY, MOST) == MOST
    assert there.take(ADA, MANY, MOST) == 0, "in the same turn, over another connection"
    await asyncio.sleep(0)
    assert there.take(ADA, 3, MOST) == 3
    assert there.take(ADA, MANY, MOST) == MOST - 3


async def test_beside_others_each_has_a_few_in_each_turn() -> None:
    there = Turns()
    there.take(BOB, 1, MOST)
    assert [there.take(ADA, MANY, MOST), there.take(ADA, MANY, MOST)] == [FEW, 0]
    assert there.take(BOB, MANY, MOST) == FEW - 1
    await asyncio.sleep(0)
    assert [there.take(ADA, MANY, MOST), there.take(BOB, MANY, MOST)] == [FEW, FEW]


async def test_processes_and_strangers_have_whole_turns_and_take_nothing_of_users() -> None:
    there = Turns()
    for _ in range(3):
        assert there.take(NODE, MANY, MOST) == MOST
        assert there.take(None, MANY, MOST) == MOST
    assert there.take(ADA, MANY, MOST) == MOST


def test_who_was_there_a_while_ago_is_not_there_any_more() -> None:
    there = Turns()
    assert there.room("bob", MOST, 0.0) == MOST
    assert there.room("ada", MOST, PRESENT_SECONDS) == FEW
    assert there.room("ada", MOST, PRESENT_SECONDS + 0.1) == MOST
    assert there.room("bob", MOST, 2.0) == FEW
    assert there.room("ada", MOST, 2.0) == FEW


async def test_one_users_many_calls_do_not_keep_another_ones_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are answered, and hardly any before the other's, which came after them."""
    monkeypatch.setattr(turns, "PRESENT_SECONDS", 1e9)  # however slow the machine is
    air, answered = Identities(tmp_path / "air"), 0

    async def ask(channel: PeerChannel) -> None:
        nonlocal answered
        await channel.call(STATE, REQUEST, pb.GetTransactionStateResponse, SECONDS)
        answered += 1

    async with Served(tls=air.node()) as served, asyncio.timeout(SECONDS):
        alice, bob = (
            PeerChannel(served.address, tls=air.user(name), purpose=Purpose.CALLS) for name in ("alice", "bob")
        )
        await asyncio.gather(ask(alice), ask(bob))
        begun = asyncio.Event()
        served.manager.meanwhile = begun.set
        many = [asyncio.create_task(ask(alice)) for _ in range(2_000)]
        await begun.wait()
        answered = 0
        await ask(bob)
        assert answered < 100
        await asyncio.gather(*many)
        await asyncio.gather(alice.close(), bob.close())
