"""FileWrites: what a transaction writes to tables as files. Each write claims a directory of its own beforehand."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from txnclient import progress
from txnclient.calls.requests import build
from txnclient.formats.file_statistics import bounds
from txnclient.formats.partitions import Partition, name_of
from txnclient.handle import Handle
from txnclient.write import staged_files
from txnclient.write.keys import KeyedFiles
from txnclient.write.locks import Locks, WriteLocks
from txnclient.write.overwriting import Mode, overwritten
from txnclient.write.staged_files import StagedFiles
from txnstatus.errors import InvalidArgument
from txnstatus.lake import manifest, parallel
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import make_durable
from txnstatus.limits import MAX_COLUMN_RANGES, MAX_LAST_WRITE_BYTES, MAX_LAST_WRITES
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import ConflictStrategy, Statement, Timestamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


AT_ONCE = 8
"""Tables whose files are written side by side, where that takes a while."""
SMALL_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Opened:
    """A write that has begun."""

    write_id: str
    table_id: str
    table: str
    schema: Schema
    conflicts: str
    directory: str

    @property
    def is_free(self) -> bool:
        """Whether a write asks nobody for locks, and looks for no keys."""
        return self.conflicts == ConflictStrategy.FIRST_COMMITTER_WINS and not self.schema.primary_key


@dataclass(frozen=True, slots=True)
class Written:
    """Rows that somebody has written into a write's directory already, in files that are not durable yet."""

    files: Sequence[DataFile]
    spark: SparkSession | None
    """The session that has."""


@dataclass(frozen=True, slots=True)
class Addition:
    """A write whose files are all there, and of which the service has not heard yet."""

    request: pb.AddFilesRequest
    not_durable: tuple[str, ...]
    """URIs of what it has written."""


