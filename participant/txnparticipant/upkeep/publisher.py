"""Publisher: on a shard's leader, keeps the Delta log of each table that has one, commit by commit.

What is published is replicated nowhere: the log says by its last entry of which commit it is, and what comes next
follows from the table's commits. So a new leader goes on where the log ends, and two that take themselves for the
leader write the same. Only what is settled is published: up to a timestamp at or below which nothing commits any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field

from txnparticipant.shard.commands import dead_rows_to_wire, manifest_to_wire
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.publication import Part, Step, steps, whole
from txnstatus.errors import TxnError
from txnstatus.lake import delta_actions, kept_dead_rows, manifest
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.delta_actions import Action
from txnstatus.lake.delta_log import CHECKPOINT_EVERY, ForeignEntry, Log
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.schema import Schema
from txnstatus.table_properties import PLAIN, published_as
from txnstatus.tracing import spans
from txnstatus.tracing.spans import Kind
from txnstatus.types import NO_TIMESTAMP, Timestamp

log = logging.getLogger(__name__)

AT_ONCE = 200
"""Commits of one table that one visit to the disk's thread publishes: others want it, too."""
REFUSED_SECONDS = 30.0
"""Time after which a log that somebody else has written to is looked at again."""
Mark = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _About:
    """A table as the disk's thread needs it."""

    table_id: str
    name: str
    location: str
    schema: Schema
    is_plain: bool


@dataclass(slots=True)
class _Published:
    log: Log
    mark: Mark = ()
    """What there was of the table when all of it was published."""
    up_to: Timestamp = NO_TIMESTAMP
    """The timestamp up to which it is: no less than the log's, which is of a commit."""
    waits: bool = False
    """Whether commits were left out, since a reader without deletion vectors could not see them as they are."""


@dataclass(slots=True)
class Publisher:
    """One for a shard."""

    shard: ParticipantShard
    settle: Callable[[TableState], Awaitable[Timestamp]]
    """Publishes to the table's readers all that is committed, and says up to when. Raises TxnError."""
    check_lease: Callable[[], None]
    """Raises NotTheLeader."""
    disk: Executor
    _published: dict[str, _Published] = field(default_factory=dict)
    _refused: dict[str, float] = field(default_factory=dict)
    """Table → when its log is looked at again."""

    def forget(self) -> None:
        """For a new leadership: somebody else may have gone on with the logs."""
        self._published.clear()
        self._refused.clear()

    async def run_once(self) -> None:
        """One pass over all tables."""
        for table in list(self.shard.tables()):
            if table.is_database or table.dropped is not None or not published_as(table.properties):
                self._published.pop(table.table_id, None)
                continue
            try:
                await self._publish(table)
            except ForeignEntry as error:
                self._refuse(table, str(error))
            except (OSError, TxnError) as error:
                self._published.pop(table.table_id, None)
                log.warning("%s is published later: %s", table.name, error)

    def _refuse(self, table: TableState, why: str) -> None:
        if table.table_id not in self._refused:
            log.error("%s is not published any more: %s", table.name, why)
        self._published.pop(table.table_id, None)
        self._refused[table.table_id] = asyncio.get_running_loop().time() + REFUSED_SECONDS

    async def _publish(self, table: TableState) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._refused.get(table.table_id, 0.0):
            return
        known = self._published.get(table.table_id)
        if known is not None and known.mark == _mark(table):
            return
        if known is None:
            found = await loop.run_in_executor(self.disk, Log.read, table.location, table.table_id)
            known = self._published[table.table_id] = _Published(found, up_to=found.commit_ts)
            self._refused.pop(table.table_id, None)
        at = await self.settle(table)
        self.check_lease()
        # Nothing is awaited from here to the visit: this is the table at one moment.
        mark, wanted, is_last = _mark(table), self._wanted(table, known, at), True
        if len(wanted) > AT_ONCE:
            wanted, is_last = wanted[:AT_ONCE], False
        about = _About(
            table.table_id,
            table.name,
            table.location,
            table.schema,
            published_as(table.properties) == PLAIN,
        )
        rest = whole(table.file_sets, table.deletes.all.values(), at) if about.is_plain and is_last else None
        with _traced(table, wanted):
            await loop.run_in_executor(self.disk, _write, known, about, wanted, rest)
        known.up_to = at if is_last else wanted[-1].at
        known.mark = mark if is_last else ()

    def _wanted(self, table: TableState, known: _Published, at: Timestamp) -> list[Step]:
        deletes = table.deletes.all.values()
        if known.log.version < 0 or known.waits or known.up_to < table.readable_from:
            return [whole(table.file_sets, deletes, at)]
        switched = table.compactions.switched.values()
        return steps(table.file_sets, table.replaced, deletes, switched, known.up_to, at)


