"""Commits that are one entry of a log, with their last writes in it, at moments in which that entry may not come to be.

A disk is full while it is written; or the transaction is about to expire. The worlds judge themselves; here is counted
that they have had such moments.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.actors.client import EXPECTED, Client
from tests.sim.campaign import scenario
from tests.sim.campaign.fault import NODES, Fault
from tests.sim.world import world
from txnstatus.catalog.catalog import CATALOG
from txnstatus.process.disk import DiskFull
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.journal import Frame
from txnstatus.raft.parts import split
from txnstatus.raft.proposals import Proposal
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.commit.together import Together
from txnstatus.status.table import StatusApplied
from txnstatus.types import TxnId, TxnState

SEEDS = range(2)
REMEMBERED = 1_000


class Moments:
    """What became of commits that carry their last writes."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self._sent: deque[bytes] = deque(maxlen=REMEMBERED)
        """The last of them, as logs have them."""

    def seams(self) -> list[tuple[str, Any]]:
        submit, write, apply = RaftDriver.submit, RaftDriver._write, Together.apply

        def submitted(
            driver: RaftDriver, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False
        ) -> None:
            if driver.group.group != CATALOG:  # which has no parts
                self._submitted(commands)
            submit(driver, commands, ended, linger=linger)

        async def written(driver: RaftDriver, frame: Frame, release: Callable[[], bool]) -> None:
            try:
                await write(driver, frame, release)
            except (DiskFull, OSError):
                self._not_written(driver, frame)
                raise

        def applied(together: Together, command: cmd.Command) -> StatusApplied | Rejected:
            outcome = apply(together, command)
            self._applied(together, command, outcome)
            return outcome

        return [
            ("txnstatus.raft.driver:RaftDriver.submit", submitted),
            ("txnstatus.raft.driver:RaftDriver._write", written),
            ("txnstatus.status.commit.together:Together.apply", applied),
        ]

    def _submitted(self, commands: Iterable[bytes]) -> None:
        for each in commands:
            part, own = split(each)
            if part.startswith("status") and isinstance(command := cmd.decode(own), cmd.BeginCommit) and command.writes:
                self._sent.append(each)

    def _not_written(self, driver: RaftDriver, frame: Frame) -> None:
        if any(command in frame.data for command in self._sent):
            self.seen["not written by its leader" if driver.group.is_leader else "not written by a follower"] += 1

    def _applied(self, together: Together, command: cmd.Command, outcome: StatusApplied | Rejected) -> None:
        match command:
            case cmd.BeginCommit(writes=(_, *_)) if isinstance(outcome, StatusApplied):
                record = outcome.records[0]
                self.seen["one entry"] += outcome.changed and record.state is TxnState.COMMITTED
            case cmd.BeginCommit(txn_id, writes=(_, *_)):
                self.seen["after its transaction expired"] += _state(together, txn_id) is TxnState.ABORTED
            case cmd.Expire(txn_id) if isinstance(outcome, Rejected):
                self.seen["before its transaction expired"] += _state(together, txn_id) is TxnState.COMMITTED


def _state(together: Together, txn_id: TxnId) -> TxnState | None:
    record = together.table.find(txn_id)
    return record.state if record is not None else None


def sessions(waits: tuple[float, float]) -> tuple[str, Any]:
    """Programs that do nothing but such commits. `waits`: time from a begin to its commit, in keep-alive intervals, in
    which nobody keeps the transaction alive."""

    async def session(client: Client) -> None:
        tables = client._shared.tables[:2]
        while not client._shared.stopping:
            with contextlib.suppress(*EXPECTED):
                for txn_id in await client._begin(tables):
                    last = [await client._with_files(txn_id, table) for table in tables]
                    await asyncio.sleep(client._rng.uniform(*waits) * client._ledger.txn(txn_id).keepalive)
                    await client._commit(txn_id, last)

    return "tests.sim.actors.client:Client._session", session


def played(faults: Callable[[int], Iterable[Fault]], waits: tuple[float, float] = (0.0, 0.0)) -> Counter[str]:
    """Moments of some worlds, in which nothing else goes wrong. `faults`: of a world, by its seed."""
    moments = Moments()
    for seed in SEEDS:
        calm = replace(
            scenario.make(seed, "calm"),
            seconds=6.0,
            clients=4,
            crowd=1,
            groups=1,
            replication=3,
            carries=True,
            range_span=1_000,
            keepalive_millis=1_000,
            faults=tuple(sorted(faults(seed), key=lambda fault: fault.at)),
        )
        result = world.run(calm, planted=[*moments.seams(), sessions(waits)])
        assert not result.failed, f"{result.scenario}\n{result.violations[0]}"
        assert moments.seen["one entry"]
    return +moments.seen


def in_turn(kind: str, amount: float = 0.0, seconds: float = 0.4) -> Callable[[int], list[Fault]]:
    """Each node has it again and again, one after the other."""
    return lambda seed: [
        Fault(1.0 + 0.5 * number, kind, NODES[(seed + number) % len(NODES)], "", seconds, amount) for number in range(9)
    ]


@pytest.mark.campaign
def test_a_disk_that_has_no_room_for_the_entry() -> None:
    moments = played(in_turn("disk_full", amount=300.0))
    assert moments.keys() >= {"not written by its leader", "not written by a follower"}


def test_the_expiry_of_the_transaction_on_its_way() -> None:
    """Whichever of the two is first in the log holds, for all tables of the transaction."""
    moments = played(in_turn("slow_disk", amount=0.1, seconds=4.0), waits=(0.9, 1.3))
    assert moments.keys() >= {"after its transaction expired", "before its transaction expired"}
