"""What a table's published log has to say: which file sets came and went at which commit, in the order of commits."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from txnparticipant.versions.compactions import Switched
from txnparticipant.versions.mvcc import DeadRowsRef, DeleteSet, FileSet, Manifest
from txnstatus.types import Timestamp
from txnstatus.values import value


@value
class Part:
    """The files of a write that are in one partition."""

    manifest: Manifest
    partition: str


@value
class Step:
    """What one commit made of a table; or, where `is_whole`, all that a reader sees by then."""

    at: Timestamp
    came: tuple[Part, ...]
    """Parts that a reader sees from then on, or of which rows are deleted from then on."""
    went: tuple[Part, ...]
    dead: tuple[DeadRowsRef, ...]
    """What says which rows of those that came are deleted."""
    rows_change: bool
    """Whether a reader sees other rows than before: he does not after a compaction."""
    is_whole: bool = False


def steps(
    file_sets: dict[str, FileSet],
    replaced: Sequence[tuple[Timestamp, str]],
    deletes: Collection[DeleteSet],
    switched: Iterable[Switched],
    above: Timestamp,
    at: Timestamp,
) -> list[Step]:
    """One for each commit above the first timestamp, and at or below the second, that changed what a reader sees.

    `file_sets`: those that are kept, in the order in which they were finalised: all up to `above` came first.
    `replaced`: as the table has it.
    """
    came: defaultdict[Timestamp, dict[str, FileSet]] = defaultdict(dict)
    went: defaultdict[Timestamp, dict[str, FileSet]] = defaultdict(dict)
    for id_ in reversed(file_sets):
        each = file_sets[id_]
        if each.commit_ts <= above:
            break
        if each.commit_ts <= at and each.visible_at(each.commit_ts):
            came[each.commit_ts][id_] = each
    for when, id_ in replaced[bisect_right(replaced, above, key=lambda entry: entry[0]) :]:
        if when <= at and file_sets[id_].commit_ts < when:
            went[when][id_] = file_sets[id_]
    for deleted in deletes:
        if above < deleted.commit_ts <= at:
            for id_ in deleted.file_sets:
                if file_sets[id_].visible_at(deleted.commit_ts):
                    came[deleted.commit_ts][id_] = file_sets[id_]
    moves = {each.switch_ts for each in switched}
    return [
        _step(when, came.get(when, {}), went.get(when, {}), deletes, rows_change=when not in moves)
        for when in sorted(came.keys() | went.keys())
    ]


def whole(file_sets: Mapping[str, FileSet], deletes: Collection[DeleteSet], at: Timestamp) -> Step:
    """All that a reader sees at the timestamp."""
    seen = {id_: each for id_, each in file_sets.items() if each.visible_at(at)}
    return _step(at, seen, {}, deletes, rows_change=True, is_whole=True)


def _step(
    at: Timestamp,
    came: Mapping[str, FileSet],
    went: Mapping[str, FileSet],
    deletes: Iterable[DeleteSet],
    *,
    rows_change: bool,
    is_whole: bool = False,
) -> Step:
    dead = (each.ref for each in deletes if each.commit_ts <= at and not each.file_sets.isdisjoint(came))
    return Step(at, _parts(came), _parts(went), tuple(dict.fromkeys(dead)), rows_change, is_whole)


def _parts(file_sets: Mapping[str, FileSet]) -> tuple[Part, ...]:
    return tuple(Part(each.manifest, each.partition) for each in file_sets.values())
