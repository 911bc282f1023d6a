"""What Spark asks of the tables: which there are, what they look like, and which files and rows a snapshot shows."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any

from txnclient.change.laid_out import laid_out
from txnclient.client.client import Client
from txnclient.control.session import SqlSession
from txnclient.info import TableInfo
from txnclient.outcome import CommitReceipt
from txnclient.read import filtered, row_reads
from txnclient.read.table_files import TableFiles
from txnclient.sparksql import arrow_stream, changes, definitions, parts, procedures, reached, system
from txnclient.sparksql.bridge import Request
from txnclient.sparksql.definitions import Definitions
from txnclient.sparksql.scopes import Alone
from txnclient.sparksql.seen import Seen
from txnclient.sparksql.writes import Writes
from txnclient.transaction.blocks import Block, Catalog
from txnstatus.errors import IllegalState, InternalError, InvalidArgument
from txnstatus.lake import bare_files, data_files
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.file_lists import bytes_of, rows_of
from txnstatus.lake.manifest import DataFile
from txnstatus.names import quoted
from txnstatus.schema import Schema
from txnstatus.types import time_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class Tables:
    """The answers to the calls of one catalog."""

    def __init__(
        self,
        client: Client,
        build: str,
        catalogs: Callable[[], Mapping[str, Catalog]],
        spark: SparkSession | None = None,
    ) -> None:
        """`build`: what the jar that belongs to this code says of itself. `catalogs`: those of the session, by their
        names. `spark`: as of `Writes`.
        """
        self._client, self._build = client, build
        self._spark, self._writes = spark, Writes(client, spark)
        self.sql = SqlSession(client, catalogs)
        """The session's transaction."""
        self._lock = threading.Lock()
        self._seen: dict[str, _Kept] = {}
        self.block: Block | None = None
        """The block in which the session's statements run, be it of a transaction of this cluster or of another one."""
        self._methods: dict[str, Callable[[Request], Any]] = {
            "hello": self._hello,
            "tables": lambda _: self.names(),
            "see": self._see,
            "release": self._release,
            "load": self._load,
            "scan": self._scan,
            "dividing": self._dividing,
            "files": self._files,
            "frame": self._frame,
            "partitions": self._partitions,
            "require": lambda request: self._kept(request).seen.require(request["table"]),
            **procedures.answers(self.sql),
            **system.answers(client),
            **self._writes.answers(),
            **self._of_statements(self._writes.statements()),
            **self._of_tables({**Definitions(client).answers(), "alter": self._alter}),
        }

    @property
    def cluster_id(self) -> str:
        return self._client.cluster_id

    @property
    def last_commit(self) -> CommitReceipt | None:
        return self._writes.receipt

    @property
    def is_read(self) -> bool:
        """Whether there are plans that have said that they read, and not that they are gone."""
        with self._lock:
            return bool(self._seen)

    def answer(self, method: str, request: Request) -> Any:
        if method not in self._methods:
            raise InternalError(f"the catalog's jar asks for {method!r}, which is not known")
        return self._methods[method](request)

    def _hello(self, request: Request) -> None:
        if request["build"] != self._build:
            raise IllegalState(
                f"the jar of the catalog that Spark has loaded is {request['build']}, this program's is {self._build}",
                hint="give Spark the jar of the installed release, txnclient.sparksql.jar(), and no other",
            )

    def names(self) -> list[str]:
        return [table.name for table in self._client.tables()]

    # ---- snapshots: Spark says when it needs one no more

    def _see(self, request: Request) -> str:
        at: int | datetime | None = None
        if "version" in request:
            at = _version(request["version"])
        elif "micros" in request:
            at = _time(request["micros"])
        block = self.block
        if at is None and block is not None and block.cluster_id == self.cluster_id:
            found = Seen(block.snapshot(), block)
        else:
            snapshot = self._client.snapshot(at)
            found = Seen(snapshot, Alone(self._client, snapshot.timestamp))
        seen = uuid.uuid4().hex
        with self._lock:
            self._seen[seen] = _Kept(found)
        return seen

    def _release(self, request: Request) -> None:
        with self._lock:
            found = self._seen.pop(request["seen"], None)
        if found is not None:
            found.seen.release()

    def _kept(self, request: Request) -> _Kept:
        with self._lock:
            found = self._seen.get(request["seen"])
        if found is None:
            raise IllegalState("the snapshot that the plan reads is not kept any more", hint="make the DataFrame again")
        return found

    # ---- what changes something, in a block or not

    def _of_statements(
        self, methods: Mapping[str, Callable[[Request, Seen], Any]]
    ) -> Mapping[str, Callable[[Request], Any]]:
        def within(method: Callable[[Request, Seen], Any], request: Request) -> Any:
            if (block := self.block) is not None and block.cluster_id != self.cluster_id:
                raise IllegalState(
                    f"a write to {request['table']} of cluster {self.cluster_id!r} cannot be part of {block!r}, "
                    f"which is of cluster {block.cluster_id!r}",
                    hint="write to it outside of the block",
                )
            read = [self._kept({"seen": each}).seen for each in (request["seen"], *request.get("read", ()))]
            return method(request, min(read, key=lambda each: each.timestamp))

        return {name: partial(within, method) for name, method in methods.items()}

    def _of_tables(self, methods: Mapping[str, Callable[[Request], Any]]) -> Mapping[str, Callable[[Request], Any]]:
        def outside(name: str, method: Callable[[Request], Any], request: Request) -> Any:
            if (block := self.block) is not None:
                raise IllegalState(
                    f"{name.upper()} TABLE {request['table']} cannot be part of {block!r}",
                    hint="tables are made, altered and dropped outside of blocks",
                )
            return method(request)

        return {name: partial(outside, name, method) for name, method in methods.items()}

    # ---- one table

    def _alter(self, request: Request) -> None:
        """Also for a statement WITH SCHEMA EVOLUTION, which sees the columns that it adds."""
        info = Definitions(self._client).alter(request)
        if "seen" in request:
            kept = self._kept(request)
            kept.seen.grow(request["table"], info.schema)
            kept.tables.pop(request["table"], None)

    def _load(self, request: Request) -> Request:
        seen = self._kept(request).seen
        info = seen.load(request["table"])
        return {
            "id": info.table_id,
            "columns": definitions.columns_told(info.schema.columns),
            "partition_by": info.schema.partition_by,
            "properties": _properties(info),
            "within": isinstance(seen.scope, Block),
            "far": not reached.is_reached(self._spark, info.location),
        }

    def _scan(self, request: Request) -> Request:
        """How much a scan reads. The rows are exact where it has no filter and no limit."""
        there, needed = self._needed(request)
        self._kept(request).needed[_asked(request)] = needed
        dead = there.dead_in(needed)
        return {
            "rows": rows_of(needed) - dead + there.loose_rows,
            "bytes": bytes_of(needed) + (there.loose.nbytes if there.loose is not None else 0),
            "dead": dead,
            "loose": there.loose_rows,
        }

    def _frame(self, request: Request) -> str:
        """The view that shows a scan's rows where Spark has no file system: whoever asks drops it."""
        there, needed = self._needed(request)
        with self._kept(request).seen.reading(request["table"]):
            return reached.view(self._spark, needed, there.schema, there.dead, there.loose, request["columns"])

    def _dividing(self, request: Request) -> list[str]:
        """Columns by which what a join finds may leave files out."""
        there, needed = self._needed(request)
        return filtered.dividing(request["columns"], needed, there.schema)

    def _files(self, request: Request) -> Request:
        """What a scan reads: files that are what was written, with their dead rows, and the rows that are in none."""
        there, needed = self._needed(request)
        with self._kept(request).seen.reading(request["table"]):
            data_files.check(needed)
        answer: Request = {
            "files": [_file(each, there) for each in needed],
            "skipped": len(there.files) - len(needed),
            "dead": there.dead_in(needed),
        }
        if there.loose is not None and there.loose_rows:
            rows = changes.placed(there.loose, there.schema) if request["places"] else there.loose
            answer["loose"] = arrow_stream.told(rows)
        return answer

    def _partitions(self, request: Request) -> list[parts.Values]:
        kept = self._kept(request)
        there = self._there(kept, request["table"])
        with kept.seen.explained(request["table"]):
            return parts.with_rows(there.files, there.dead, there.loose, there.schema)

    def _there(self, kept: _Kept, table: str) -> _There:
        kept.seen.require(table)
        there = kept.tables.get(table)
        if there is None:
            found = kept.seen.files(table)
            with kept.seen.explained(table):
                there = kept.tables[table] = _There(found.schema, found.files, *_laid_out(found))
        return there

    def _needed(self, request: Request) -> tuple[_There, Sequence[DataFile]]:
        """What there is of the table, and the files of it that can have rows for the scan's filters, or enough for its
        limit.
        """
        kept = self._kept(request)
        there = self._there(kept, request["table"])
        if (known := kept.needed.get(_asked(request))) is not None:
            return there, known
        needed = there.files
        if request["filters"]:
            needed = list(compress(needed, filtered.may_hold(request["filters"], needed, there.schema)))
        if (limit := request.get("limit")) is not None:
            lived = accumulate((file.rows - there.dead_in([file]) for file in needed), initial=there.loose_rows)
            needed = [file for file, before in zip(needed, lived, strict=False) if before < limit]
        return there, needed


