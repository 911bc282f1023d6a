"""FileWrites: what a handle writes to tables as files. Each write has a directory of its own, claimed beforehand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, get_args

from google.protobuf.message import Message

from txnclient import manifest, staged_files
from txnclient.locks import LockMode, LockStrategy
from txnclient.manifest import DataFile, StagedFiles
from txnclient.overwriting import Mode, overwritten
from txnclient.requests import build
from txnstatus.errors import InvalidArgument
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import ConflictStrategy, Timestamp, TxnId

ResponseT = TypeVar("ResponseT", bound=Message)
Partition = str | Mapping[str, Any] | None


class Ask(Protocol):
    """A call on behalf of the transaction."""

    def __call__(self, method: str, request: Message, response: type[ResponseT]) -> ResponseT: ...


@dataclass(frozen=True, slots=True)
class _Opened:
    """A write that has begun."""

    write_id: str
    table_id: str
    table: str
    schema: Schema
    conflicts: ConflictStrategy
    directory: str


class LockFunction(Protocol):
    def __call__(
        self, table: str, mode: LockMode, *, partition: Sequence[str] | None, strategy: LockStrategy
    ) -> None: ...


class FileWrites:
    def __init__(
        self,
        txn_id: TxnId,
        owner: str,
        ask: Ask,
        require_writable: Callable[[], None],
        lock: LockFunction,
        read_at: Timestamp | None,
    ) -> None:
        """`require_writable` raises what stands in the way of any write; `lock` is the handle's.

        `read_at`: of what the handle has read.
        """
        self._txn_id, self._owner, self._lock, self._read_at = txn_id, owner, lock, read_at
        self._ask, self._require_writable = ask, require_writable

    def write(self, data: Any, table: str, mode: Mode, partition: Partition) -> None:
        _check_mode(mode, partition)
        opened = self._open(table)
        if mode == "overwrite":
            self._lock_for(opened, overwritten(mode, partition, (), opened.schema, table))
        self._add(opened, _write_files(data, opened), mode, partition)

    def truncate(self, table: str, partition: Partition) -> None:
        self._add(self._open(table), (), "overwrite", partition)

    def stage(self, data: Any, table: str) -> StagedFiles:
        opened = self._open(table)
        return StagedFiles(table, opened.write_id, tuple(_write_files(data, opened)))

    def add(self, staged: Iterable[StagedFiles], table: str, mode: Mode, partition: Partition) -> None:
        _check_mode(mode, partition)
        parts = list(staged)
        for part in parts:
            if part.table != table:
                raise InvalidArgument(f"files staged for {part.table} cannot be added to {table}")
        files = [file for part in parts for file in part.files]
        opened = self._open(table)
        staged_files.check(parts, opened.directory.removesuffix(opened.write_id), opened.schema)
        self._add(opened, files, mode, partition, [part.write_id for part in parts])

    def _open(self, table: str) -> _Opened:
        """Claims a directory. The first write on a table makes it a participant."""
        self._require_writable()
        write_id = uuid.uuid4().hex
        request = build(pb.OpenWriteRequest, txn_id=self._txn_id, owner=self._owner, table=table, write_id=write_id)
        response = self._ask("txnstatus.Table/OpenWrite", request, pb.OpenWriteResponse)
        info = response.table
        schema, conflicts = Schema.from_wire(info.schema), ConflictStrategy(info.conflicts)
        return _Opened(write_id, info.table_id, table, schema, conflicts, response.directory)

    def _add(
        self,
        opened: _Opened,
        files: Sequence[DataFile],
        mode: Mode,
        partition: Partition,
        from_writes: Sequence[str] = (),
    ) -> None:
        self._require_writable()
        overwrites = overwritten(mode, partition, files, opened.schema, opened.table)
        if mode == "overwrite_partitions" and not overwrites:
            return  # without rows there is nothing to replace
        if mode != "append":
            self._lock_for(opened, overwrites)
        ref = manifest.write(
            opened.directory, files, table_id=opened.table_id, txn_id=self._txn_id, write_id=opened.write_id
        )
        self._ask(
            "txnstatus.Table/AddFiles",
            pb.AddFilesRequest(
                txn_id=self._txn_id,
                owner=self._owner,
                table=opened.table,
                write_id=opened.write_id,
                mode=pb.APPEND if mode == "append" else pb.OVERWRITE,
                manifest=ref,
                from_writes=from_writes,
                overwrites=overwrites,
                # What was committed since it was read is not replaced unseen: that is a conflict.
                read_timestamp=None if mode == "append" else self._read_at,
            ),
            pb.AddFilesResponse,
        )

    def _lock_for(self, opened: _Opened, overwrites: Sequence[str]) -> None:
        """Where the table settles conflicts by locks: what is to be replaced, before any work is done for it."""
        strategy = opened.conflicts
        if strategy is not ConflictStrategy.FIRST_COMMITTER_WINS:
            self._lock(opened.table, "X", partition=overwrites or None, strategy=cast(LockStrategy, strategy.value))


def _write_files(data: Any, opened: _Opened) -> list[DataFile]:
    if type(data).__module__.startswith("pyspark."):
        from txnclient.spark import writer

        return writer.write_files(data, opened.directory, opened.schema, opened.table)
    from txnclient import arrow

    return arrow.write_files(data, opened.directory, opened.schema, opened.table)


def _check_mode(mode: Mode, partition: Partition) -> None:
    if mode not in get_args(Mode):
        raise InvalidArgument(f"mode {mode!r}: {', '.join(map(repr, get_args(Mode)))} are possible")
    if partition is not None and mode != "overwrite":
        raise InvalidArgument(f"partition {partition!r}: only mode 'overwrite' takes one, and this is {mode!r}")
