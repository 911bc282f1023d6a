"""The client's own writes to a shard of a harness: statements, upserts, rows and files by key."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from tests.unit.harness.leader.rows import OWNER, TABLE, Shard
from txnclient.change import local, merging
from txnclient.change.merge import Merge
from txnclient.change.plan import MergePlan
from txnclient.outcome import RowsAffected
from txnclient.snapshot import Snapshot
from txnclient.write.changing import Changes
from txnclient.write.files import FileWrites
from txnclient.write.keyed import KeyedWrites
from txnclient.write.rows import RowWrites
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import ConflictStrategy, Statement, Timestamp, TxnId

METHODS: Mapping[str, str] = {
    "txnstatus.Table/Scan": "scan",
    "txnstatus.Table/OpenWrite": "open_write",
    "txnstatus.Table/AddFiles": "add_files",
    "txnstatus.Table/WriteRows": "write_rows",
}


class Writer:
    """One transaction of a program: its handle, and what works for it. It reads at one timestamp."""

    def __init__(self, shard: Shard, txn_id: TxnId, at: Timestamp) -> None:
        self._shard, self.id, self.owner, self.read_at = shard, txn_id, OWNER, at
        self.first_writes: dict[str, Any] = {}
        self.leases: Any = SimpleNamespace(add=lambda *_: 0, remove=lambda *_: None)
        self.session: Any = self
        shard.begin(txn_id)
        locks: Any = None
        handle: Any = self
        self.files = FileWrites(handle, locks)
        self.rows = RowWrites(handle, locks)
        self.keyed = KeyedWrites(handle, self.files, self.rows)
        self._changes = Changes(handle, self.files, self.keyed)

    # ---- what a handle and a session are

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(self.session, self.read_at, self.id)

    def last_commit(self) -> Timestamp:
        return self._shard.status.last

    def require_writable(self) -> None:
        pass

    def table(self, _name: str) -> Any:
        return SimpleNamespace(schema=self._shard.table.schema, conflicts=ConflictStrategy.FIRST_COMMITTER_WINS)

    def call(self, method: str, request: Any, _response: object) -> Any:
        answer = self._shard.run(getattr(self._shard.service, METHODS[method])(request))
        self._shard.shard.check_invariants()
        return answer

    ask = ask_to_write = call

    # ---- what a program calls

    def upsert(self, rows: pa.Table) -> None:
        self.keyed.upsert(rows, TABLE, None, keys_are_new=False)

    def append(self, rows: pa.Table) -> None:
        self.files.write(rows, TABLE, "append", None, keys_are_new=False)

    def write(self, change: pb.RowChange, rows: pa.Table) -> None:
        self.rows.write(change, TABLE, rows)

    def delete_where(self, predicate: str) -> RowsAffected:
        return self._changes.run(Statement.DELETE, TABLE, partial(local.delete, predicate=predicate))

    def update_where(self, values: Mapping[str, str], predicate: str) -> RowsAffected:
        engine = partial(local.update, values=values, predicate=predicate)
        return self._changes.run(Statement.UPDATE, TABLE, engine)

    def merge(
        self, source: pa.Table, on: str, build: Callable[[Merge[RowsAffected]], Merge[RowsAffected]]
    ) -> RowsAffected:
        def run(plan: MergePlan) -> RowsAffected:
            return self._changes.run(Statement.MERGE, TABLE, partial(merging.merge, source=source, plan=plan))

        return build(Merge(TABLE, self._shard.table.schema, on, run)).execute()

    def seen(self) -> pa.Table:
        with contextlib.closing(self.snapshot) as snapshot:
            return snapshot.to_arrow(TABLE)
