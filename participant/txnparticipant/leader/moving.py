"""Moves deleted rows of a compaction's inputs to where they are in its output, and writes files that say so.

Blocking, and of pure effect: nothing here is in use before a command says so. Each file has a name of its own, since a
leader that was deposed may still be writing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from pyroaring import BitMap

from txnparticipant.shard import commands as cmd
from txnparticipant.versions.compactions import Switched
from txnparticipant.versions.mvcc import (
    DeadRowsRef,
    Deletes,
    DeleteSet,
    FileDeletes,
    HiddenRows,
    LineageRef,
    Manifest,
    Moved,
    PendingWrite,
    partition_of,
)
from txnstatus.errors import InternalError, Unavailable
from txnstatus.lake import dead_rows, lineage, manifest, parallel
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.lineage import Lineage
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import partition_in_path
from txnstatus.limits import MAX_DELETED_BYTES
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import Timestamp
from txnstatus.values import value

CACHED = 8
"""Lineages in memory: those of the last compactions are asked for by each transaction that they have overtaken."""


@value
class Sources:
    """What a write says of inputs of a compaction: taken from the table's state, to be read elsewhere."""

    write_id: str
    compaction: Switched
    snapshot: Timestamp
    deletes: tuple[DeadRowsRef, ...]
    """Files with its deletes, in each of the positions that they have had so far."""
    told: bool
    """Whether the positions of the deletes in inputs are in memory."""
    replaces: tuple[tuple[Manifest, str], ...]
    """The inputs that it replaces, in partitions where it does not replace all of them: manifests and partitions."""
    outputs: tuple[str, ...]
    """Outputs of which it replaces all."""
    kept: tuple[tuple[Manifest, str], ...] = ()
    """The inputs that it leaves, where it replaces all else."""
    within: tuple[tuple[Manifest, str], ...] = ()
    """The outputs in which these are, and something else."""


def sources(write: PendingWrite, compaction: Switched, files: Callable[[str], Manifest]) -> Sources:
    """`files`: the manifest of a file set."""
    inputs, replaced = frozenset(compaction.inputs), set(write.replaces).intersection(compaction.inputs)
    clears = bool(compaction.as_of) and write.clears_as_of is not None and write.clears_as_of < compaction.switch_ts
    kept = [id_ for id_ in compaction.inputs if id_ not in replaced]
    left = {partition_of(id_) for id_ in kept}
    wholly = {partition_of(id_) for id_ in compaction.outputs if clears} | {partition_of(id_) for id_ in replaced}

    def named(ids: Iterable[str]) -> tuple[tuple[Manifest, str], ...]:
        return tuple((files(id_), partition_of(id_)) for id_ in ids)

    touching = [each for _, each in write.all_deletes if not inputs.isdisjoint(each.file_sets)]
    return Sources(
        write.write_id,
        compaction,
        write.deletes.snapshot if write.deletes is not None else write.base_ts,
        tuple(each.ref for each in touching),
        all(each.positions for deletes in touching for each in deletes.files if each.file_set in inputs),
        named(id_ for id_ in compaction.inputs if id_ in replaced and partition_of(id_) in left),
        tuple(id_ for id_ in compaction.outputs if partition_of(id_) in wholly - left),
        named(kept) if clears else (),
        named(id_ for id_ in compaction.outputs if partition_of(id_) in left) if clears else (),
    )


def sources_of(deleted: Sequence[DeleteSet], compaction: Switched) -> Sources:
    """What a committed write says of inputs: it replaces none, or nothing would come of the compaction."""
    inputs = frozenset(compaction.inputs)
    told = all(each.files and all(file.positions for file in each.files if file.file_set in inputs) for each in deleted)
    refs = tuple(each.ref for each in deleted)
    return Sources(deleted[0].write_id, compaction, deleted[0].commit_ts, refs, told, (), ())


@contextmanager
def patient() -> Iterator[None]:
    """Raises Unavailable where the storage fails: it may be back when whoever asked asks again.

    A file that is gone, or damaged, stays so.
    """
    try:
        yield
    except (OSError, InternalError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError) or isinstance(cause, FileNotFoundError):
            raise
        raise Unavailable(f"deleted rows of compacted files cannot be moved for now: {cause}") from error


def move(source: Sources, location: str, directory: str, name: str) -> Moved:
    """The write's words, said of the output. `directory`: where the file goes that is called `name`."""
    through = read_lineage(source.compaction.lineage)
    rows = [forward(through, source.deletes)]
    for each in source.replaces:
        rows += [through.range_of(file.path) for file in _files(*each)]
    stays = dead_rows.union(through.range_of(file.path) for each in source.kept for file in _files(*each))
    for file in (file for each in source.within for file in _files(*each)):
        rows.append({file.path: BitMap(range(file.rows)) - stays.get(file.path, BitMap())})
    found = {file: positions for file, positions in dead_rows.union(rows).items() if positions}
    outputs = _by_output(found, source.compaction.outputs)
    moved = {file: positions for file, positions in found.items() if outputs[file] not in source.outputs}
    if not moved:
        return Moved(source.compaction.compaction_id, None, source.outputs)
    deletes = described(moved, source.snapshot, outputs, location, directory, name, told=source.told)
    return Moved(source.compaction.compaction_id, deletes, source.outputs)


