"""The keys of files that are added to a table with a primary key: each comes once, and none is there already.

That none is null is looked at as for every column that is NOT NULL: when files are written, or staged ones are added.

Looked for is what was written, in the files, not what was to be written. What is found holds at one timestamp; with it
goes a claim of the keys, by which the service refuses whoever adds the same at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from txnclient.formats.file_statistics import End, bounds
from txnclient.handle import Handle
from txnclient.read.table_files import TableFiles
from txnclient.snapshot import Snapshot
from txnstatus.errors import AlreadyExists, Conflict, InvalidArgument, NotFound, SnapshotTooOld
from txnstatus.lake import kept_dead_rows
from txnstatus.lake import rows as row_format
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import key_column
from txnstatus.limits import MAX_CLAIMED_BYTES, MAX_CLAIMED_KEYS, MAX_KEY_BOUND_BYTES
from txnstatus.partitions import covers
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import AbortCause, AbortCode, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MAX_NAMED = 10
MAX_ROWS_HERE = 1_000_000
"""Rows of which this process reads the keys; where Spark has written the files, it compares the keys of more."""
ROWS_AT_A_TIME = 4_000_000
"""Rows in files, more or less, whose keys are in memory at once, besides those that are added."""


@dataclass(frozen=True, slots=True)
class KeyedFiles:
    """Files that one call adds to a keyed table."""

    table: str
    schema: Schema
    files: Sequence[DataFile]
    overwrites: frozenset[str]
    """Parts of the table that they replace."""
    spark: SparkSession | None
    """The session that has written them."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def claim(self, handle: Handle, *, keys_are_new: bool) -> pb.KeyClaim:
        """Raises InvalidArgument for a key that comes twice, AlreadyExists for one that is there."""
        session = handle.session
        at, since = session.last_commit(), handle.read_at if self.overwrites else None
        while True:
            with Snapshot(session, at, handle.id) as now:
                if keys_are_new:
                    return self.vouched(now.timestamp)
                scanned = now.scan(self.table, since)
                if not scanned.folded:
                    with now.explained(self.table):
                        return self.claim_beside(scanned, now.timestamp, self._seen_by(handle))
            # An overwrite leaves what came after it was read, and that is told by files: as they were up to then.
            at = Timestamp(scanned.folded[0] - 1)

    def vouched(self, at: Timestamp) -> pb.KeyClaim:
        """The claim of who vouches for the keys: only what others write at the same time is compared with it."""
        return pb.KeyClaim(snapshot=at, range=_range(self.files, self.schema))

    def _seen_by(self, handle: Handle) -> TableFiles | None:
        """What the handle has fixed that it sees of the table, besides what it wrote; None: nothing yet."""
        if handle.read_at is None:
            return None
        try:
            return handle.snapshot.table_files(self.table)
        except NotFound:
            return TableFiles(self.table, self.schema, ())  # the table is younger
        except SnapshotTooOld:
            if self.overwrites:
                raise  # what came after is not known
            return None  # it cannot see it any more

    def claim_beside(self, scanned: pb.ScanResponse, at: Timestamp, seen: TableFiles | None) -> pb.KeyClaim:
        """Given the table as it is now, and as the transaction sees it: it must not see a key twice, either.

        Raises Conflict where an overwrite comes upon keys that others have added since it was read what it replaces.
        """
        there = [self.near(each) for each in self._beside(TableFiles.of(scanned, at), seen)]
        try:
            claim = self._looked_at(there, changed_by_itself(there[0], at), at)
        except AlreadyExists as error:
            if self.overwrites and seen is not None and not self._stays_twice(seen, at):
                raise self._overtaken(error) from None
            raise
        claim.own_writes = scanned.own_writes
        return claim

    def beside(self, left: TableFiles, loose: pa.Table, at: Timestamp) -> pb.KeyClaim:
        """As `claim`, given all the rows that may not have these keys: those of files, and keys of others."""
        return self._looked_at([self.near(left)], loose, at)

    def alone(self, at: Timestamp) -> pb.KeyClaim:
        """As `claim`, where all that has these keys is replaced. Raises InvalidArgument for one that comes twice."""
        if self.is_small:
            return claim_of(self._each_once(), self.schema, at)
        assert self.spark is not None
        self._each_once_by_spark(self.spark)
        return self.vouched(at)

    @property
    def is_small(self) -> bool:
        """Whether this process looks at their keys."""
        return self.spark is None or self.rows <= MAX_ROWS_HERE

    def _looked_at(self, there: Sequence[TableFiles], more: pa.Table, at: Timestamp) -> pb.KeyClaim:
        """`more`: keys that are taken, too."""
        is_small = self.rows + sum(each.rows for each in there) <= MAX_ROWS_HERE
        if self.spark is None or is_small:
            return self._looked_at_here(there, more, at)
        return self._looked_at_by_spark(self.spark, there, more, at)

    def _stays_twice(self, seen: TableFiles, at: Timestamp) -> bool:
        """Whether what the transaction sees, and leaves, has one of the keys: then nobody else is to blame."""
        left = tuple(file for file in seen.files if not covers(self.overwrites, file.partition))
        try:
            there = self.near(replace(seen, files=left, changes=None))
            self._looked_at([there], changed_by_itself(there, at), at)
        except AlreadyExists:
            return True
        return False

    def _beside(self, now: TableFiles, seen: TableFiles | None) -> list[TableFiles]:
        """In what the keys are looked for: in what is there now, and in what the transaction sees and is not."""
        known = {file.path for file in (now if seen is None else seen).files}

        def stays(file: DataFile) -> bool:
            """Beside an overwrite: it leaves what came after its base."""
            return not (covers(self.overwrites, file.partition) and file.path in known)

        if self.overwrites:
            # Whoever changed rows that it replaces unseen is in conflict; where rows were changed, no part is replaced.
            now = replace(now, changes=None).only(map(stays, now.files))
            seen = seen and replace(seen, changes=None).only(map(stays, seen.files))
        if seen is None:
            return [now]
        if now.changes is None and seen.changes is None:
            both = {file.path for file in now.files if now.dead.get(file.path) == seen.dead.get(file.path)}
            seen = seen.only(file.path not in both for file in seen.files)
        return [now, seen]

    def near(self, there: TableFiles) -> TableFiles:
        """Without the files that have none of these keys, by their partitions and the ranges of their columns."""
        ends = {name: found for name in self.schema.primary_key if (found := bounds(self.files, self.schema, name))}
        partitions = {file.partition for file in self.files} if self.schema.keys_tell_partitions else None
        kept = [
            (partitions is None or file.partition in partitions)
            and all(_meet(found, bounds([file], self.schema, name)) for name, found in ends.items())
            for file in there.files
        ]
        return there.only(kept)

    # ---- with pyarrow

    def _looked_at_here(self, there: Sequence[TableFiles], more: pa.Table, at: Timestamp) -> pb.KeyClaim:
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = self._each_once()
        values = key_column(keys, self.schema)
        taken = pa.repeat(False, len(values))
        for found in self._found(keys, there, more):
            taken = pc.or_(taken, pc.is_in(values, value_set=found))
        if (refused := keys.filter(taken)).num_rows:
            raise self._refusal(refused, str(refused.num_rows))
        return claim_of(keys, self.schema, at)

    def _each_once(self) -> pa.Table:
        """The keys."""
        import pyarrow.compute as pc

        from txnclient.formats import arrow

        keys = arrow.read_files(self.files, self.schema, list(self.schema.primary_key)).combine_chunks()
        values = key_column(keys, self.schema)
        if pc.count_distinct(values).as_py() < len(values):
            counts = pc.value_counts(values)
            twice = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
            raise self._twice(keys.filter(pc.is_in(values, value_set=twice)))
        return keys

    def _found(self, keys: pa.Table, there: Sequence[TableFiles], more: pa.Table) -> Iterator[pa.Array]:
        """Keys that are there, part by part, without those far off; and more."""
        names = list(self.schema.primary_key)
        near = (row_format.near if keys.num_rows <= MAX_CLAIMED_KEYS else row_format.between)(keys, self.schema)
        for part in (part for each in there for part in _parts(each)):
            yield key_column(part.to_arrow(names, near), self.schema)
        yield key_column(more, self.schema)

    # ---- with Spark

    def _looked_at_by_spark(
        self, spark: SparkSession, there: Sequence[TableFiles], more: pa.Table, at: Timestamp
    ) -> pb.KeyClaim:
        from txnclient.spark import key_search

        keys = self._each_once_by_spark(spark)
        shared = key_search.that_are_in(spark, keys, there, more, MAX_NAMED + 1)
        if shared.num_rows:
            raise self._refusal(shared, str(shared.num_rows) if shared.num_rows <= MAX_NAMED else "more than 10")
        return self.vouched(at)

    def _each_once_by_spark(self, spark: SparkSession) -> DataFrame:
        """The keys."""
        from txnclient.spark import key_search

        keys = key_search.keys_of(spark, self.files, self.schema)
        if (twice := key_search.that_come_twice(keys, MAX_NAMED)).num_rows:
            raise self._twice(twice)
        return keys

    # ---- errors

    def _twice(self, keys: pa.Table) -> InvalidArgument:
        texts = sorted(set(_texts(keys, self.schema)))
        return InvalidArgument(f"keys come more than once in the rows for table {self.table}: {_named(texts)}")

    def _refusal(self, keys: pa.Table, count: str) -> AlreadyExists:
        texts = sorted(_texts(keys, self.schema))
        error = AlreadyExists(
            f"{count} of {self.rows} rows: their keys are in {self.table} already, or this transaction changed them: "
            f"{_named(texts)}",
            hint="nothing of this write is added; upsert replaces such rows",
        )
        error.keys = tuple(texts[:MAX_NAMED])
        return error

    def _overtaken(self, error: AlreadyExists) -> Conflict:
        keys = tuple(f"{self.table}({key})" for key in error.keys)
        message = f"others have added keys to {self.table} since it was read: {_named(error.keys)}"
        cause = AbortCause(AbortCode.CONFLICT, message, self.table, None, keys)
        return Conflict(message, hint="run the transaction again", cause=cause)


