"""Proposer: the way of a service's commands into its group's log, and of what became of them back.

No task waits in between: what has applied is acted upon in the cycle that releases it, also when whoever asked is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from txnstatus.errors import NotTheLeader, OutcomeUnknown, TxnError
from txnstatus.failpoints import failpoint
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.proposals import Proposal


class Refusal(Protocol):
    """The command is refused on every replica alike."""

    @property
    def error(self) -> TxnError: ...


CommandT = TypeVar("CommandT")
AppliedT = TypeVar("AppliedT")
RefusalT = TypeVar("RefusalT", bound=Refusal)
Told = Callable[[AppliedT | TxnError], None]


class Proposer(Generic[CommandT, AppliedT, RefusalT]):
    def __init__(
        self,
        kind: str,
        driver: Callable[[], RaftDriver],
        encode: Callable[[CommandT], bytes],
        refusal: type[RefusalT],
        heard: Callable[[CommandT, AppliedT | RefusalT], None] = lambda _command, _outcome: None,
        name: Callable[[CommandT], str] = lambda command: type(command).__name__,
    ) -> None:
        """`heard` hears first of every command that has applied here, refused or not. `kind` and `name`: failpoints."""
        self._kind = kind
        self._name = name
        self._driver = driver
        self._encode = encode
        self._refusal = refusal
        self._heard = heard

    def submit(self, command: CommandT, told: Told[AppliedT], *, linger: bool = False) -> None:
        """`told` hears once how it ended: the state machine's answer or refusal, NotTheLeader or OutcomeUnknown.

        `linger`: as in `RaftDriver.submit`.
        """
        try:
            failpoint(f"{self._kind}.before.{self._name(command)}", NotTheLeader)
            self._driver().submit(self._encode(command), partial(self._ended, command, told), linger=linger)
        except TxnError as error:
            told(error)

    async def propose(self, command: CommandT, *, linger: bool = False) -> AppliedT:
        """Raises the state machine's refusal, NotTheLeader or OutcomeUnknown. `linger`: as in `submit`."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[AppliedT | TxnError] = loop.create_future()
        self.submit(command, lambda answer: None if told.done() else told.set_result(answer), linger=linger)
        answer = await told
        if isinstance(answer, TxnError):
            raise answer
        return answer

    async def propose_all(self, commands: Sequence[CommandT], *, linger: bool = False) -> list[AppliedT | TxnError]:
        """In one go; returns how each ended."""
        answers: list[Any] = [None] * len(commands)
        left = len(commands)
        all_told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(number: int, answer: AppliedT | TxnError) -> None:
            nonlocal left
            answers[number] = answer
            left -= 1
            if not left and not all_told.done():
                all_told.set_result(None)

        for number, command in enumerate(commands):
            self.submit(command, partial(told, number), linger=linger)
        if left:
            await all_told
        return answers

    def _ended(self, command: CommandT, told: Told[AppliedT], proposal: Proposal) -> None:
        if proposal.error is not None:
            told(proposal.error)
            return
        outcome: Any = proposal.outcome
        self._heard(command, outcome)
        try:
            failpoint(f"{self._kind}.after.{self._name(command)}", OutcomeUnknown)
        except TxnError as error:
            told(error)
        else:
            told(outcome.error if isinstance(outcome, self._refusal) else outcome)
