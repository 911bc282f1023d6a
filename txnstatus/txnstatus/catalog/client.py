"""How processes follow the catalog: a node keeps its map up to date, a process without one learns it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CATALOG, CatalogState, from_wire
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError, Unavailable
from txnstatus.limits import MAX_WAIT_SECONDS
from txnstatus.proto import admin_pb2 as admin_pb
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.roles import Granted
from txnstatus.rpc.channel import Channel, call_over
from txnstatus.rpc.errors import GONE
from txnstatus.security.access import Access
from txnstatus.shares import BEGINS, READS, Shares

log = logging.getLogger(__name__)

CALL_SECONDS = 10.0
FOLLOW_PAUSE_SECONDS = 0.5
NEWS_SECONDS = 1.0


class CatalogClient:
    """Keeps a node's map up to date: by asking the catalog's leader for news, over and over."""

    def __init__(self, client: TxnSystemClient) -> None:
        self._client = client

    async def refresh(self) -> CatalogState:
        """What the leader says now. Raises Unavailable."""
        return await self._ask(pb.GetCatalogRequest())

    async def change(self, command: cmd.Command) -> CatalogState:
        """Raises the catalog's refusal, or Unavailable."""
        wire = await self._client.call_leader(
            CATALOG, "txnstatus.Catalog/ChangeCatalog", cmd.to_wire(command), pb.CatalogState, CALL_SECONDS
        )
        self._client.cluster.update(from_wire(wire))
        return self._client.cluster.state

    async def run(self) -> None:
        """For ever."""
        cluster = self._client.cluster
        while True:
            known = 0 if cluster.state.is_public else cluster.state.version
            wait_millis = int(MAX_WAIT_SECONDS * 1000)
            try:
                await self._ask(pb.GetCatalogRequest(known_version=known, wait_millis=wait_millis))
            except TxnError as error:
                level = logging.DEBUG if error.retriable else logging.ERROR
                log.log(level, "no news of the catalog: %s", error.message)
                await self._ask_anybody()
                await asyncio.sleep(FOLLOW_PAUSE_SECONDS)

    async def _ask_anybody(self) -> None:
        """The leader may be a node that this one has not heard of; what any other has heard is committed, too."""
        for node in self._client.cluster.state.nodes:
            method, request = "txnstatus.Admin/GetCluster", admin_pb.GetClusterRequest()
            try:
                answer = await self._client.call_node(node, method, request, admin_pb.GetClusterResponse, NEWS_SECONDS)
            except TxnError as error:
                if error.hint == GONE:
                    self._client.gone()
            else:
                self._client.cluster.update(from_wire(answer.catalog))

    async def _ask(self, request: pb.GetCatalogRequest) -> CatalogState:
        wire = await self._client.call_leader(
            CATALOG, "txnstatus.Catalog/GetCatalog", request, pb.CatalogState, CALL_SECONDS
        )
        self._client.cluster.update(from_wire(wire))
        return self._client.cluster.state


async def learn_catalog(connect: Callable[[str], Channel], addresses: Sequence[str]) -> CatalogState:
    """The catalog of a cluster that is founded, from any node, for a process that has none. Raises Unavailable."""
    last: TxnError | None = None
    for address in addresses:
        channel = connect(address)
        try:
            method, request = "txnstatus.Admin/GetCluster", admin_pb.GetClusterRequest()
            answer = await call_over(channel, method, request, admin_pb.GetClusterResponse, NEWS_SECONDS)
        except TxnError as error:
            last = error
        else:
            if answer.catalog.cluster_id:
                return from_wire(answer.catalog)
            last = Unavailable(f"the cluster at {address} is not founded yet")
        finally:
            await channel.close()
    raise Unavailable(f"no node of a cluster at {', '.join(addresses)}; last: {last.message if last else 'none given'}")


def access_by(cluster: ClusterMap, admins: Collection[str]) -> Access:
    """What users may do by what the process hears of the catalog, from now on. `admins`: as for Rights."""
    access, heard = Access(admins), dict[str, Granted]()

    def hear(state: CatalogState) -> None:
        nonlocal heard
        access.users.shares = _shares(state, "")
        access.users.own = {user: _shares(state, user) for user in state.limits}
        if state.grants != heard:
            heard = dict(state.grants)
            access.learn(heard.values())

    hear(cluster.state)
    cluster.subscribe(hear)
    return access


def _shares(state: CatalogState, user: str) -> Shares:
    """What a user may have of one node; empty: one without limits of his own."""
    return Shares(
        connections=state.limit(user, "user_connections"),
        begins_per_second=state.limit(user, BEGINS),
        reads_per_second=state.limit(user, READS),
        calls_mib=state.limit(user, "user_calls_mib"),
        lock_waits=state.limit(user, "user_lock_waits"),
    )