@contextmanager
def _traced(table: TableState, wanted: Sequence[Step]) -> Iterator[None]:
    """Spans of the publication of commits, in the traces of those of their transactions of which this node knows."""
    if spans.tracer is None:
        yield
        return
    at = {step.at for step in wanted if not step.is_whole}
    written = {each.txn_id: each.commit_ts for each in table.file_sets.values() if each.commit_ts in at}
    written |= {each.txn_id: each.commit_ts for each in table.deletes.all.values() if each.commit_ts in at}
    begun = [
        spans.tracer.begin(
            "publish delta", Kind.INTERNAL, context, {"txn.id": txn_id, "txn.table": table.name, "txn.commit_ts": ts}
        )
        for txn_id, ts in sorted(written.items())
        if (context := spans.known(txn_id))
    ]
    why = "it was not written"
    try:
        yield
        why = ""
    except (OSError, ForeignEntry) as error:
        why = str(error)
        raise
    finally:
        for span in begun:
            if span is not None:
                span.end(why)


def _mark(table: TableState) -> Mark:
    """What changes with whatever changes what a reader sees."""
    return (
        len(table.file_sets),
        next(reversed(table.file_sets), None),
        table.replaced[-1:],
        len(table.deletes.all),
        next(reversed(table.deletes.all), None),
        table.properties,
        table.schema,
    )


def _write(known: _Published, about: _About, wanted: Sequence[Step], rest: Step | None) -> None:
    """`rest`: all that there is after the last of them, for a log from which something was left out."""
    for step in wanted:
        _append(known, about, step)
    if known.waits and rest is not None:
        _append(known, about, rest)
    log = known.log
    if log.version >= 0 and not known.waits and (news := _heading(log, about, log.commit_ts, has_dead=False)):
        _entry(log, log.commit_ts, news)  # columns that came while the table was not published, and no commit since


def _append(known: _Published, about: _About, step: Step) -> None:
    """Raises ForeignEntry, OSError; InternalError for a manifest, or for deleted rows, that do not read."""
    refs = list(map(dead_rows_to_wire, step.dead))
    came = list(_files(step.came))
    dead = kept_dead_rows.of_files(kept_dead_rows.read(refs), came) if refs else {}
    outside = not all(file.path.startswith(f"{about.location}/") for file in came)
    known.waits = outside or (about.is_plain and bool(dead)) or (known.waits and not step.is_whole)
    if known.waits:
        return
    actions = _actions(known.log, about, step, came, dead)
    if actions:
        _entry(known.log, step.at, actions)


def _entry(log: Log, at: Timestamp, actions: Sequence[Action]) -> None:
    log.append(at, actions)
    if log.version % CHECKPOINT_EVERY == 0 and log.version:
        log.checkpoint()


def _actions(known: Log, about: _About, step: Step, came: Sequence[DataFile], dead: DeadRows) -> list[Action]:
    """What the entry says beside whose it is; nothing, where it would say nothing new."""
    schema, at, change = about.schema, step.at, step.rows_change
    paths = {file.path[len(about.location) + 1 :]: file for file in came}
    went = {file.path[len(about.location) + 1 :] for file in _files(step.went)}
    if step.is_whole:
        went |= known.files.keys() - paths.keys()
    actions: list[Action] = []
    for path in sorted(went & known.files.keys()):
        actions.append(delta_actions.removed(known.files[path], at, rows_change=change))
    for path, file in paths.items():
        before = known.files.get(path)
        gone = dead.get(file.path)
        if before is not None and path not in went:
            if delta_actions.dead_rows_of(before) == len(gone or ()):
                continue
            actions.append(delta_actions.removed(before, at, rows_change=change))
        actions.append(delta_actions.added(path, file, schema, gone, at, rows_change=change))
    return [*_heading(known, about, at, has_dead=bool(dead)), *actions]


def _heading(known: Log, about: _About, at: Timestamp, *, has_dead: bool) -> list[Action]:
    """What the table asks of its readers, and its columns; where either is new."""
    vectors = has_dead or (bool(known.protocol) and delta_actions.has_deletion_vectors(known.protocol))
    protocol = delta_actions.protocol(about.schema, deletion_vectors=vectors)
    found = [protocol] if protocol != known.protocol else []
    created = Timestamp(at) if not known.metadata else NO_TIMESTAMP
    metadata = delta_actions.metadata(about.table_id, about.name, about.schema, created)
    before = known.metadata.get("metaData", {})
    if metadata["metaData"]["schemaString"] != before.get("schemaString"):
        metadata["metaData"]["createdTime"] = before.get("createdTime", metadata["metaData"]["createdTime"])
        found.append(metadata)
    return found


def _files(parts: Iterable[Part]) -> Iterable[DataFile]:
    by_manifest: dict[str, tuple[Part, list[str]]] = {}
    for part in parts:
        by_manifest.setdefault(part.manifest.path, (part, []))[1].append(part.partition)
    for part, partitions in by_manifest.values():
        ref = manifest_to_wire(part.manifest)
        del ref.partitions[:]
        ref.partitions.extend(each for each in partitions if each != WHOLE_TABLE)
        yield from manifest.read(ref)
