"""Twins: what the client's classes have, as coroutines. Each runs the method that it is called like."""

from __future__ import annotations

import asyncio
import contextvars
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Generic, Self, TypeVar
from weakref import WeakKeyDictionary

from txnclient import connecting
from txnclient.aio import stepping
from txnclient.aio.lines import Lines
from txnclient.calls.channel import ManagerChannel, parse_addresses
from txnclient.change.merge import Merge
from txnclient.client.client import Client
from txnclient.interruption import Interruption
from txnclient.snapshot import Snapshot
from txnclient.transaction.transaction import Transaction
from txnclient.write.locks import DEFAULT_LOCK_SECONDS

T = TypeVar("T")

MAX_THREADS = 256
"""Threads of one loop, for calls that read or write files, at one time: others wait for one."""
IN_THREADS = frozenset(
    {
        "add",
        "changes_since",
        "compact",
        "delete_where",
        "diff",
        "execute",
        "explain",
        "explained",
        "files",
        "import_files",
        "mark",
        "marked",
        "marks",
        "merge",
        "move_mark",
        "optimize",
        "past",
        "postgres",
        "publication",
        "publish_iceberg",
        "read",
        "remove_mark",
        "restore",
        "run",
        "run_merge",
        "sql",
        "stage",
        "stream",
        "table_files",
        "timeline",
        "to_arrow",
        "to_batches",
        "to_dataset",
        "to_duckdb",
        "to_pandas",
        "to_polars",
        "truncate",
        "undo",
        "update_where",
        "write",
        "write_all",
    }
)
"""Methods that read or write files, or wait for others who do: they run in a thread."""


class Twin(Generic[T]):
    """Whatever methods its original has, each to be awaited; other attributes are what they are there."""

    def __init__(self, original: T) -> None:
        self.original = original

    def __repr__(self) -> str:
        return f"<asyncio twin of {self.original!r}>"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.original, name)
        return partial(_Call, name, found) if callable(found) else _twin_of(found)


class AsyncClient(Twin[Client]):
    """`Client`, of one loop: to be used by its tasks, as many at once as there are."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """As `Client.close`."""
        lines = self.original.session.channel.connections
        assert isinstance(lines, Lines)
        await asyncio.to_thread(self.original.close)
        lines.hang_up()


class AsyncTransaction(Twin[Transaction]):
    """`Transaction`: to be used by one task at a time.

    A call that is cancelled as it writes aborts it, also where a thread still works at it. A commit that is cancelled
    may go on: `await txn.commit()` again tells what has come of it, and commits nothing twice. What was not sent, and
    nobody asks for, expires.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await stepping.run(self.original.leave, error)

    @property
    async def snapshot(self) -> AsyncSnapshot:
        """As `Transaction.snapshot`, whose timestamp is asked for: `await txn.snapshot`."""
        return AsyncSnapshot(await stepping.run(lambda: self.original.snapshot))


class AsyncSnapshot(Twin[Snapshot]):
    """`Snapshot`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.original.close()


class AsyncMerge(Twin[Merge[Any]]):
    """`Merge`: its clauses are added at once, and `execute` is awaited."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if not name.startswith("when_"):
            return found

        def add(*args: Any, **kwargs: Any) -> AsyncMerge:
            return AsyncMerge(getattr(self.original, name)(*args, **kwargs))

        return add


class _Call:
    """A call that is made when it is awaited, or entered by `async with`."""

    def __init__(self, name: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._name = name
        self._work = partial(method, *args, **kwargs)
        self._awaited = False
        self._entered: Any = None

    def __del__(self) -> None:
        """As a coroutine does: what was not awaited was not done."""
        if not self._awaited:
            warnings.warn(f"the call of {self._name!r} was never awaited", RuntimeWarning, stacklevel=2)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._made().__await__()

    async def _made(self) -> Any:
        self._awaited = True
        if self._name in IN_THREADS:
            return _twin_of(await self._in_thread())
        return _twin_of(await stepping.run(self._work))

    async def _in_thread(self) -> Any:
        """A thread goes on where its call was cancelled: what it writes has failed all the same."""
        interruption = Interruption()
        try:
            with interruption.concerns():
                work = partial(contextvars.copy_context().run, self._work)
                return await asyncio.get_running_loop().run_in_executor(_threads(), work)
        except asyncio.CancelledError as error:
            await stepping.run(interruption.happens, error)
            raise

    async def __aenter__(self) -> Any:
        self._entered = await self
        return await self._entered.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._entered.__aexit__(*error)


def _threads() -> ThreadPoolExecutor:
    """Threads of the running loop. Not its default ones, which are a few more than there are cores: with all of them in
    writes that wait for a lock, the transaction that holds it would have none for its next write."""
    loop = asyncio.get_running_loop()
    if loop not in _EXECUTORS:
        _EXECUTORS[loop] = ThreadPoolExecutor(MAX_THREADS, "txnclient-aio")
    return _EXECUTORS[loop]


_EXECUTORS: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
_TWINS: dict[type, Callable[[Any], Twin[Any]]] = {
    Client: AsyncClient,
    Transaction: AsyncTransaction,
    Snapshot: AsyncSnapshot,
    Merge: AsyncMerge,
}


def _twin_of(found: Any) -> Any:
    """The twin of what a call returned, if that has calls of its own."""
    if isinstance(found, list) and any(type(each) in _TWINS for each in found):
        return [_twin_of(each) for each in found]
    made = _TWINS.get(type(found))
    return found if made is None else made(found)


def connect(
    addresses: str | Sequence[str],
    *,
    owner: str | None = None,
    timeout: float = connecting.DEFAULT_TIMEOUT_SECONDS,
    lock_timeout: float = DEFAULT_LOCK_SECONDS,
    credentials: str | Path | None = None,
) -> AsyncClient:
    """As `txnclient.connect`. Raises InvalidArgument."""
    channel = ManagerChannel(parse_addresses(addresses), Lines(connecting.tls_of(credentials)), _pause)
    return AsyncClient(connecting.connect_over(channel, owner, timeout, lock_timeout))


def _pause(seconds: float) -> None:
    if stepping.may_wait():
        stepping.wait_for(asyncio.sleep(seconds))
    else:
        time.sleep(seconds)
