"""Which keys a transaction finds in a table: in its own rows, in committed row changes, and in files.

Blocking: it reads the key columns of those files whose statistics do not rule the keys out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txnparticipant.rows.memrowset import RowBatch, SeenRows
from txnstatus.lake import alive, data_files, dead_rows, kept_dead_rows, manifest
from txnstatus.lake import rows as row_format
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import COMMIT_TS, DELETED, encode_keys
from txnstatus.lake.storage import file_system
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.schema import Schema
from txnstatus.types import NO_TIMESTAMP, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds


@dataclass(frozen=True, slots=True)
class Sight:
    """What a transaction sees of a table."""

    own: Sequence[RowBatch]
    """Rows that it changed itself: after all that it sees besides, its own files, too."""
    rows: SeenRows
    flushed: Sequence[table_pb.ManifestRef]
    files: Sequence[tuple[Timestamp, table_pb.ManifestRef]]
    """Files, with the timestamps of their commits; its own come after those that it sees."""
    at: Timestamp
    position: int
    """How many writes of its own on the table it sees."""
    dead: Sequence[table_pb.DeadRowsRef] = ()
    """What says which rows of the files are deleted."""


def present(rows: pa.Table, keys: Sequence[bytes], schema: Schema, sight: Sight) -> set[bytes]:
    """The keys that are there. `rows` has the columns of the primary key, in the order of `keys`."""
    unknown, there = set(keys), set[bytes]()
    for batch in reversed(sight.own):
        _settle(batch, unknown, there)
    gone: defaultdict[Timestamp, set[bytes]] = defaultdict(set)
    for row_set in reversed(sight.rows.row_sets):
        for batch in reversed(row_set.batches):
            gone[row_set.commit_ts] |= _settle(batch, unknown, there)
    near = row_format.near(rows, schema)
    for key, (commit_ts, deleted) in _flushed(sight, unknown, schema, near).items():
        unknown.discard(key)
        if deleted:
            gone[commit_ts].add(key)
        else:
            there.add(key)
    dead = kept_dead_rows.read(sight.dead) if unknown or gone else dead_rows.NONE
    # A deleted row is there again if files with its key came later.
    for commit_ts, wanted in [(NO_TIMESTAMP, unknown), *gone.items()]:
        refs = [ref for added, ref in sight.files if wanted and added > commit_ts]
        for batch in _read(refs, list(schema.primary_key), schema, near, dead):
            there |= wanted.intersection(encode_keys(batch, schema).to_pylist())
    return there


def _settle(batch: RowBatch, unknown: set[bytes], there: set[bytes]) -> set[bytes]:
    """What is known by the batch is not unknown any more. Returns the keys that it says are gone."""
    known = unknown & batch.key_set
    unknown -= known
    if batch.deletes:
        return known
    there |= known
    return set()


def _flushed(
    sight: Sight, keys: set[bytes], schema: Schema, near: ds.Expression
) -> dict[bytes, tuple[Timestamp, bool]]:
    """The last change of each, where there is one: when, and whether it deleted the row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted(keys), pa.binary())
    after, until = (pa.scalar(each, pa.uint64()) for each in (sight.rows.above, sight.at))
    seen = (pc.field(COMMIT_TS) >= after) & (pc.field(COMMIT_TS) <= until)
    last: dict[bytes, tuple[Timestamp, bool]] = {}
    columns = [*schema.primary_key, COMMIT_TS, DELETED]
    for batch in _read(sight.flushed if keys else (), columns, schema, near & seen):
        encoded = encode_keys(batch, schema)
        found = batch.append_column("key", encoded).filter(pc.is_in(encoded, value_set=wanted))
        for key, commit_ts, deleted in zip(
            *(found[name].to_pylist() for name in ("key", COMMIT_TS, DELETED)), strict=True
        ):
            last[key] = max(last.get(key, (NO_TIMESTAMP, False)), (Timestamp(commit_ts), deleted))
    return last


def _read(
    refs: Iterable[table_pb.ManifestRef],
    columns: Sequence[str],
    schema: Schema,
    where: ds.Expression,
    dead: DeadRows = dead_rows.NONE,
) -> Iterator[pa.Table]:
    """Piece by piece: a table's keys may be more than memory holds. Raises DataDamaged."""
    import pyarrow as pa

    files: list[DataFile] = [file for ref in refs for file in manifest.read(ref)]
    whole, others = alive.by_dead_rows(files, kept_dead_rows.of_files(dead, files))
    target = row_format.changes_schema(schema.in_files)
    if whole:
        with data_files.opened(whole, target, where=where, readers=1) as dataset:
            for batch in dataset.to_batches(columns=columns, filter=where):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
    if others:
        by_path = {file_system(file.path)[1]: dead[file.path] for file in others}
        chosen = pa.schema([target.field(name) for name in columns])
        with data_files.opened(others, target, where=where, readers=1) as dataset:
            for batch in alive.batches(dataset, chosen, where, by_path):
                yield pa.Table.from_batches([batch])
