"""ClusterMap: the last state of the catalog that this process has heard of.

It may lag behind; whoever acts on it finds that out from the answer (not the leader, no such replica), and asks again
by what the map says then.
"""

from __future__ import annotations

import asyncio
import functools
import zlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace

from txnstatus.catalog.catalog import CatalogState, shard_group
from txnstatus.errors import InvalidArgument, NotFound, PlacedElsewhere, Unavailable
from txnstatus.foreign import check_foreign_name, foreign_name
from txnstatus.rpc.identity import check_cluster
from txnstatus.types import ParticipantId

KEPT_PARTS = 10_000
"""Participants whose parts are remembered: every step of a transaction asks for each."""
MAX_KEEPERS = 10_000
"""Tables of which a process remembers who keeps them."""


class ClusterMap:
    def __init__(self, state: CatalogState, reach: Mapping[str, str] | None = None) -> None:
        """`reach`: addresses under which this process reaches nodes, where they differ from those in the catalog."""
        self.state = state
        self._reach = dict(reach or {})
        self._keepers: dict[str, int] = {}
        """Names of tables → the shards that were heard to keep them; those heard of last are the last."""
        self._gone: dict[str, int] = {}
        """Ids of tables → the shards that were heard to keep them, where these are not those that they begin with."""
        self._listeners: list[Callable[[CatalogState], None]] = []
        self._changed = asyncio.Event()

    def update(self, state: CatalogState) -> None:
        """Takes a newer state, or all of one that was public; an older one is ignored. In a public one the secrets stay
        that are known. Raises OtherCluster for one of another cluster."""
        if state.cluster_id and self.state.cluster_id:
            check_cluster(self.state.cluster_id, state.cluster_id, "what was heard of")
        completes = self.state.is_public and not state.is_public
        if state.version < self.state.version + (not completes):
            return
        if state.is_public:
            state = replace(state, ticket_keys=self.state.ticket_keys)
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
    def level(self) -> int | None:
        """The feature level; None: this process has not heard of the founding yet."""
        return self.state.level if self.state.cluster_id else None

    @property
    def nodes(self) -> Collection[str]:
        return self.state.nodes.keys()

    def address(self, node: str) -> str | None:
        """Where this process reaches the node; None: the catalog has no such node."""
        info = self.state.nodes.get(node)
        return self._reach.get(node, info.address) if info else None

    def shard_of_table(self, name: str) -> int:
        """The shard that keeps a table, as far as this process has heard; or that knows which one does."""
        keeper = self._keepers.get(name)
        return self.shard_by_hash(name) if keeper is None else keeper

    def shard_by_hash(self, name: str) -> int:
        """The shard that keeps all of this name, unless it has placed the table elsewhere."""
        return zlib.crc32(name.encode()) % self.state.participant_shards

    def shard_of(self, table_id: str) -> int:
        """The shard that keeps the table, as far as this process has heard; or that knows which one does.

        Raises ValueError where that is no table's id.
        """
        keeper = self._gone.get(table_id) if self._gone else None
        return shard_of_table_id(table_id) if keeper is None else keeper

    def has_gone(self, table_id: str, shard: int) -> None:
        """Another shard than its id says keeps the table, by the word of the one that kept it."""
        _note(self._gone, table_id, shard)

    def shard_in(self, group: str, name: str) -> int:
        """The shard that keeps a table placed in the group. Raises InvalidArgument where none can be."""
        self.state.check_placement(group)
        shards = self.state.shards_of[group]
        return shards[zlib.crc32(name.encode()) % len(shards)]

    def shard_beside(self, shard: int, name: str, group: str) -> int:
        """The shard that is to keep a new table: one by whose hash the name is, or one that was split off it.

        `group`: of those that are there; empty: wherever they are.
        """
        state = self.state
        family = [each for each in state.families[shard] if not group or state.parts[shard_group(each)] == group] or [
            shard
        ]
        return family[zlib.crc32(name.encode()) // state.participant_shards % len(family)]

    def keeps(self, name: str, shard: int) -> None:
        """A shard keeps the table: for as long as there is one of this name.

        Of a shard that is not in the map nothing is remembered: nobody could be asked, and the catalog is not asked
        for a table of which it is known who keeps it.
        """
        if shard not in self.state.shards:
            return
        _note(self._keepers, name, shard)

    def known_keeper(self, name: str) -> int | None:
        """The shard that was heard to keep a table."""
        return self._keepers.get(name)

    def check_shard(self, name: str, shard: int) -> None:
        """Raises InvalidArgument where another shard has what is called so, or knows where it is."""
        if (right := self.shard_by_hash(name)) != shard:
            raise InvalidArgument(f"{name} is kept by {shard_group(right)}, not by {shard_group(shard)}")

    def has_participant(self, participant_id: str) -> bool:
        """Whether there can be one of this id, as far as this process has heard."""
        try:
            self.check_participant_id(participant_id)
        except (InvalidArgument, NotFound):
            return False
        return True

    def check_participant_id(self, participant_id: str) -> None:
        """Raises InvalidArgument for what cannot be one of this cluster, NotFound for a foreign one unknown to it."""
        name = foreign_name(participant_id)
        if name is not None:
            self.check_foreign(name)
            return
        try:
            known = shard_group(shard_of_table_id(participant_id)) in self.state.parts
        except ValueError:
            known = False
        if not known:
            raise InvalidArgument(
                f"{participant_id!r} is no participant's id: a table's is SHARD.NUMBER, with one of the shards "
                f"{', '.join(map(str, self.state.shards))}, a foreign one's @NAME"
            )

    def check_foreign(self, name: str) -> None:
        """Raises NotFound unless the catalog has the foreign participant."""
        if not self.state.foreign.get(check_foreign_name(name)):
            raise NotFound(
                f"the cluster knows no foreign participant {name}",
                hint="its host registers it when it starts: txnctl participant postgres --help",
            )


async def asked_by_id(
    cluster: ClusterMap, shard: int, table_ids: Sequence[str], ask: Callable[[int, Sequence[str]], Awaitable[None]]
) -> None:
    """Asks a shard about its tables; where some have gone, about each alone, and who has it about that one.

    Raises what `ask` does, and Unavailable.
    """
    try:
        await ask(shard, table_ids)
    except PlacedElsewhere as placed:
        if len(table_ids) > 1:
            await asyncio.gather(*(asked_by_id(cluster, shard, [each], ask) for each in table_ids))
            return
        if placed.shard not in cluster.state.shards:
            raise Unavailable(f"the catalog has no shard {placed.shard} yet, which keeps {table_ids[0]}") from placed
        cluster.has_gone(table_ids[0], placed.shard)
        await asked_by_id(cluster, placed.shard, table_ids, ask)


def _note(keepers: dict[str, int], table: str, shard: int) -> None:
    keepers.pop(table, None)
    keepers[table] = shard
    if len(keepers) > MAX_KEEPERS:
        del keepers[next(iter(keepers))]


def shard_of_table_id(table_id: str) -> int:
    """A table id is `SHARD.NUMBER`: the shard in which it was made, which keeps it or knows which one does. Raises
    ValueError."""
    return int(table_id.split(".", 1)[0])


@functools.lru_cache(maxsize=KEPT_PARTS)
def part_of(participant_id: ParticipantId) -> str | None:
    """The shard, by its name as a part of a group, in which a participant began; None: it is foreign."""
    return shard_group(shard_of_table_id(participant_id)) if foreign_name(participant_id) is None else None
