"""The client for programs of asyncio: the same calls, awaited.

    from txnclient import aio

    async with aio.connect("127.0.0.1:7051") as client:
        async with client.transaction(label="nightly") as txn:
            await txn.upsert("shop.stock", rows)

Nothing of the client is written twice: its code runs as it is, and steps aside where it waits for an answer, so one
loop has thousands of transactions under way over one connection for each node. What reads or writes files runs in a
thread, `IN_THREADS` says which calls these are. Needs `txnstatus[aio]`.
"""

from txnclient.aio.twins import IN_THREADS, AsyncClient, AsyncMerge, AsyncSnapshot, AsyncTransaction, connect

__all__ = ["IN_THREADS", "AsyncClient", "AsyncMerge", "AsyncSnapshot", "AsyncTransaction", "connect"]