def _by_output(files: Iterable[str], outputs: Sequence[str]) -> dict[str, str]:
    """File → the id of the output that it is in."""
    if len(outputs) == 1:
        return dict.fromkeys(files, outputs[0])
    ids = {partition_of(id_): id_ for id_ in outputs}
    return {file: ids[partition_in_path(file)] for file in files}


def _files(of: Manifest, partition: str) -> list[DataFile]:
    """The files of a file set."""
    return manifest.read(cmd.manifest_to_wire(replace(of, partitions=(partition,) if partition else ())))


def described(
    rows: DeadRows,
    snapshot: Timestamp,
    outputs: Mapping[str, str],
    location: str,
    directory: str,
    name: str,
    *,
    told: bool,
) -> Deletes:
    """Writes the rows, of which there are some, and says which they are; or only in which files: `told`.

    `outputs`: file → the id of its file set.
    """
    packed = {file: positions.serialize() if told else b"" for file, positions in rows.items()}
    if sum(map(len, packed.values())) > MAX_DELETED_BYTES:
        packed = dict.fromkeys(rows, b"")
    files = (
        FileDeletes(file.removeprefix(f"{location}/"), outputs[file], len(positions), packed[file])
        for file, positions in rows.items()
    )
    return Deletes(written(rows, directory, name), tuple(files), snapshot)


def written(rows: DeadRows, directory: str, name: str) -> DeadRowsRef:
    return cmd.dead_rows_from_wire(dead_rows.write(directory, rows, name))


def forward(through: Lineage, refs: Iterable[DeadRowsRef]) -> dict[str, BitMap]:
    """Where the rows are that are deleted in inputs; rows of other files are nobody's here."""
    inputs = set(through.inputs)
    read = dead_rows.union(parallel.each(dead_rows.read, list(map(cmd.dead_rows_to_wire, refs))))
    return through.forward({file: positions for file, positions in read.items() if file in inputs})


def is_loaded() -> bool:
    """Whether this process can read lineages and deleted rows at once."""
    return "pyarrow.parquet" in sys.modules


def load() -> None:
    """Loads the code that reads them, which takes a third of a second once: better while a worker still works."""
    importlib.import_module("pyarrow.parquet")


@lru_cache(maxsize=CACHED)
def read_lineage(ref: LineageRef) -> Lineage:
    """Raises DataDamaged, InternalError."""
    return lineage.read(cmd.lineage_to_wire(ref))


def fault(
    inputs: Sequence[Manifest],
    dead: Sequence[DeadRowsRef],
    output: Manifest,
    partition: str | None,
    directory: str,
    through: LineageRef,
    folds: bool,
) -> str:
    """What is wrong with what a worker has written; empty: it has the rows of the inputs, and each once.

    `dead`: what was deleted of the inputs when it read them. `partition`: the one of all rows; None: a table with a
    primary key may have several. `folds`: row changes hide more of their rows, and add others. Raises DataDamaged,
    InternalError.
    """
    # There may be thousands, far away, and whoever has written the outputs waits for the answer.
    read = list(chain.from_iterable(parallel.each(manifest.read, list(map(cmd.manifest_to_wire, inputs)))))
    had = {file.path: file.rows for file in read}
    files = manifest.read(cmd.manifest_to_wire(replace(output, partitions=())))
    for each in files:
        wanted = partition_in_path(each.path) if partition is None else partition
        if not each.path.startswith(f"{directory}/") or each.partition != wanted:
            return f"{each.path} is not in {directory}, or not of partition {wanted!r}"
    has = {file.path: file.rows for file in files}
    if partition is None:
        parts = {file.path: file.partition for file in (*read, *files)}
        if (named := {file.partition for file in files} - {WHOLE_TABLE}) != set(output.partitions):
            return f"its files are in the partitions {sorted(named)}, not in {sorted(output.partitions)}"
    rows = read_lineage(through)
    if story := rows.fault(had, has):
        return story
    gone = dead_rows.union(parallel.each(dead_rows.read, list(map(cmd.dead_rows_to_wire, dead))))
    left_out = dead_rows.union({each.input: each.dead} for each in rows.segments if each.dead)
    for path in had:
        known, left = gone.get(path, BitMap()), left_out.get(path, BitMap())
        if not known <= left if folds else known != left:
            return f"the rows of {path} that it leaves out are not those that were deleted"
    if partition is None and any(each.alive and parts[each.input] != parts[each.output] for each in rows.segments):
        return "rows are in another partition than they were"
    alive, found = sum(each.alive for each in rows.segments), sum(has.values())
    if alive > found or (alive < found and not folds) or (output.row_count, output.file_count) != (found, len(has)):
        return f"{alive} rows are alive in the inputs, {found} are in its files, {output.row_count} in its record"
    return ""


def hidden_rows(ref: DeadRowsRef, others: Mapping[str, Manifest]) -> tuple[str, HiddenRows | None]:
    """What is wrong with the rows that a worker says are hidden by row changes; and which they are.

    `others`: the file sets that it left as they are. Raises DataDamaged, InternalError.
    """
    there = {file.path: (id_, file.rows) for id_, of in others.items() for file in _files(of, partition_of(id_))}
    found = dead_rows.read(cmd.dead_rows_to_wire(ref))
    for file, positions in found.items():
        if file not in there or not positions or positions.max() >= there[file][1]:
            return f"{file} has no such rows to be hidden, or is no file that stays", None
    return "", HiddenRows(ref, tuple(sorted({there[file][0] for file in found})))