def changed_by_itself(there: TableFiles, at: Timestamp) -> pa.Table:
    """The keys of rows that the transaction has changed: they may be gone, and files would come before that."""
    batches = there.changes.batches if there.changes is not None else ()
    own = [batch for batch in batches if batch.commit_ts > at]
    return row_format.changes_table(own, there.schema.in_files).select(list(there.schema.primary_key))


def _parts(there: TableFiles) -> Iterator[TableFiles]:
    """Files of some rows at a time; with row changes all at once, since these are of all files."""
    if there.changes is not None:
        yield there
        return
    sums = accumulate(file.rows for file in there.files)
    for _, part in groupby(zip(sums, there.files, strict=True), key=lambda each: (each[0] - 1) // ROWS_AT_A_TIME):
        files = tuple(file for _, file in part)
        yield replace(there, files=files, dead=kept_dead_rows.of_files(there.dead, files))


def claim_of(keys: pa.Table, schema: Schema, at: Timestamp) -> pb.KeyClaim:
    """The keys themselves, if they are few."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if keys.num_rows <= MAX_CLAIMED_KEYS:
        named = row_format.encode_keys(keys, schema).to_pylist()
        if sum(map(len, named)) <= MAX_CLAIMED_BYTES:
            return pb.KeyClaim(snapshot=at, keys=named)
    first = keys[schema.primary_key[0]]
    ends = pc.min_max(first)
    lowest, highest = row_format.as_bytes(pa.array([ends["min"], ends["max"]], first.type)).to_pylist()
    return pb.KeyClaim(snapshot=at, range=_bounded(lowest, highest))


def _range(files: Sequence[DataFile], schema: Schema) -> pb.KeyRange:
    """The range of the first column, as manifests have it; what they do not tell is open."""
    ends = bounds(files, schema, schema.primary_key[0])
    return _bounded(ends[0][1], ends[1][1]) if ends else pb.KeyRange()


def _bounded(lowest: bytes, highest: bytes) -> pb.KeyRange:
    found = pb.KeyRange()
    if len(lowest) <= MAX_KEY_BOUND_BYTES:
        found.lowest = lowest
    if len(highest) <= MAX_KEY_BOUND_BYTES:
        found.highest = highest
    return found


def _meet(one: tuple[End, End], other: tuple[End, End] | None) -> bool:
    """Whether two ranges of one column have something in common."""
    return other is None or (one[0] <= other[1] and other[0] <= one[1])


def _texts(keys: pa.Table, schema: Schema) -> list[str]:
    return [key.decode(errors="backslashreplace") for key in row_format.encode_keys(keys, schema).to_pylist()]


def _named(texts: Sequence[str]) -> str:
    return ", ".join(texts[:MAX_NAMED]) + (", ..." if len(texts) > MAX_NAMED else "")