@dataclass(frozen=True, slots=True)
class _There:
    """What a snapshot shows of a table."""

    schema: Schema
    files: Sequence[DataFile]
    loose: pa.Table | None
    """Rows that are in no file; None: there are none."""
    dead: DeadRows

    @property
    def loose_rows(self) -> int:
        return 0 if self.loose is None else self.loose.num_rows

    def dead_in(self, files: Sequence[DataFile]) -> int:
        return sum(len(self.dead.get(file.path, ())) for file in files) if self.dead else 0


@dataclass(frozen=True, slots=True)
class _Kept:
    """What plans read, and what was found of its tables."""

    seen: Seen
    tables: dict[str, _There] = field(default_factory=dict)
    needed: dict[str, Sequence[DataFile]] = field(default_factory=dict)
    """The files of scans, by what these ask. What a run finds is in none: each run of a join finds something else."""


def _asked(request: Request) -> str:
    """The same text for the same files of a snapshot."""
    return json.dumps([request["table"], request["filters"], request.get("limit")])


def _version(text: str) -> int:
    if not text.isdecimal():
        raise InvalidArgument(f"VERSION AS OF {text!r}: a version is a timestamp of a snapshot or a commit, a number")
    return int(text)


def _time(micros: int) -> datetime:
    """A time of Spark's, whose years are more than Python has."""
    try:
        return time_of(micros)
    except OverflowError:
        raise InvalidArgument(f"TIMESTAMP AS OF a time beyond the years 1 to 9999: {micros} µs since 1970") from None


def _properties(info: TableInfo) -> dict[str, str]:
    found = {"provider": "parquet", "location": info.location, "conflicts": info.conflicts, **info.properties}
    if info.schema.primary_key:
        found["primary_key"] = ", ".join(map(quoted, info.schema.primary_key))
    return found


def _laid_out(found: TableFiles) -> tuple[pa.Table | None, DeadRows]:
    """Rows in no file, and rows of files that are not there."""
    if found.changes is None:
        return None, found.dead
    if (settled := row_reads.settled(found.files, found.changes, found.schema, found.dead)) is not None:
        return settled
    there = laid_out(found)
    return there.loose, there.files.dead


def _file(file: DataFile, there: _There) -> Request:
    told: Request = {"path": file.path, "bytes": file.bytes}
    if positions := there.dead.get(file.path):
        told["dead"] = base64.b64encode(positions.serialize()).decode()
    if file.bare:
        values = bare_files.texts(file)
        told["values"] = [values[column] for column in there.schema.partition_by]
    return told
