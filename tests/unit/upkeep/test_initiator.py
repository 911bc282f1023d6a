"""A pass over tables that are worth no compaction."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from txnparticipant.upkeep.initiator import LOOKED_AT_ONCE, Initiator


async def test_a_pass_over_many_tables_leaves_turns_to_others() -> None:
    """No turn is as long as there are tables."""
    quiet: Any = SimpleNamespace(is_database=True, dropped=None, compactions=SimpleNamespace(open={}))
    shard: Any = SimpleNamespace(tables=lambda: [quiet] * (10 * LOOKED_AT_ONCE))
    unused: Any = None
    options: Any = SimpleNamespace(compact_lease_ms=1)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    await Initiator(shard, unused, unused, lambda: options).run_once()
    beside.cancel()
    assert turns >= 9
