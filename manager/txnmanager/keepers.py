"""Keepers: which shard keeps a table, by the table's name.

The hash of the name says which shard keeps a table, or knows which one it has placed it in, and says so. What a process
has heard holds for as long as the table is there, so it is asked once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotAuthorized, PlacedElsewhere, TxnError
from txnstatus.process.background import Tasks
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.roles import Role
from txnstatus.rpc.calls import Call, PassedOn, asked

ResponseT = TypeVar("ResponseT", bound=Message)

CALL_SECONDS = 15.0


class Keepers:
    def __init__(self, client: TxnSystemClient) -> None:
        self._client = client
        self._catalog = CatalogClient(client)
        self._tasks = Tasks("finding who keeps a table failed")

    async def call(
        self, name: str, method: str, request: Message, response: type[ResponseT], seconds: float = CALL_SECONDS
    ) -> ResponseT:
        """As `ask`, for one call that a task waits for. Raises what the call would hear."""
        answer: ResponseT = await asked(
            request, seconds, lambda calls: self.ask(method, [(name, call) for call in calls], response)
        )
        return answer

    def ask(self, method: str, calls: Sequence[tuple[str, Call]], response: type[Message]) -> None:
        """Asks the leaders of the shards that keep the tables of these names; those of one shard together.

        Each call hears the leader's answer, or Unavailable.
        """
        by_shard: defaultdict[int, list[Call]] = defaultdict(list)
        for name, call in calls:
            shard = self._client.cluster.shard_of_table(name)
            by_shard[shard].append(_ByName(call, name, self, method, response))
        for shard, asking in by_shard.items():
            self._client.ask_leader(shard_group(shard), method, asking, response, CALL_SECONDS)

    def placed(self, call: _ByName, shard: int) -> None:
        """The shard that was asked says which one keeps the table."""
        self._client.cluster.keeps(call.name, shard)
        if shard in self._client.cluster.state.shards:
            self.ask(call.method, [(call.name, call.origin)], call.response)
        else:
            self._tasks.spawn(self._ask_unheard_of(call, shard))

    async def _ask_unheard_of(self, call: _ByName, shard: int) -> None:
        """Its group was added a moment ago."""
        try:
            await self._catalog.refresh()
        except TxnError as error:
            call.origin.tell(error)
        else:
            self.placed(call, shard)


class _ByName(PassedOn):
    """A call for the shard that keeps a table."""

    __slots__ = ("_keepers", "method", "name", "response")

    def __init__(self, origin: Call, name: str, keepers: Keepers, method: str, response: type[Message]) -> None:
        super().__init__(origin, origin.request)
        self.name, self.method, self.response = name, method, response
        self._keepers = keepers

    def _hear(self, answer: Any) -> None:
        if isinstance(answer, PlacedElsewhere) and not self.origin.is_over:
            self._keepers.placed(self, answer.shard)
        else:
            super()._hear(self._refused(answer) or answer)

    def _refused(self, answer: Any) -> NotAuthorized | None:
        """A table is found by a name that it had, too. Who reads it so has to have the role on what it is called now:
        that name may be another table's by then, or its own again."""
        view = self.origin.view
        if view is None or not isinstance(answer, table_pb.ScanResponse) or answer.table.name == self.name:
            return None
        if view.has(Role.READER, answer.table.name):
            return None
        return NotAuthorized(f"what was called {self.name} then is for {Role.READER} on what it is called now")
