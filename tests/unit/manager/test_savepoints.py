"""A savepoint over shards: what one of them refuses is taken back everywhere, however late another one holds it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from txnmanager.keepers import Keepers
from txnmanager.savepoints import Savepoints
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotFound
from txnstatus.proto import savepoint_pb2 as pb

HOME, REFUSES, LATE = 0, 1, 2
NODES = {"n1": NodeInfo("n1:1", ("status", "participant"))}
CATALOG = initial(NODES, participant_shards=3, replication=1, range_span=9, options=Options())
SHARDS = {"t.nowhere": REFUSES, "t.there": LATE}


class Shards:
    """Leaders of three shards, one of which has no such table, and another takes its time."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.asked_late = asyncio.Event()
        self.may_hold = asyncio.Event()
        self.cluster = SimpleNamespace(
            shard_of_table=SHARDS.__getitem__,
            shard_by_hash=lambda _name: HOME,
            state=SimpleNamespace(shards=range(3)),
            update=lambda _state: None,
        )

    async def call(self, *_: Any) -> None:
        """Whether a table is there, nobody knows here."""

    async def call_leader(self, group: str, method: str, _request: Any, response: Any, _timeout: float) -> Any:
        step = method.rpartition("/")[2]
        if step == "GetCatalog":
            return CATALOG.to_wire()
        shard = int(group.rpartition("-")[2])
        if step == "HoldSavepoint" and shard == REFUSES:
            await self.asked_late.wait()
            raise NotFound("t.nowhere")
        if step == "HoldSavepoint" and shard == LATE:
            self.asked_late.set()
            await self.may_hold.wait()
        self.story.append(f"{step} {shard}")
        return response()


async def test_a_shard_that_holds_it_late_is_told_to_drop_it_after_that() -> None:
    shards = Shards()
    savepoints = Savepoints(cast(TxnSystemClient, shards), cast(Keepers, shards))
    request = pb.CreateSavepointRequest(name="load", savepoint_id="s" * 8, owner="ada", tables=sorted(SHARDS))
    making = asyncio.ensure_future(savepoints.create_savepoint(request))
    await shards.asked_late.wait()
    for _ in range(20):
        await asyncio.sleep(0)  # as long as whoever does not wait for all needs
    shards.may_hold.set()
    with pytest.raises(NotFound, match=r"t\.nowhere"):
        await making
    for _ in range(20):
        await asyncio.sleep(0)
    assert shards.story.index(f"HoldSavepoint {LATE}") < shards.story.index(f"DropSavepoint {LATE}")
