"""ClusterMap: the last state of the catalog that this process has heard of.

It may lag behind; whoever acts on it finds that out from the answer (not the leader, no such replica), and asks again
by what the map says then.
"""

from __future__ import annotations

import asyncio
import functools
import zlib
from collections.abc import Callable, Collection, Mapping

from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.errors import InvalidArgument, NotFound, Unavailable
from txnstatus.foreign import check_foreign_name, foreign_name
from txnstatus.rpc.identity import check_cluster
from txnstatus.types import ParticipantId

KEPT_PARTS = 10_000
"""Participants whose parts are remembered: every step of a transaction asks for each."""


class ClusterMap:
    def __init__(self, state: CatalogState, reach: Mapping[str, str] | None = None) -> None:
        """`reach`: addresses under which this process reaches nodes, where they differ from those in the catalog."""
        self.state = state
        self._reach = dict(reach or {})
        self._listeners: list[Callable[[CatalogState], None]] = []
        self._changed = asyncio.Event()

    def update(self, state: CatalogState) -> None:
        """Takes a newer state; an older one is ignored. Raises OtherCluster for one of another cluster."""
        if state.cluster_id and self.state.cluster_id:
            check_cluster(self.state.cluster_id, state.cluster_id, "what was heard of")
        if state.version <= self.state.version:
            return
        self.state = state
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for listener in self._listeners:
            listener(state)

    def subscribe(self, listener: Callable[[CatalogState], None]) -> None:
        self._listeners.append(listener)

    async def wait_for(self, condition: Callable[[CatalogState], bool], what: str, timeout: float) -> CatalogState:
        """The first state in which the condition holds. Raises Unavailable."""
        try:
            async with asyncio.timeout(timeout):
                while not condition(self.state):
                    await self._changed.wait()
        except TimeoutError:
            raise Unavailable(f"{what}: the catalog did not say so within {timeout:.1f} s") from None
        return self.state

    def members(self, group: str) -> tuple[str, ...]:
        """The nodes that hold a replica of a group, or of a part of it, in order of preference.

        Raises NotFound where there is none.
        """
        members = self.state.groups.get(self.state.group_of(group))
        if members is None:
            raise NotFound(f"there is no group {group!r}")
        return members

    def replicas(self, group: str) -> tuple[str, ...]:
        """Nodes that may lead it: the members, and one that is about to be. Raises NotFound like `members`."""
        self.members(group)
        return self.state.replicas(group)

    @property
    def cluster_id(self) -> str:
        return self.state.cluster_id

    @property
    def nodes(self) -> Collection[str]:
        return self.state.nodes.keys()

    def address(self, node: str) -> str | None:
        """Where this process reaches the node; None: the catalog has no such node."""
        info = self.state.nodes.get(node)
        return self._reach.get(node, info.address) if info else None

    def shard_of_table(self, name: str) -> int:
        return zlib.crc32(name.encode()) % self.state.participant_shards

    def check_shard(self, name: str, shard: int) -> None:
        """Raises InvalidArgument where another shard has all that is called so."""
        if (right := self.shard_of_table(name)) != shard:
            raise InvalidArgument(f"{name} is kept by {shard_group(right)}, not by {shard_group(shard)}")

    def check_participant_id(self, participant_id: str) -> None:
        """Raises InvalidArgument for what cannot be one of this cluster, NotFound for a foreign one unknown to it."""
        name = foreign_name(participant_id)
        if name is not None:
            self.check_foreign(name)
            return
        try:
            known = 0 <= shard_of_table_id(participant_id) < self.state.participant_shards
        except ValueError:
            known = False
        if not known:
            raise InvalidArgument(
                f"{participant_id!r} is no participant's id: a table's is SHARD.NUMBER, with a shard below "
                f"{self.state.participant_shards}, a foreign one's @NAME"
            )

    def check_foreign(self, name: str) -> None:
        """Raises NotFound unless the catalog has the foreign participant."""
        if not self.state.foreign.get(check_foreign_name(name)):
            raise NotFound(
                f"the cluster knows no foreign participant {name}",
                hint="its host registers it when it starts: txnctl participant postgres --help",
            )


def shard_of_table_id(table_id: str) -> int:
    """A table id is `SHARD.NUMBER`. Raises ValueError."""
    return int(table_id.split(".", 1)[0])


@functools.lru_cache(maxsize=KEPT_PARTS)
def part_of(participant_id: ParticipantId) -> str | None:
    """The shard, by its name as a part of a group, that a participant is in; None: it is foreign."""
    return shard_group(shard_of_table_id(participant_id)) if foreign_name(participant_id) is None else None
