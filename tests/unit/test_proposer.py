"""Commands on their way through the log: everybody hears once, and what has applied is acted upon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from txnstatus import failpoints
from txnstatus.errors import IllegalState, NotTheLeader, OutcomeUnknown, TxnError
from txnstatus.proposer import Proposer
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.proposals import Proposal
from txnstatus.table import Rejected

REFUSED = Rejected(IllegalState("no"))


class Log:
    """A driver whose entries end when the test says so."""

    def __init__(self) -> None:
        self.leads = True
        self.waiting: list[tuple[bytes, Callable[[Proposal], None]]] = []
        self.heard: list[tuple[str, str | Rejected]] = []
        self.proposer: Proposer[str, str, Rejected] = Proposer(
            "status",
            lambda: cast(RaftDriver, self),
            str.encode,
            Rejected,
            lambda command, outcome: self.heard.append((command, outcome)),
        )

    def submit(self, command: bytes, ended: Callable[[Proposal], None], *, linger: bool = False) -> None:
        if not self.leads:
            raise NotTheLeader("not here")
        self.waiting.append((command, ended))

    def end(self, outcome: object = "done", error: TxnError | None = None) -> None:
        command, ended = self.waiting.pop(0)
        ended(Proposal(command, outcome=outcome, error=error))


async def proposed(log: Log, *commands: str) -> asyncio.Task[list[str | TxnError]]:
    """Once they are all on their way."""
    task = asyncio.create_task(log.proposer.propose_all(commands))
    await asyncio.sleep(0)
    return task


def test_all_of_one_call_go_in_one_go_and_each_is_answered() -> None:
    async def main() -> None:
        log = Log()
        task = await proposed(log, "a", "b", "c")
        assert [command for command, _ in log.waiting] == [b"a", b"b", b"c"]
        log.end("first")
        log.end(REFUSED)
        await asyncio.sleep(0)
        assert not task.done()
        log.end(error=OutcomeUnknown("lost"))
        first, refused, lost = await task
        assert (first, refused) == ("first", REFUSED.error)
        assert isinstance(lost, OutcomeUnknown)
        assert log.heard == [("a", "first"), ("b", REFUSED)], "of what is lost, nothing is known"
        assert await log.proposer.propose_all([]) == []

    asyncio.run(main())


def test_what_applies_is_acted_upon_when_whoever_asked_is_gone() -> None:
    """And in the cycle that releases it, before anybody else has a turn."""

    async def main() -> None:
        log = Log()
        task = await proposed(log, "a")
        task.cancel()
        await asyncio.sleep(0)
        assert task.cancelled()
        log.end()
        assert log.heard == [("a", "done")]

    asyncio.run(main())


def test_who_does_not_lead_takes_nothing() -> None:
    async def main() -> None:
        log = Log()
        log.leads = False
        with pytest.raises(NotTheLeader):
            await log.proposer.propose("a")
        told: list[str | TxnError] = []
        log.proposer.submit("a", told.append)
        assert isinstance(told[0], NotTheLeader)
        assert not log.heard

    asyncio.run(main())


def test_an_answer_that_is_lost_is_acted_upon_all_the_same() -> None:
    async def main() -> None:
        log = Log()
        failpoints.arm("status.after.str=error")
        try:
            task = await proposed(log, "a")
            log.end()
            (answer,) = await task
        finally:
            failpoints.arm("")
        assert isinstance(answer, OutcomeUnknown)
        assert log.heard == [("a", "done")]

    asyncio.run(main())
