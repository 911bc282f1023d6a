"""Proposer: the way of a service's commands into its group's log, and of what became of them back.

No task waits in between: what has applied is acted upon in the cycle that releases it, also when whoever asked is gone.
What is proposed together goes together, there and back: most of what a command costs a leader is paid once for all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from txnstatus.errors import NotTheLeader, OutcomeUnknown, TxnError
from txnstatus.features import Gate
from txnstatus.process.failpoints import any_armed, failpoint
from txnstatus.raft.proposals import Proposal
from txnstatus.raft.replica import MAX_BATCH_BYTES, MAX_BATCH_COMMANDS
from txnstatus.replicated import Rejected
from txnstatus.tracing import spans
from txnstatus.tracing.spans import Fact, Kind

CommandT = TypeVar("CommandT")
AppliedT = TypeVar("AppliedT")
Told = Callable[[int, Sequence[AppliedT | TxnError]], None]
"""A listener that hears how the commands from a position on ended: the state machine's answer or refusal,
NotTheLeader or OutcomeUnknown."""


class Log(Protocol):
    """Where commands go: a group's driver, or a part's."""

    def submit(self, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False) -> None: ...


class Proposer(Generic[CommandT, AppliedT]):
    def __init__(
        self,
        kind: str,
        driver: Log,
        encode: Callable[[CommandT], bytes],
        level: Callable[[], int],
        heard: Callable[[Sequence[CommandT], Sequence[AppliedT | Rejected]], None] = lambda _commands, _outcomes: None,
    ) -> None:
        """`heard` hears first of all commands that have applied here, refused or not. `kind`: of failpoints, and as in
        `features`. `level`: the cluster's feature level, as far as it is known here."""
        self._kind = kind
        self.check = Gate(kind, level).check
        self._driver = driver
        self._encode = encode
        self._heard = heard

    def submit(self, commands: Sequence[CommandT], told: Told[AppliedT], *, linger: bool = False) -> None:
        """`told` hears once of every command; of all together, unless one entry cannot hold them.

        `linger`: as in `RaftDriver.submit`.
        """
        for start, encoded in self._parts(commands):
            part = commands[start : start + len(encoded)]
            hears = told if spans.tracer is None else self._traced(part, told)
            try:
                self.check(part)
                self._pass_before(part)
                self._driver.submit(encoded, partial(self._ended, start, part, hears), linger=linger)
            except TxnError as error:
                hears(start, [error] * len(part))

    def _traced(self, part: Sequence[CommandT], told: Told[AppliedT]) -> Told[AppliedT]:
        """The same listener, with a span until they have applied, or are lost, below that of whoever proposes.
        What is proposed for many calls together is in none of theirs: each has a span of its own."""
        above = spans.current()
        if spans.tracer is None or above is None:
            return told
        kinds = ", ".join(dict.fromkeys(type(command).__name__ for command in part))
        facts: dict[str, Fact] = {"txn.log": self._kind, "txn.commands": len(part)}
        ids: set[int | None] = {getattr(command, "txn_id", None) for command in part}
        if len(ids) == 1 and (txn_id := ids.pop()) is not None:
            facts["txn.id"] = txn_id
        span = spans.tracer.begin(f"propose {kinds}", Kind.INTERNAL, above.context, facts)
        if span is None:
            return told

        def hears(start: int, answers: Sequence[AppliedT | TxnError]) -> None:
            error = next((answer for answer in answers if isinstance(answer, TxnError)), None)
            span.end(f"{error.code}: {error.message}" if error is not None else "")
            told(start, answers)

        return hears

    async def propose(self, command: CommandT, *, linger: bool = False) -> AppliedT:
        """Raises the state machine's refusal, NotTheLeader or OutcomeUnknown. `linger`: as in `submit`."""
        (answer,) = await self.propose_all([command], linger=linger)
        if isinstance(answer, TxnError):
            raise answer
        return answer

    async def propose_all(self, commands: Sequence[CommandT], *, linger: bool = False) -> list[AppliedT | TxnError]:
        """Proposes all in one go; returns how each ended."""
        if not commands:
            return []
        answers: list[Any] = [None] * len(commands)
        left = len(commands)
        all_told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(start: int, of_part: Sequence[AppliedT | TxnError]) -> None:
            nonlocal left
            answers[start : start + len(of_part)] = of_part
            left -= len(of_part)
            if not left and not all_told.done():
                all_told.set_result(None)

        self.submit(commands, told, linger=linger)
        await all_told
        return answers

    def _parts(self, commands: Sequence[CommandT]) -> Iterator[tuple[int, Sequence[bytes]]]:
        """What one entry can hold, from which position on; what none can hold is alone, for the driver to refuse."""
        start, size, part = 0, 0, list[bytes]()
        for command in commands:
            encoded = self._encode(command)
            size += len(encoded)
            if part and (size > MAX_BATCH_BYTES or len(part) == MAX_BATCH_COMMANDS):
                yield start, part
                start, size, part = start + len(part), len(encoded), []
            part.append(encoded)
        yield start, part

    def _ended(self, start: int, commands: Sequence[CommandT], told: Told[AppliedT], proposal: Proposal) -> None:
        if proposal.error is not None:
            told(start, [proposal.error] * len(commands))
            return
        outcomes: Sequence[Any] = proposal.outcomes
        self._heard(commands, outcomes)
        answers = [outcome.error if isinstance(outcome, Rejected) else outcome for outcome in outcomes]
        if any_armed():
            answers = list(map(self._pass_after, commands, answers))
        told(start, answers)

    def _pass_before(self, commands: Sequence[CommandT]) -> None:
        if any_armed():
            for command in commands:
                failpoint(f"{self._kind}.before.{type(command).__name__}", NotTheLeader)

    def _pass_after(self, command: CommandT, answer: AppliedT | TxnError) -> AppliedT | TxnError:
        try:
            failpoint(f"{self._kind}.after.{type(command).__name__}", OutcomeUnknown)
        except TxnError as error:
            return error
        return answer
