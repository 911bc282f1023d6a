"""A simulated program's transfers between accounts (see bank.py)."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

from tests.sim.actors.bank import KEYED_ACCOUNTS, Account, Balances, lists
from tests.sim.actors.books import UPSERT
from tests.sim.actors.rows import RowCaller
from tests.sim.actors.transactor import OWNER
from tests.sim.judges.isolation import Observed
from txnstatus.proto import table_pb2, txn_manager_pb2, txn_savepoint_pb2
from txnstatus.types import Timestamp


class Teller(RowCaller):
    async def _transfer(self) -> None:
        for txn_id in await self._begin():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                await self._transfer_in(txn_id)
            finally:
                beating.cancel()

    async def _transfer_in(self, txn_id: int) -> None:
        bank, began_at = self._shared.bank, self._shared.now()
        base = await self._take_snapshot()
        before = await self._balances(base)
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.05, 0.5]))
        debited, credited = self._rng.sample(sorted(before), 2)
        amount = self._rng.randint(1, 100)
        after = {debited: self._changed(before[debited], -amount), credited: self._changed(before[credited], amount)}
        name = f"transfer {txn_id}"
        bank.transfers[name] = txn_id
        appends = {"/".join(key): (account.elements[-1],) for key, account in after.items()}
        bank.history.append(Observed(name, None, lists(before), appends, began_at))
        if self._rng.random() < 0.2:  # the whole tables of both accounts
            tables = {table for table, _ in after if table not in KEYED_ACCOUNTS}
            after = {**{key: account for key, account in before.items() if key[0] in tables}, **after}
        else:
            tables = set()
        await self._write_accounts(txn_id, after, base, tables)
        await self._commit(txn_id)

    def _changed(self, account: Account, amount: int) -> Account:
        self._shared.bank.elements += 1
        return Account(account.balance + amount, (*account.elements, self._shared.bank.elements))

    async def _write_accounts(self, txn_id: int, after: Balances, base: Timestamp, whole: set[str]) -> None:
        """`whole`: tables that are overwritten as such; the others by partition, or by key."""
        by_table: defaultdict[str, dict[str, Account]] = defaultdict(dict)
        for (table, partition), account in after.items():
            by_table[table][partition] = account
        for table, accounts in by_table.items():
            if table in KEYED_ACCOUNTS:
                rows = {int(key): str(account) for key, account in accounts.items()}
                await self._change_rows(txn_id, table, UPSERT, rows, base)
                continue
            await self._overwrite_accounts(txn_id, table, accounts, base, () if table in whole else sorted(accounts))
            if self._shared.goes_back:
                await self._go_back(txn_id, table, base)

    async def _overwrite_accounts(
        self, txn_id: int, table: str, accounts: Mapping[str, Account], base: Timestamp, partitions: Sequence[str]
    ) -> None:
        """`partitions`: those that are overwritten; none: the whole table."""
        write = await self._open_write(txn_id, table)
        path = self._shared.warehouse.write(write.directory, "manifest")
        self._shared.bank.contents.update(((path, partition), account) for partition, account in accounts.items())
        manifest = table_pb2.ManifestRef(path=path, bytes=1, crc32=1, file_count=1, row_count=1, data_bytes=1)
        manifest.partitions.extend(sorted(accounts))
        request = table_pb2.AddFilesRequest(
            txn_id=txn_id,
            owner=OWNER,
            table=table,
            write_id=write.write_id,
            mode=table_pb2.OVERWRITE,
            manifest=manifest,
            overwrites=partitions,
            read_timestamp=base,
        )
        await self._call("txnstatus.Table/AddFiles", request, table_pb2.AddFilesResponse)

    async def _go_back(self, txn_id: int, table: str, base: Timestamp) -> None:
        """Overwrites the whole table with nonsense, and takes that back: once, or twice."""
        dice, held_by = random.Random(f"going back {txn_id} {table}"), await self._participants(txn_id)
        saved = txn_savepoint_pb2.SetSavepointRequest(
            txn_id=txn_id, owner=OWNER, savepoint_id=self._write_id(), table_ids=held_by
        )
        await self._call("txnstatus.TxnSavepoints/SetSavepoint", saved, txn_savepoint_pb2.SetSavepointResponse)
        for _ in range(dice.choice([1, 2])):
            partition = dice.choice(self._shared.bank.accounts[table])
            await self._overwrite_accounts(txn_id, table, {partition: Account(1_000_000)}, base, ())
            back = txn_savepoint_pb2.RollbackToRequest(
                txn_id=txn_id,
                owner=OWNER,
                savepoint_id=saved.savepoint_id,
                rollback_id=self._write_id(),
                table_ids=await self._participants(txn_id),
                held_by=held_by,
            )
            await self._call("txnstatus.TxnSavepoints/RollbackTo", back, txn_savepoint_pb2.RollbackToResponse)

    async def _participants(self, txn_id: int) -> list[str]:
        request = txn_manager_pb2.GetTransactionStateRequest(txn_id=txn_id)
        method = "txnstatus.TxnManager/GetTransactionState"
        answer = await self._call(method, request, txn_manager_pb2.GetTransactionStateResponse)
        return [each.participant_id for each in answer.txn.participants]

    async def read_everything(self) -> None:
        await super().read_everything()
        await self._audit()

    async def _audit(self) -> None:
        """Reads all accounts, if there are any; nothing that was acknowledged may be missing."""
        if not self._shared.bank.accounts.keys() <= self._shared.bank.tables:
            return
        began_at = self._shared.now()
        seen = await self._balances(await self._take_snapshot())
        self._shared.bank.history.append(Observed(f"audit {self._id()}", True, lists(seen), {}, began_at))

    async def _balances(self, at: Timestamp) -> Balances:
        """The balances of all accounts; checks that their sum is what it must be."""
        bank, found = self._shared.bank, Balances()
        for table, partitions in bank.accounts.items():
            found.update(((table, partition), Account()) for partition in partitions)
            if table in KEYED_ACCOUNTS:
                rows = await self._read_rows(table, at)
                found.update(((table, str(key)), Account.parse(value)) for key, value in rows.items())
                continue
            request = table_pb2.ScanRequest(table=table, timestamp=at)
            answer = await self._call("txnstatus.Table/Scan", request, table_pb2.ScanResponse)
            for manifest in answer.manifests:
                for partition in manifest.partitions:
                    if found[table, partition] != Account():
                        self._ledger.violation("7 conflicts", f"{table}/{partition} has two balances at {at}")
                    found[table, partition] = bank.contents[manifest.path, partition]
        total = sum(account.balance for account in found.values())
        if total:
            self._ledger.violation("5 one snapshot", f"the balances of all accounts at {at} have the sum {total}")
        return found
