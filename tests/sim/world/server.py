"""A node's handlers in the simulated world, whose requests have bad luck."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from google.protobuf.message import Message

from tests.sim.campaign.scenario import Scenario
from txnstatus.rpc.server import Handler, Registry

BEGIN = "txnstatus.TxnManager/BeginTransaction"
"""A client that asks again says so (`is_retry`); the first attempt arrives once, as over TCP."""
ERRANDS = (
    "txnstatus.Participant/Participate",
    "txnstatus.TxnStatus/GetOutcomes",
    "txnstatus.TxnStatus/RaiseFloor",
)
"""What leaders ask of each other."""


class Server(Registry):
    """A node's handlers; requests and answers overtake each other, and some are carried out again, later."""

    def __init__(self, node: str, cluster_id: Callable[[], str], scenario: Scenario, rng: random.Random) -> None:
        super().__init__(node, cluster_id)
        self._scenario, self._rng = scenario, rng

    async def run(self, method: str, handler: Handler, request: Message) -> Message:
        if self._rng.random() < self._scenario.duplicates and method != BEGIN:
            asyncio.ensure_future(self._again(method, handler, request))  # noqa: RUF006  (the loop holds it)
        late = max(self._scenario.late, self._scenario.late_errands if method in ERRANDS else 0.0)
        if self._rng.random() < late:
            await asyncio.sleep(self._rng.uniform(0.0, 0.3))
        answer = await super().run(method, handler, request)
        if self._rng.random() < late:
            await asyncio.sleep(self._rng.uniform(0.0, 0.3))
        return answer

    async def _again(self, method: str, handler: Handler, request: Message) -> None:
        """As a request does whose client gave up and asked elsewhere."""
        await asyncio.sleep(self._rng.choice([0.0, 0.05, 0.5, 2.0]) * self._rng.random())
        await asyncio.gather(super().run(method, handler, request), return_exceptions=True)
