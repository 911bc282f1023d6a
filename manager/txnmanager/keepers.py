"""Keepers: which shard keeps a table, by the table's name, or by its id.

The hash of the name, or the number that the id begins with, says which shard keeps a table, or knows which one has it,
and says so. What a process has heard holds until that one is split, so it is asked once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Self, TypeVar

from google.protobuf.message import Message

from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotAuthorized, PlacedElsewhere, TxnError, Unavailable
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
        cluster = self._client.cluster
        self._ask([_ByName(call, name, self, method, response, cluster.shard_of_table(name)) for name, call in calls])

    def ask_by_id(self, method: str, calls: Sequence[tuple[str, Call]], response: type[Message]) -> None:
        """As `ask`, by the tables' ids. Raises ValueError where one is no table's."""
        cluster = self._client.cluster
        self._ask([_ById(call, id_, self, method, response, cluster.shard_of(id_)) for id_, call in calls])

    def _ask(self, calls: Sequence[_OfTable]) -> None:
        by_shard: defaultdict[int, list[_OfTable]] = defaultdict(list)
        for call in calls:
            by_shard[call.shard].append(call)
        for shard, asking in by_shard.items():
            first = asking[0]
            self._client.ask_leader(shard_group(shard), first.method, asking, first.response, CALL_SECONDS)

    def placed(self, call: _OfTable) -> None:
        """The shard that was asked says which one keeps the table."""
        if call.shard in self._client.cluster.state.shards:
            call.note(self._client.cluster)
            self._ask([call.again()])
        else:
            self._tasks.spawn(self._ask_unheard_of(call))

    async def _ask_unheard_of(self, call: _OfTable) -> None:
        """Its group was added a moment ago, or the shard was split off."""
        try:
            await self._catalog.refresh()
        except TxnError as error:
            call.origin.tell(error)
        else:
            if call.shard in self._client.cluster.state.shards:
                self.placed(call)
            else:
                call.origin.tell(Unavailable(f"the catalog has no shard {call.shard} yet, which keeps {call.table}"))


class _OfTable(PassedOn):
    """A call for the shard that keeps a table."""

    __slots__ = ("_keepers", "method", "response", "shard", "table")

    def __init__(
        self, origin: Call, table: str, keepers: Keepers, method: str, response: type[Message], shard: int
    ) -> None:
        """`table`: by what it is asked for. `shard`: the one to ask."""
        super().__init__(origin, origin.request)
        self.table, self.method, self.response, self.shard = table, method, response, shard
        self._keepers = keepers

    def again(self) -> Self:
        return type(self)(self.origin, self.table, self._keepers, self.method, self.response, self.shard)

    def note(self, cluster: ClusterMap) -> None:
        """The shard keeps it."""
        raise NotImplementedError

    def _hear(self, answer: Any) -> None:
        if isinstance(answer, PlacedElsewhere) and not self.origin.is_over:
            self.shard = answer.shard
            self._keepers.placed(self)
        else:
            super()._hear(answer)


class _ById(_OfTable):
    __slots__ = ()

    def note(self, cluster: ClusterMap) -> None:
        cluster.has_gone(self.table, self.shard)


class _ByName(_OfTable):
    __slots__ = ()

    def note(self, cluster: ClusterMap) -> None:
        cluster.keeps(self.table, self.shard)

    def _hear(self, answer: Any) -> None:
        super()._hear(self._refused(answer) or answer)

    def _refused(self, answer: Any) -> NotAuthorized | None:
        """A table is found by a name that it had, too. Who reads it so has to have the role on what it is called now:
        that name may be another table's by then, or its own again."""
        view = self.origin.view
        if view is None or not isinstance(answer, table_pb.ScanResponse) or answer.table.name == self.table:
            return None
        if view.has(Role.READER, answer.table.name):
            return None
        return NotAuthorized(f"what was called {self.table} then is for {Role.READER} on what it is called now")