class FileWrites:
    """The file writes of one transaction. What they promise, `Transaction` says."""

    def __init__(self, handle: Handle, locks: Locks, *, alone: bool = False) -> None:
        """`alone`: the transaction is one write and nothing else. Then its commit carries what `write`, `write_all` and
        `truncate` add."""
        self._handle, self._locks, self._alone = handle, locks, alone

    def write(self, data: Any, table: str, mode: Mode, partition: Partition | None, *, keys_are_new: bool) -> None:
        _check_mode(mode, partition)
        self._add_last(self._written(data, self.open(table), mode, partition, keys_are_new=keys_are_new))

    def write_all(self, data: Mapping[str, Any], mode: Mode) -> None:
        """Side by side are those that ask nobody for locks, read nothing, and keep no Spark session busy."""
        _check_mode(mode, None)
        if mode == "upsert":
            raise InvalidArgument("mode 'upsert' is for one table at a time", hint="write to each, in one transaction")
        opened = {table: self.open(table) for table in data}
        written = partial(self._written, mode=mode, partition=None, keys_are_new=False)
        works = {table: partial(written, rows, opened[table]) for table, rows in data.items()}
        beside = [table for table in works if opened[table].is_free and not is_spark(data[table])]
        # Locks are asked for in the order of names, by whoever asks for several.
        additions = [works[table]() for table in sorted(works.keys() - beside)]
        threads = 1 if all(map(_is_small, data.values())) else AT_ONCE
        self._add_last(*additions, *parallel.each(lambda table: works[table](), beside, threads))

    def _written(
        self, data: Any, opened: Opened, mode: Mode, partition: Partition | None, *, keys_are_new: bool
    ) -> Addition | None:
        locks = self.locks_of(opened, _statement(mode))
        if mode != "overwrite_partitions":
            # What is known of it now: whoever cannot have it should learn that before the work, not after.
            locks.take([WHOLE_TABLE if partition is None else name_of(partition, opened.schema, opened.table)])
        files = write_files(data, opened)
        return self._addition(opened, files, mode, partition, locks, spark=session_of(data), keys_are_new=keys_are_new)

    def add_written(
        self,
        opened: Opened,
        files: Sequence[DataFile],
        mode: Mode,
        partition: Partition | None,
        spark: SparkSession | None,
    ) -> None:
        """Adds what somebody has written into an open write's directory, and which is not durable yet."""
        _check_mode(mode, partition)
        locks = self.locks_of(opened, _statement(mode))
        self._add(self._addition(opened, files, mode, partition, locks, spark=spark))

    def truncate(self, table: str, partition: Partition | None) -> None:
        opened = self.open(table)
        locks = self.locks_of(opened, Statement.TRUNCATE)
        self._add_last(self._addition(opened, (), "overwrite", partition, locks))

    def stage(self, data: Any, table: str) -> StagedFiles:
        opened = self.open(table, adds=False)
        files = write_files(data, opened)
        make_durable(file.path for file in files)
        return StagedFiles(table, opened.write_id, tuple(files))

    def open_staged(self, staged: Iterable[StagedFiles], table: str) -> tuple[Opened, list[DataFile], list[str]]:
        """A write of staged files that were looked at, the files, and the writes in whose directories they lie."""
        parts = _staged_for(table, staged)
        opened = self.open(table)
        staged_files.check(parts, opened.directory.removesuffix(opened.write_id), opened.schema)
        return opened, [file for part in parts for file in part.files], [part.write_id for part in parts]

    def add(
        self,
        staged: Iterable[StagedFiles],
        table: str,
        mode: Mode,
        partition: Partition | None,
        *,
        keys_are_new: bool,
    ) -> None:
        _check_mode(mode, partition)
        opened, files, from_writes = self.open_staged(staged, table)
        locks = self.locks_of(opened, _statement(mode))
        self._add(self._addition(opened, files, mode, partition, locks, from_writes, keys_are_new=keys_are_new))

    def add_changed(
        self,
        opened: Opened,
        files: Sequence[DataFile],
        deletes: pb.Deletes | None,
        looked: pb.Looked | None = None,
        claim: pb.KeyClaim | None = None,
        from_writes: Sequence[str] = (),
    ) -> None:
        """Adds files, if there are any, and deletes rows of others: both are one write, or neither is."""
        locks = self.locks_of(opened, Statement.MERGE)
        self._add(
            self._addition(
                opened, files, "append", None, locks, from_writes, deletes=deletes, looked=looked, claim=claim
            )
        )

    def open(self, table: str, *, adds: bool = True) -> Opened:
        """Claims a directory, unless the begin has. The first write on a table makes it a participant.

        `adds`: its own AddFiles follows, from which the table hears of a write that the begin has opened; of one whose
        files another write adds it would not.
        """
        handle = self._handle
        handle.require_writable()
        carried = handle.first_writes.pop(table, None) if adds else None
        write_id, response = self._open(table) if carried is None else carried
        info = response.table
        schema = Schema.from_wire(info.schema)
        return Opened(write_id, info.table_id, table, schema, info.conflicts, response.directory)

    def _open(self, table: str) -> tuple[str, pb.OpenWriteResponse]:
        write_id, handle = uuid.uuid4().hex, self._handle
        request = build(pb.OpenWriteRequest, txn_id=handle.id, owner=handle.owner, table=table, write_id=write_id)
        return write_id, handle.ask_to_write("txnstatus.Table/OpenWrite", request, pb.OpenWriteResponse)

    def _addition(
        self,
        opened: Opened,
        files: Sequence[DataFile],
        mode: Mode,
        partition: Partition | None,
        locks: WriteLocks,
        from_writes: Sequence[str] = (),
        spark: SparkSession | None = None,
        *,
        keys_are_new: bool = False,
        deletes: pb.Deletes | None = None,
        looked: pb.Looked | None = None,
        claim: pb.KeyClaim | None = None,
    ) -> Addition | None:
        """Lists the files in a manifest. None: nothing is to be added."""
        self._handle.require_writable()
        overwrites = overwritten(mode, partition, files, opened.schema, opened.table)
        if mode == "overwrite_partitions" and not overwrites:
            return None  # without rows there is nothing to replace
        locks.take([file.partition for file in files] if mode == "append" else overwrites or [WHOLE_TABLE])
        read_at = self._handle.read_at
        if opened.schema.primary_key and files and claim is None:
            replaced = () if mode == "append" else overwrites or [WHOLE_TABLE]
            added = KeyedFiles(opened.table, opened.schema, files, frozenset(replaced), spark)
            claim = added.claim(self._handle, keys_are_new=keys_are_new)
            read_at = Timestamp(claim.snapshot) if read_at is None else read_at
        ref = manifest.put(
            opened.directory, files, table_id=opened.table_id, txn_id=self._handle.id, write_id=opened.write_id
        )
        request = pb.AddFilesRequest(
            txn_id=self._handle.id,
            owner=self._handle.owner,
            table=opened.table,
            write_id=opened.write_id,
            mode=pb.APPEND if mode == "append" else pb.OVERWRITE,
            manifest=ref,
            from_writes=from_writes,
            overwrites=overwrites,
            # What was committed since it was read is not replaced unseen: that is a conflict.
            read_timestamp=None if mode == "append" else read_at,
            claim=claim,
            deletes=deletes,
            looked=looked,
            holds=() if opened.schema.primary_key else holds_of(files, opened.schema),
            schema_version=opened.schema.version,
        )
        # Staged files are durable.
        return Addition(request, (*(() if from_writes else (file.path for file in files)), ref.path))

    def _add_last(self, *additions: Addition | None) -> None:
        """Adds what may be the last that the transaction writes."""
        added = [each for each in additions if each is not None]
        make_durable(uri for each in added for uri in each.not_durable)
        requests = [each.request for each in added]
        if self._alone and fits_a_commit(requests):
            self._handle.last_writes += requests
        else:
            parallel.each(self._ask, requests)

    def _add(self, addition: Addition | None) -> None:
        if addition is not None:
            make_durable(addition.not_durable)
            self._ask(addition.request)

    def _ask(self, request: pb.AddFilesRequest) -> None:
        self._handle.ask_to_write("txnstatus.Table/AddFiles", request, pb.AddFilesResponse)

    def locks_of(self, opened: Opened, statement: Statement) -> WriteLocks:
        return WriteLocks(self._locks, statement, opened.table, opened.conflicts)


