"""Registering: a table becomes a participant of a transaction beside the transaction's first write on it.

The first write's entry is proposed, and the status table is asked, at the same time; the write is answered when both
are done. Until then a gate keeps all else of the transaction away from the table, so the record that the entry makes
holds this one write, which nobody was told of: if the registration fails, it is withdrawn.

A leader takes a record that is OPEN for registered only if the status table has told it so itself: one before it may
have died between the two. It asks before it does anything with such a record, and of its own accord when that lasts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

from txnparticipant.leader.dispatcher import Dispatcher
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.upkeep.in_doubt import Overdue
from txnstatus.errors import NotFound, OutcomeUnknown, TxnError, Unavailable
from txnstatus.limits import MAX_OPS_PER_CALL
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import ParticipantState, TxnId, TxnState

log = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[str, TxnId]
Propose = Callable[[cmd.Command], Awaitable[ShardApplied]]
NOBODY = ""
"""The owner of a gate that the shard itself opens."""


class Registering:
    """One for a shard's replica; what is in memory here, the next leader finds out anew."""

    def __init__(
        self,
        shard: ParticipantShard,
        ranges: StatusRanges,
        propose: Propose,
        seconds: float,
        is_here: Callable[[TxnId], bool],
    ) -> None:
        """`seconds`: a record that is OPEN for longer, and may not be registered, is asked about.

        `is_here`: whether the transaction's record is in the same log. Then the first write's entry registers the
        table itself, and there is no gate.
        """
        self._is_here = is_here
        self._shard = shard
        self._ranges = ranges
        self._propose = propose
        self._dispatcher = Dispatcher()
        self._sure: defaultdict[str, set[TxnId]] = defaultdict(set)
        """Table → the transactions that are known to list it, until they end there."""
        self._writing: Counter[Key] = Counter()
        """Writes on their way that are not first ones."""
        self._overdue: Overdue[Key] = Overdue(seconds, MAX_OPS_PER_CALL)
        self._leadership = 0

    def forget(self) -> None:
        """Where a leadership begins or ends."""
        self._leadership += 1
        self._sure.clear()
        self._overdue.forget()

    def ended(self, table_id: str, txn_id: TxnId) -> None:
        """The transaction writes no more on the table."""
        self._sure[table_id].discard(txn_id)

    async def write(
        self, table: TableState, txn_id: TxnId, owner: str, write_id: str, write: Callable[[bool], Awaitable[T]]
    ) -> T:
        """What `write` returns, once the table is registered; it hears whether its command must carry BEGIN_TXN.

        Raises what `write` raises, or the status table's refusal; then nothing is written. OutcomeUnknown.
        """
        key = table.table_id, txn_id
        if self._is_here(txn_id):
            return await write(not self._is_open(key))
        while not self._passes(key):
            if self._shard.record(*key) is None and not (self._dispatcher.is_busy(key) or self._writing[key]):
                told: list[T | BaseException] = []
                first = partial(self._beside, table, txn_id, owner, write_id, write, told)
                await self._dispatcher.admit(key, first, owner)
                (answer,) = told
                if isinstance(answer, BaseException):
                    raise answer
                return answer
            if await self._asked(table, txn_id, owner):
                break
        self._writing[key] += 1
        try:
            return await write(not self._is_open(key))
        finally:
            self._writing[key] -= 1
            if not self._writing[key]:
                del self._writing[key]

    async def registered(self, table: TableState, txn_id: TxnId, owner: str) -> bool:
        """Registers the table before anything is done. Returns whether the command must carry BEGIN_TXN.

        Raises the status table's refusal.
        """
        key = table.table_id, txn_id
        while not (self._is_here(txn_id) or self._passes(key)):
            if await self._asked(table, txn_id, owner):
                break
        return not self._is_open(key)

    def is_settled(self, table_id: str, txn_id: TxnId) -> bool:
        """Whether what the transaction has on the table, if anything, is surely part of it."""
        key = table_id, txn_id
        if self._is_here(txn_id):
            return True
        return not self._dispatcher.is_busy(key) and (self._passes(key) or not self._is_open(key))

    async def settle(self, table_id: str, txn_id: TxnId, *, listed: bool) -> None:
        """Returns when that is so. `listed`: who asks knows that the transaction lists the table."""
        key = table_id, txn_id
        while not self.is_settled(*key):
            await self._dispatcher.admit(key, partial(self._settle, key, listed=listed), NOBODY)

    async def resolve(self, now: float) -> None:
        """One pass over what may not be registered; `now` is of a monotonic clock, in seconds."""
        due = self._overdue.take(self._unsettled(), now)
        await asyncio.gather(*(self._resolve(key) for key in due))

    # ---- what is known

    def _passes(self, key: Key) -> bool:
        return key[1] in self._sure[key[0]] and not self._dispatcher.is_busy(key)

    def _is_open(self, key: Key) -> bool:
        record = self._shard.record(*key)
        return record is not None and record.state is ParticipantState.OPEN

    def _unsettled(self) -> Iterator[Key]:
        for table in self._shard.tables():
            for txn_id in table.unfinished.keys() - self._sure[table.table_id]:
                if not self.is_settled(table.table_id, txn_id):
                    yield table.table_id, txn_id

    # ---- at the gate

    async def _beside(
        self,
        table: TableState,
        txn_id: TxnId,
        owner: str,
        write_id: str,
        write: Callable[[bool], Awaitable[T]],
        told: list[T | BaseException],
    ) -> None:
        """`told` gets what became of the write, if the table is registered."""
        leadership, key = self._leadership, (table.table_id, txn_id)
        registering = self._ranges.register(txn_id, owner, table.table_id, table.name)
        written = await _how_it_ended(write(True))
        refusal = await registering
        if refusal is None:
            self._note(key, leadership)
            told.append(written)
            return
        if self._is_open(key):
            await self._withdraw_own(cmd.Withdraw(txn_id, table.table_id, write_id), leadership)
        elif isinstance(written, OutcomeUnknown):
            raise written
        raise refusal

    async def _asked(self, table: TableState, txn_id: TxnId, owner: str) -> bool:
        """Through the gate without a write. Returns whether there is nothing to wait for: what comes is refused."""
        key = table.table_id, txn_id
        if self._is_open(key):
            await self._dispatcher.admit(key, partial(self._settle, key, listed=False), owner)
        else:
            await self._dispatcher.admit(key, partial(self._register, *key, owner, table.name), owner)
        record = self._shard.record(*key)
        return record is not None and record.state is not ParticipantState.OPEN

    async def _register(self, table_id: str, txn_id: TxnId, owner: str, name: str) -> None:
        leadership = self._leadership
        refusal = await self._ranges.register(txn_id, owner, table_id, name)
        if refusal is not None:
            raise refusal
        self._note((table_id, txn_id), leadership)

    def _note(self, key: Key, leadership: int) -> None:
        """It is registered. `leadership`: in which that was asked for; what a later one knows, it finds out anew."""
        record = self._shard.record(*key)
        if leadership == self._leadership and (record is None or record.state is ParticipantState.OPEN):
            self._sure[key[0]].add(key[1])

    async def _settle(self, key: Key, *, listed: bool) -> None:
        """Registers what is OPEN here for whoever opened it; withdraws it if that can never be.

        Raises why it could not be found out, for now.
        """
        record = self._shard.record(*key)
        if record is None or record.state is not ParticipantState.OPEN:
            return
        table, leadership = self._shard.table_by_id(key[0]), self._leadership
        try:
            await self._register(table.table_id, record.txn_id, record.owner, table.name)
        except TxnError as refusal:
            if refusal.retriable:
                raise
            txn = await self._look(record.txn_id)
            if txn is None or txn.owner != record.owner:
                await self._withdraw(table, record)
            elif listed or any(each.participant_id == table.table_id for each in txn.participants):
                self._note(key, leadership)
            elif TxnState(txn.state) is TxnState.OPEN:
                raise  # it may be registered yet, by whoever led before
            else:
                await self._withdraw(table, record)

    async def _look(self, txn_id: TxnId) -> common.TxnInfo | None:
        """None: the id was never given out, or every participant has acknowledged its end."""
        request = pb.GetTransactionStateRequest(txn_id=txn_id)
        try:
            answer = await self._ranges.call(txn_id, "GetTransactionState", request, pb.GetTransactionStateResponse)
        except NotFound:
            return None
        return answer.txn

    async def _withdraw(self, table: TableState, record: TableTxn) -> None:
        write_id = next(iter((*record.claimed, *record.rows)), "")
        try:
            await self._propose(cmd.Withdraw(record.txn_id, table.table_id, write_id))
        except TxnError as error:
            raise Unavailable(f"transaction {record.txn_id} stays on {table.name}: {error.message}") from error
        log.info(
            "%s: transaction %s is withdrawn: it was never registered",
            table.name,
            record.txn_id,
            extra={"txn_id": record.txn_id},
        )

    async def _withdraw_own(self, command: cmd.Withdraw, leadership: int) -> None:
        """Raises OutcomeUnknown where it stays: under another leader it may be registered by now, and acknowledged."""
        unknown = f"a write of transaction {command.txn_id} stays, and the table is not registered"
        if leadership != self._leadership:
            raise OutcomeUnknown(unknown, txn_id=command.txn_id)
        try:
            await self._propose(command)
        except TxnError as error:
            raise OutcomeUnknown(f"{unknown}: {error.message}", txn_id=command.txn_id) from error

    async def _resolve(self, key: Key) -> None:
        try:
            await self.settle(*key, listed=False)
        except TxnError as error:
            log.warning("%s: transaction %s may not be registered: %s", *key, error.message, extra={"txn_id": key[1]})


async def _how_it_ended(work: Awaitable[T]) -> T | Exception:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 whatever it is, the caller looks at it
        return error
