"""A node's handlers in the simulated world, whose requests have bad luck."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.sim.campaign.scenario import Scenario
from txnstatus.rpc.calls import Call, PassedOn
from txnstatus.rpc.server import Registry

BEGIN = "txnstatus.TxnManager/BeginTransaction"
"""A client that asks again says so (`is_retry`); the first attempt arrives once, as over TCP."""
ERRANDS = (
    "txnstatus.Participant/Participate",
    "txnstatus.TxnStatus/GetOutcomes",
    "txnstatus.TxnStatus/RaiseFloor",
)
"""What leaders ask of each other."""
AGAIN_SECONDS = 10.0


class Server(Registry):
    """A node's handlers; requests and answers overtake each other, and some are carried out again, later."""

    def __init__(self, node: str, cluster_id: Callable[[], str], scenario: Scenario, rng: random.Random) -> None:
        super().__init__(node, cluster_id)
        self._scenario, self._rng = scenario, rng

    def answer(self, method: str, calls: Sequence[Call], group: str = "") -> None:
        """Answers those that are not late together, and each of the others by itself."""
        loop, rng = asyncio.get_running_loop(), self._rng
        late = max(self._scenario.late, self._scenario.late_errands if method in ERRANDS else 0.0)
        in_time: list[Call] = []
        for call in calls:
            if rng.random() < self._scenario.duplicates and method != BEGIN:
                # As a request does whose client gave up and asked elsewhere.
                again = Answered(call.request, loop.time() + AGAIN_SECONDS)
                pause = rng.choice([0.0, 0.05, 0.5, 2.0]) * rng.random()
                loop.call_later(pause, super().answer, method, [again], group)
            if rng.random() < late:
                call = _Late(call, rng.uniform(0.0, 0.3))
            if rng.random() < late:
                loop.call_later(rng.uniform(0.0, 0.3), super().answer, method, [call], group)
            else:
                in_time.append(call)
        if in_time:
            super().answer(method, in_time, group)


class Answered(Call):
    """A call whose answer nobody hears."""

    def _hear(self, answer: Any) -> None:
        pass


class _Late(PassedOn):
    """A call whose answer is on its way for a while."""

    def __init__(self, origin: Call, seconds: float) -> None:
        super().__init__(origin, origin.request)
        self._seconds = seconds

    def _hear(self, answer: Any) -> None:
        asyncio.get_running_loop().call_later(self._seconds, super()._hear, answer)
