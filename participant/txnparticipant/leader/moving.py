"""Moves deleted rows of a compaction's inputs to where they are in its output, and writes files that say so.

Blocking, and of pure effect: nothing here is in use before a command says so. Each file has a name of its own, since a
leader that was deposed may still be writing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from pyroaring import BitMap

from txnparticipant.shard import commands as cmd
from txnparticipant.versions.compactions import Switched
from txnparticipant.versions.mvcc import (
    DeadRowsRef,
    Deletes,
    FileDeletes,
    LineageRef,
    Manifest,
    Moved,
    PendingWrite,
)
from txnstatus.errors import InternalError, Unavailable
from txnstatus.lake import dead_rows, lineage, manifest
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.lineage import Lineage
from txnstatus.limits import MAX_DELETED_BYTES
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
    """The inputs that it replaces, where it does not replace all of them: manifests and partitions."""
    outputs: tuple[str, ...]
    """Outputs of which it replaces all."""


def sources(write: PendingWrite, compaction: Switched, files: Callable[[str], Manifest], partition: str) -> Sources:
    """`files`: the manifest of a file set."""
    inputs = frozenset(compaction.inputs)
    replaced = [id_ for id_ in write.replaces if id_ in inputs]
    all_of_it = len(replaced) == len(inputs)
    touching = [each for _, each in write.all_deletes if not inputs.isdisjoint(each.file_sets)]
    return Sources(
        write.write_id,
        compaction,
        write.deletes.snapshot if write.deletes is not None else write.base_ts,
        tuple(each.ref for each in touching),
        all(each.positions for deletes in touching for each in deletes.files if each.file_set in inputs),
        () if all_of_it else tuple((files(id_), partition) for id_ in replaced),
        compaction.outputs if all_of_it else (),
    )


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
    for of, partition in source.replaces:
        ref = replace(of, partitions=(partition,) if partition else ())
        rows += [through.range_of(file.path) for file in manifest.read(cmd.manifest_to_wire(ref))]
    moved = dead_rows.union(rows)
    if source.outputs or not moved:
        return Moved(source.compaction.compaction_id, None, source.outputs)
    (output,) = source.compaction.outputs
    deletes = described(moved, source.snapshot, output, location, directory, name, told=source.told)
    return Moved(source.compaction.compaction_id, deletes)


def described(
    rows: DeadRows, snapshot: Timestamp, output: str, location: str, directory: str, name: str, *, told: bool
) -> Deletes:
    """Writes the rows, of which there are some, and says which they are; or only in which files: `told`."""
    packed = {file: positions.serialize() if told else b"" for file, positions in rows.items()}
    if sum(map(len, packed.values())) > MAX_DELETED_BYTES:
        packed = dict.fromkeys(rows, b"")
    files = (
        FileDeletes(file.removeprefix(f"{location}/"), output, len(positions), packed[file])
        for file, positions in rows.items()
    )
    return Deletes(written(rows, directory, name), tuple(files), snapshot)


def written(rows: DeadRows, directory: str, name: str) -> DeadRowsRef:
    return cmd.dead_rows_from_wire(dead_rows.write(directory, rows, name))


def forward(through: Lineage, refs: Iterable[DeadRowsRef]) -> dict[str, BitMap]:
    """Where the rows are that are deleted in inputs; rows of other files are nobody's here."""
    inputs = set(through.inputs)
    read = dead_rows.union(dead_rows.read(cmd.dead_rows_to_wire(ref)) for ref in refs)
    return through.forward({file: positions for file, positions in read.items() if file in inputs})


@lru_cache(maxsize=CACHED)
def read_lineage(ref: LineageRef) -> Lineage:
    """Raises DataDamaged, InternalError."""
    return lineage.read(cmd.lineage_to_wire(ref))


def fault(
    inputs: Sequence[tuple[Manifest, str]],
    dead: Sequence[DeadRowsRef],
    output: Manifest,
    partition: str,
    directory: str,
    through: LineageRef,
) -> str:
    """What is wrong with what a worker has written; empty: it has the rows of the inputs, and each once.

    `dead`: what was deleted of the inputs when it read them. Raises DataDamaged, InternalError.
    """
    had: dict[str, int] = {}
    for of, part in inputs:
        ref = replace(of, partitions=(part,) if part else ())
        had.update((file.path, file.rows) for file in manifest.read(cmd.manifest_to_wire(ref)))
    files = manifest.read(cmd.manifest_to_wire(replace(output, partitions=())))
    for file in files:
        if not file.path.startswith(f"{directory}/") or file.partition != partition:
            return f"{file.path} is not in {directory}, or not of partition {partition!r}"
    has = {file.path: file.rows for file in files}
    rows = read_lineage(through)
    if story := rows.fault(had, has):
        return story
    gone = dead_rows.union(dead_rows.read(cmd.dead_rows_to_wire(ref)) for ref in dead)
    left_out = dead_rows.union({each.input: each.dead} for each in rows.segments if each.dead)
    for path in had:
        if gone.get(path, BitMap()) != left_out.get(path, BitMap()):
            return f"the rows of {path} that it leaves out are not those that were deleted"
    alive, found = sum(each.alive for each in rows.segments), sum(has.values())
    if alive != found or (output.row_count, output.file_count) != (found, len(has)):
        return f"{alive} rows are alive in the inputs, {found} are in its files, {output.row_count} in its record"
    return ""
