"""A simulated program: transactions and reads at random, as wire requests to any manager, and what it was told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from tests.sim.actors.annalist import Annalist
from tests.sim.actors.bank import ACCOUNT_SCHEMA, ACCOUNTS, KEYED_ACCOUNTS
from tests.sim.actors.books import BOOK_SCHEMA, BOOKS
from tests.sim.actors.builder import OF_RUINS, Builder
from tests.sim.actors.caller import Shared
from tests.sim.actors.clerk import Clerk
from tests.sim.actors.compactor import Compactor
from tests.sim.actors.doctor import Doctor
from tests.sim.actors.historian import Historian
from tests.sim.actors.latecomer import Latecomer
from tests.sim.actors.locker import Locker
from tests.sim.actors.rolls import ROLL_SCHEMAS, ROLLS
from tests.sim.actors.seller import Seller
from tests.sim.actors.transactor import OWNER
from tests.sim.judges.ledger import Write
from txnclient.token import Token
from txnstatus.errors import (
    CommitUnknown,
    Forgotten,
    IllegalState,
    InvalidArgument,
    LimitReached,
    NotAuthorized,
    NotFound,
    SnapshotTooOld,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.proto import common_pb2, table_pb2, txn_manager_pb2, txn_status_pb2
from txnstatus.table_properties import NO_AUTO_COMPACTION

SESSIONS = 2
"""Sessions of one program, at the same time."""
OPTIONS: Mapping[str, Sequence[int]] = {
    "keepalive_min_ms": (100, 500, 2_000),
    "keepalive_default_ms": (500, 1_000, 3_000),
    "keepalive_max_ms": (1_000, 3_000, 3_600_000),
    "staleness_interval_ms": (0, 100, 200, 500),
    "retention_ms": (1_000, 3_000, 3_600_000),
    "max_open_transactions": (0, 4, 12, 100_000),
    "user_open_transactions": (0, 0, 3, 100_000),
}
"""What is set at run time, and to what."""
EXPECTED = (TxnAborted, CommitUnknown, Unavailable, IllegalState, Forgotten, LimitReached, SnapshotTooOld)
"""What the service may answer to a well-formed request; anything else is a fault."""
SCHEMA = common_pb2.TableSchema(columns=[common_pb2.Column(name="k", type="bigint", nullable=True)])


class Client(Clerk, Historian, Annalist, Compactor, Doctor, Builder, Locker, Seller, Latecomer):
    """One process's sessions. Never raises for what the service may answer."""

    def __init__(self, name: str, rng: random.Random, shared: Shared, log: Callable[[str], None]) -> None:
        super().__init__(name, rng, shared, log)
        self._stragglers: set[asyncio.Future[None]] = set()

    async def work(self) -> None:
        """Until the world tells it to stop."""
        await self._create_tables()
        beside = [work for _ in range(self._shared.crowd) for work in self._beside_sessions()]
        await asyncio.gather(*(self._session() for _ in range(SESSIONS)), *beside)

    def _beside_sessions(self) -> Iterator[Awaitable[None]]:
        """What goes on all the time."""
        if self._shared.holds_snapshots:
            yield self._hold_snapshots(EXPECTED)
        if self._shared.foreign:
            yield self._go_on(lambda: self._sell(self._write))
        if self._shared.keeps_rolls:
            yield self._go_on(self._compact)
        if self._shared.comes_late:
            yield self._go_on(self._come_late)
        if self._shared.locks:
            yield self._go_on(self._lock_things)
        if self._shared.rebuilds:
            yield self._rebuild((*EXPECTED, *OF_RUINS))

    async def _go_on(self, action: Callable[[], Awaitable[None]]) -> None:
        """Again and again, beside the sessions."""
        while not self._shared.stopping:
            try:
                await action()
            except EXPECTED as error:
                self._log(f"{type(error).__name__}: {error.message}")
            await asyncio.sleep(self._rng.uniform(0.0, 0.2))

    async def _session(self) -> None:
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (10, self._transact),
            (5, self._read),
            (4, self._transfer),
            (2, self._join),
            (4, self._look_around),
            *([(1, self._change_option)] if self._shared.changes_options else []),
            *([(10, self._keep_books), (5, self._look_into_books)] if self._shared.writes_rows else []),
            *([(20, self._keep_rolls), (8, self._look_into_rolls)] if self._shared.keeps_rolls else []),
            *([(14, self._take_back), (6, self._keep_points)] if self._shared.looks_back else []),
            *([(4, self._read_timeline)] if self._shared.chronicles else []),
        ]
        while not self._shared.stopping:
            _, action = self._rng.choices(actions, [weight for weight, _ in actions])[0]
            try:
                await action()
            except EXPECTED as error:
                self._log(f"{type(error).__name__}: {error.message}")
            await asyncio.sleep(self._rng.uniform(0.0, 0.2))

    async def _create_tables(self) -> None:
        schemas = {**dict.fromkeys(self._shared.tables, SCHEMA), **dict.fromkeys(ACCOUNTS, ACCOUNT_SCHEMA)}
        if self._shared.writes_rows:
            schemas.update(dict.fromkeys((*KEYED_ACCOUNTS, *BOOKS), BOOK_SCHEMA))
        if self._shared.keeps_rolls:
            schemas.update(ROLL_SCHEMAS)
        for table, schema in schemas.items():
            request = table_pb2.CreateTableRequest(name=table, schema=schema, request_id=f"create {table}")
            if schema.primary_key:  # who compacts here knows of no row changes
                request.properties.add(name=NO_AUTO_COMPACTION, value="true")
            while not self._shared.stopping:
                try:
                    answer = await self._call("txnstatus.Table/CreateTable", request, table_pb2.CreateTableResponse)
                except TxnError:
                    continue
                if table in self._shared.bank.accounts:
                    self._shared.bank.tables.add(table)
                elif table in BOOKS:
                    self._shared.books.tables.add(table)
                elif table in ROLLS:
                    self._shared.rolls.tables.add(table)
                else:
                    self._ledger.tables[table] = answer.table.table_id
                break

    # ---- transactions

    async def _transact(self) -> None:
        for txn_id in await self._begin(self._some_tables() if self._shared.carries else ()):
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                await self._fill_and_end(txn_id)
            finally:
                beating.cancel()

    async def _fill_and_end(self, txn_id: int) -> None:
        is_shared = self._rng.random() < 0.2
        if is_shared:
            token = Token(txn_id, self._shared.keepalive_millis, False, "sim")  # type: ignore[arg-type]
            self._shared.tokens.append(token.to_bytes())
        tables = self._some_tables()
        for table in tables:
            for _ in range(self._rng.choice([1, 1, 2])):
                await self._write(txn_id, table)
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.1, 1.0]))
        end = self._rng.random()
        if self._rng.random() < self._shared.haste:
            # In a hurry: ends it while a first write to a table is still under way.
            untouched = [table for table in self._shared.tables if table not in tables]
            late = asyncio.ensure_future(self._write(txn_id, self._rng.choice(untouched or self._shared.tables)))
            self._stragglers.add(late)
            late.add_done_callback(self._straggled)
            await asyncio.sleep(self._rng.uniform(0.0, 0.02))
            end /= 2
        if end < 0.1:
            self._log(f"abandons {txn_id}")
        elif end < 0.25:
            await self._abort(txn_id)
        else:
            # Who has the token commits without them.
            carries = self._shared.carries and not is_shared
            last = [await self._with_files(txn_id, table) for table in self._some_tables()] if carries else []
            await self._commit(txn_id, last)
            if tables and self._rng.random() < 0.3:
                await self._write(txn_id, tables[0])  # a zombie

    def _some_tables(self) -> list[str]:
        return self._rng.sample(self._shared.tables, self._rng.randint(0, len(self._shared.tables)))

    def _straggled(self, task: asyncio.Future[None]) -> None:
        self._stragglers.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, EXPECTED):
            raise error

    async def _write(self, txn_id: int, table: str) -> None:
        write, request = await self._with_files(txn_id, table)
        sent_at = write.asked_at
        for _ in range(self._rng.choice([1, 1, 2])):
            await self._call("txnstatus.Table/AddFiles", request, table_pb2.AddFilesResponse)
            self._ledger.wrote(write, sent_at)

    async def _with_files(self, txn_id: int, table: str) -> tuple[Write, table_pb2.AddFilesRequest]:
        """A write whose files are there, and what adds them."""
        carried = self._opened.pop((txn_id, table), None)
        write_id, directory = await self._open(txn_id, table) if carried is None else carried
        # A task may take long, and outlive its transaction.
        await asyncio.sleep(self._rng.uniform(0.0, 1.5 if self._rng.random() < 0.05 else 0.05))
        manifest = self._shared.warehouse.write(directory, "manifest")
        overwrite = self._rng.random() < self._shared.overwrites
        write = Write(txn_id, table, write_id, directory, manifest, overwrite, (), self._shared.now())
        self._ledger.txn(txn_id).writes.append(write)
        request = table_pb2.AddFilesRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=table,
            write_id=write_id,
            mode=table_pb2.OVERWRITE if overwrite else table_pb2.APPEND,
            manifest=table_pb2.ManifestRef(path=manifest, bytes=1, crc32=1, file_count=1, row_count=1, data_bytes=1),
        )
        return write, request

    async def _open(self, txn_id: int, table: str) -> tuple[str, str]:
        """The id of a write, and its directory."""
        write_id, sent_at = f"write{self._id()}".replace("-", "x"), self._shared.now()
        opened = await self._call(
            "txnstatus.Table/OpenWrite",
            table_pb2.OpenWriteRequest(txn_id=txn_id, owner=OWNER, table=table, write_id=write_id),
            table_pb2.OpenWriteResponse,
        )
        self._ledger.opened(txn_id, write_id, sent_at)
        return write_id, opened.directory

    async def _join(self) -> None:
        """Works in somebody else's transaction, by its token."""
        if not self._shared.tokens:
            return
        token = Token.from_bytes(self._rng.choice(self._shared.tokens))
        match self._rng.choice(["write", "write", "commit", "abort", "steal"]):
            case "write":
                await self._write(token.txn_id, self._rng.choice(self._shared.tables))
            case "commit":
                await self._commit(token.txn_id)
            case "abort":
                await self._abort(token.txn_id)
            case _:
                await self._steal(token.txn_id)

    async def _steal(self, txn_id: int) -> None:
        request = txn_manager_pb2.CommitTransactionRequest(txn_id=txn_id, owner="mallory")
        try:
            await self._call(
                "txnstatus.TxnManager/CommitTransaction", request, txn_manager_pb2.CommitTransactionResponse
            )
        except NotAuthorized:
            return
        raise AssertionError(f"mallory committed {txn_id}")

    # ---- the cluster

    async def _change_option(self) -> None:
        name = self._rng.choice(list(OPTIONS))
        try:
            await self._set_option(name, self._rng.choice(OPTIONS[name]))
        except InvalidArgument as error:
            self._log(f"the other options refuse it: {error.message}")

    # ---- looking

    async def _look_around(self) -> None:
        sent_at = self._shared.now()
        if self._rng.random() < 0.3:
            answer = await self._call(
                "txnstatus.Admin/ListTransactions",
                txn_status_pb2.ListTransactionsRequest(),
                txn_status_pb2.ListTransactionsResponse,
            )
            for info in answer.txns:
                self._ledger.told(info, sent_at)
            return
        txn_id = self._rng.choice([*self._ledger.txns, 1_000_000, *list(self._ledger.txns)[-5:] * 20])
        request = txn_manager_pb2.GetTransactionStateRequest(txn_id=txn_id, wait_millis=self._rng.choice([0, 500]))
        try:
            state = await self._call(
                "txnstatus.TxnManager/GetTransactionState", request, txn_manager_pb2.GetTransactionStateResponse
            )
        except Forgotten:
            return
        except NotFound:
            self._ledger.told_unknown(txn_id)
            return
        self._ledger.told(state.txn, sent_at)