def write_files(data: Any, opened: Opened) -> list[DataFile]:
    """Files that are not durable yet."""
    if isinstance(data, Written):
        return list(data.files)
    what = f"{opened.table} is written"
    if is_spark(data):
        from txnclient.spark import writer

        with progress.shown(what, "tasks", look=writer.tasks_of(data.sparkSession)):
            return writer.write_files(data, opened.directory, opened.schema, opened.table)
    from txnclient.formats import arrow

    if _is_small(data):
        return arrow.write_files(data, opened.directory, opened.schema, opened.table)
    with progress.shown(what, "rows", getattr(data, "num_rows", None)) as bar:
        return arrow.write_files(data, opened.directory, opened.schema, opened.table, bar.at)


def fits_a_commit(writes: Sequence[pb.AddFilesRequest]) -> bool:
    """Whether a commit may carry all of them."""
    return len(writes) <= MAX_LAST_WRITES and sum(each.ByteSize() for each in writes) <= MAX_LAST_WRITE_BYTES


def holds_of(files: Sequence[DataFile], schema: Schema) -> list[pb.ColumnRange]:
    """Between which values of a column all rows are, for the columns of which that is known."""
    found = []
    for column in schema.columns[:MAX_COLUMN_RANGES]:
        if known := bounds(files, schema, column.name):
            (_, lowest), (_, highest) = known
            found.append(pb.ColumnRange(column=column.in_files, lowest=lowest, highest=highest))
    return found


def _is_small(data: Any) -> bool:
    """Whether it is written before a thread has begun."""
    size = getattr(data, "nbytes", None)
    return isinstance(size, int) and size <= SMALL_BYTES


def session_of(data: Any) -> SparkSession | None:
    """The Spark session by which the rows are written; None: they are not."""
    if isinstance(data, Written):
        return data.spark
    found: SparkSession | None = data.sparkSession if is_spark(data) else None
    return found


def is_spark(data: Any) -> bool:
    return type(data).__module__.startswith("pyspark.")


def _check_mode(mode: Mode, partition: Partition | None) -> None:
    if mode not in get_args(Mode):
        raise InvalidArgument(f"mode {mode!r}: {', '.join(map(repr, get_args(Mode)))} are possible")
    if partition is not None and mode == "overwrite_partitions":
        raise InvalidArgument(f"partition {partition!r}: mode {mode!r} takes none, the data says which are meant")


def _statement(mode: Mode) -> Statement:
    return Statement.INSERT if mode == "append" else Statement.INSERT_OVERWRITE


def _staged_for(table: str, staged: Iterable[StagedFiles]) -> list[StagedFiles]:
    """Raises InvalidArgument for what is no staged files of the table, and for the same ones twice."""
    parts = list(staged)
    seen = set[str]()
    for part in parts:
        if not isinstance(part, StagedFiles):
            raise InvalidArgument(f"expected what `stage` has returned, not {type(part).__name__}")
        if part.table != table:
            raise InvalidArgument(f"files staged for {part.table} cannot be added to {table}")
        if part.write_id in seen:
            raise InvalidArgument(f"the staged files of write {part.write_id} are given twice")
        seen.add(part.write_id)
    return parts
