"""Folding: of a table with a primary key, files are written anew together with the row changes that hide rows of them.

A row of a file that was changed by its key is dead; what it has become comes behind the rows of its partition, in the
order of the keys. Of files that stay as they are it is said which of their rows are hidden. Row changes are held in
memory: the service gives no more of them to one compaction than have room there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from txnclient.compact.rewriting import Rewritten
from txnclient.formats import arrow
from txnclient.read import manifests, row_reads, superseded
from txnclient.read.row_reads import RowChanges
from txnstatus.lake import dead_rows, kept_dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.lineage import Lineage
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import DELETED
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    Write = Callable[[Sequence[DataFile], DeadRows, pa.Table | None, str], Rewritten]
    """Writes files of a partition anew, without dead rows, and behind them other rows."""


def fold(task: pb.CompactionTask, write: Write) -> Rewritten:
    """Writes the outputs, partition by partition; not durably. Raises DataDamaged, OSError."""
    schema = Schema.from_wire(task.table.schema).in_files
    listed = manifests.read([*task.inputs, *task.others])
    inputs = list(chain.from_iterable(listed[: len(task.inputs)]))
    dead = kept_dead_rows.read(task.dead)
    hidden: DeadRows = dead_rows.NONE
    rows: dict[str, pa.Table] = {}
    if (changes := RowChanges.of(task, Timestamp(task.as_of), [len(each) for each in listed])) is not None:
        latest = row_reads.latest_changes(changes, schema)
        gone = _hidden(list(chain.from_iterable(listed)), changes, latest, schema)
        read = {file.path for file in inputs}
        hidden = _less({path: found for path, found in gone.items() if path not in read}, dead)
        dead = dead_rows.union([dead, {path: found for path, found in gone.items() if path in read}])
        rows = _left(latest, schema)
    partitions = defaultdict[str, list[DataFile]](list)
    for file in inputs:
        partitions[file.partition].append(file)
    done = [write(partitions[name], dead, rows.get(name), name) for name in dict.fromkeys([*partitions, *rows])]
    files = [file for part in done for file in part.files]
    return Rewritten(files, Lineage(each for part in done for each in part.lineage.segments), hidden)


def _hidden(files: Sequence[DataFile], changes: RowChanges, latest: pa.Table, schema: Schema) -> DeadRows:
    """The rows of files that were changed by key after their files came."""
    _, meeting = row_reads.by_meeting(files, changes.file_times, latest, schema)
    return superseded.positions([(file, keys) for keys, group in meeting for file in group], schema)


def _left(latest: pa.Table, schema: Schema) -> dict[str, pa.Table]:
    """What the rows have become that are still there: by partition, in the order of their keys."""
    import pyarrow.compute as pc

    target = to_arrow(schema)
    rows = latest.filter(pc.invert(latest[DELETED])).select(target.names).cast(target)
    ordered = rows.sort_by([(name, "ascending") for name in schema.primary_key])
    return dict(arrow.by_partition(ordered, schema.partition_by))


def _less(rows: DeadRows, others: DeadRows) -> DeadRows:
    from pyroaring import BitMap

    return {file: left for file, found in rows.items() if (left := found - others.get(file, BitMap()))}
