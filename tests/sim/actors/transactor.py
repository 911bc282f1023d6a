"""A simulated program's transactions: how they begin, live and end, as wire requests, and what it was told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from tests.sim.actors.caller import Caller, Shared
from tests.sim.judges.ledger import Write
from txnstatus.errors import InvalidArgument, LimitReached, TxnAborted, TxnError
from txnstatus.proto import table_pb2, txn_manager_pb2
from txnstatus.rpc.errors import from_detail
from txnstatus.types import DECIDED, DECIDED_COMMIT, Timestamp, TxnState

OWNER = "alice"


class Transactor(Caller):
    def __init__(self, name: str, rng: random.Random, shared: Shared, log: Callable[[str], None]) -> None:
        super().__init__(name, rng, shared, log)
        self._opened: dict[tuple[int, str], tuple[str, str]] = {}
        """Ids and directories of writes that begins have opened, by transaction and table, until they are used."""

    async def _take_snapshot(self) -> Timestamp:
        known_before = self._ledger.acked_commit_ts
        taken = await self._call(
            "txnstatus.TxnManager/GetSnapshot",
            txn_manager_pb2.GetSnapshotRequest(),
            txn_manager_pb2.GetSnapshotResponse,
        )
        self._ledger.took_snapshot(taken.timestamp, known_before)
        return Timestamp(taken.timestamp)

    async def _begin(self, tables: Sequence[str] = ()) -> Sequence[int]:
        """`tables`: those to which one transaction is going to write, if it is one."""
        label = request_id = self._id()
        count = self._rng.choice([1, 1, 1, 2, 3])
        request = txn_manager_pb2.BeginTransactionRequest(
            request_id=request_id, owner=OWNER, label=label, count=count, keepalive_millis=self._shared.keepalive_millis
        )
        if self._shared.changes_options and self._rng.random() < 0.3:
            request.keepalive_millis = 0  # the default, whatever it is now
        if self._shared.groups > 1:
            # By chance of its own: what else a seed means stays.
            request.near = random.Random(f"near {request_id}").choice([*(tables or self._shared.tables), ""])
        if count == 1:
            writes = [(table, f"write{self._id()}".replace("-", "x")) for table in tables]
            request.first_writes.extend(txn_manager_pb2.FirstWrite(table=t, write_id=w) for t, w in writes)
        ids: Sequence[int] = ()
        for _ in range(self._rng.choice([1, 1, 2])):  # now and then as a client that missed the answer
            sent_at, request.is_retry = self._shared.now(), bool(ids)
            try:
                answer = await self._call(
                    "txnstatus.TxnManager/BeginTransaction", request, txn_manager_pb2.BeginTransactionResponse
                )
            except LimitReached:
                self._ledger.refused_begin(request_id, asked_once=not (request.is_retry or self._shared.repeats))
                raise
            except InvalidArgument as error:
                if not self._shared.changes_options:
                    raise
                self._log(f"the options refuse it: {error.message}")
                return ()
            ids = list(answer.txn_ids)
            self._ledger.begun(request_id, ids, OWNER, label, answer.keepalive_millis / 1000, sent_at)
            write_ids = {each.table: each.write_id for each in request.first_writes}
            for opened in answer.first_writes:
                self._opened[ids[0], opened.table.name] = write_ids[opened.table.name], opened.directory
        self._log(f"began {ids}")
        return ids

    async def _keep_alive(self, txn_id: int) -> None:
        others = [txn_id]
        keepalive = self._ledger.txn(txn_id).keepalive
        while True:
            await asyncio.sleep(keepalive / 3)
            sent_at = self._shared.now()
            request = txn_manager_pb2.KeepTransactionAliveRequest(txn_ids=others, owner=OWNER)
            try:
                answer = await self._call(
                    "txnstatus.TxnManager/KeepTransactionAlive",
                    request,
                    txn_manager_pb2.KeepTransactionAliveResponse,
                    timeout=keepalive / 2,
                )
            except TxnError:
                continue
            refused = {each.txn_id: from_detail(each.error) for each in answer.refused}
            for each in others:
                if each not in refused:
                    self._ledger.kept_alive(each, sent_at)
                elif isinstance(refused[each], TxnAborted):
                    self._ledger.told_aborted(each)

    async def _commit(self, txn_id: int, last: Sequence[tuple[Write, table_pb2.AddFilesRequest]] = ()) -> None:
        """`last`: writes that the commit carries."""
        request = txn_manager_pb2.CommitTransactionRequest(
            txn_id=txn_id,
            owner=OWNER,
            wait_millis=self._rng.choice([0, 1000, 3000]),
            last_writes=[asked for _, asked in last],
        )
        state = None
        while state not in DECIDED and not self._shared.stopping:
            sent_at = self._shared.now()
            try:
                answer = await self._call(
                    "txnstatus.TxnManager/CommitTransaction", request, txn_manager_pb2.CommitTransactionResponse
                )
            except TxnAborted:
                self._ledger.told_aborted(txn_id)
                raise
            self._ledger.told(answer.txn, sent_at)
            state = TxnState(answer.txn.state)
        for write, _ in last if state in DECIDED_COMMIT else ():
            self._ledger.wrote(write, write.asked_at)
        self._log(f"committed {txn_id}: {state}")

    async def _abort(self, txn_id: int) -> None:
        request = txn_manager_pb2.AbortTransactionRequest(txn_id=txn_id, owner=OWNER, reason="a whim")
        sent_at = self._shared.now()
        answer = await self._call(
            "txnstatus.TxnManager/AbortTransaction", request, txn_manager_pb2.AbortTransactionResponse
        )
        self._ledger.told(answer.txn, sent_at)
