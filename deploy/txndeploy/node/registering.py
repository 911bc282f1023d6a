"""Says in the catalog which version a node is of, at every start, from the feature level on that has a place for it."""

from __future__ import annotations

import asyncio
import functools
import importlib.metadata
import logging

from txnstatus import features
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.client import CatalogClient
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import TxnError
from txnstatus.features import Levels

log = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
PAUSE_SECONDS = 0.5


@functools.cache
def own_version() -> str:
    """The version of this program."""
    return importlib.metadata.version("txnstatus")


class Registering:
    def __init__(self, client: TxnSystemClient, node_id: str, version: str, levels: Levels) -> None:
        self._catalog, self._cluster = CatalogClient(client), client.cluster
        self._wanted = cmd.RegisterNode(node_id, version, levels.oldest, levels.newest)
        self._levels = levels

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                await self._cluster.wait_for(
                    self._is_due, f"that {self._wanted.node_id} is to be told of", LOOK_SECONDS
                )
                await self._catalog.change(self._wanted)
            except TxnError as error:
                log.debug("the version of %s is not in the catalog: %s", self._wanted.node_id, error.message)
                await asyncio.sleep(PAUSE_SECONDS)

    def _is_due(self, state: CatalogState) -> bool:
        known, own = state.nodes.get(self._wanted.node_id), self._levels
        if not state.cluster_id or state.level < features.REGISTERED or known is None:
            return False
        return own.can(state.level) and (known.version, known.levels) != (self._wanted.version, own)
