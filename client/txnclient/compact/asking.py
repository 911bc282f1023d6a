"""Asking for compactions, and looking at them: the part of a client that has to do with them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from txnclient.calls.requests import build, checked_seconds
from txnclient.formats.partitions import Partition, name_of
from txnclient.progress import hidden, shown
from txnclient.session import Session
from txnclient.showing import Shown
from txnstatus.errors import InternalError, InvalidArgument, Unavailable
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Kind = Literal["minor", "major"]
State = Literal["initiated", "working", "succeeded", "failed", "attempted"]

DEFAULT_TIMEOUT_SECONDS = 600.0
POLL_SECONDS = 0.2
_KINDS: dict[Kind, pb.CompactionKind] = {"minor": pb.COMPACTION_MINOR, "major": pb.COMPACTION_MAJOR}
_STATES: dict[State, pb.CompactionState] = {
    "initiated": pb.COMPACTION_INITIATED,
    "working": pb.COMPACTION_WORKING,
    "succeeded": pb.COMPACTION_SUCCEEDED,
    "failed": pb.COMPACTION_FAILED,
    "attempted": pb.COMPACTION_ATTEMPTED,
}


@dataclass(frozen=True, slots=True)
class CompactionSummary:
    """One compaction: of one partition, or of a table that has none."""

    compaction_id: str
    table: str
    partition: str
    """The partition as `column=value/column=value`; empty: the whole table."""
    kind: Kind
    state: State
    """How far it is. "attempted" came to nothing by nobody's fault: others overwrote its files, its worker ended."""
    requested: bool
    """Whether somebody has asked for it; else the service has found that it is time."""
    opened: Timestamp
    worker: str
    """The worker's name; empty: nobody works at it yet."""
    as_of: Timestamp
    ended: Timestamp
    switched: Timestamp
    """The timestamp from which on readers see what it has written."""
    input_file_sets: int
    input_bytes: int
    """Bytes that it reads, about."""
    input_rows: int
    output_rows: int
    output_files: int
    reason: str
    """Why nothing came of it; or why nobody works at it yet, where that is known."""

    @property
    def is_over(self) -> bool:
        return self.state not in ("initiated", "working")


Tell = Callable[[Sequence[CompactionSummary]], None]
"""Is told of compactions how they are."""


class Compacting:
    """What a `Client` does with compactions."""

    session: Session

    def compact(
        self,
        table: str,
        partition: Partition | None = None,
        kind: Kind = "major",
        *,
        spark: SparkSession | None = None,
        wait: bool = True,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        progress: Tell | None = None,
    ) -> list[CompactionSummary]:
        """Has a table's files written anew, or those of one partition: fewer and larger ones, with the same rows.

        `kind`: "major" takes all files, and leaves out rows that are deleted; "minor" merges small files, and leaves
        large ones as they are. Readers see the same rows at every timestamp, and no writer is refused because of it.
        The work is done by `txnctl compactor`; one that is under way already is not asked for again. With `spark`, the
        executors of that session do it, unless a compactor is first: for partitions that are too large for one process.

        Answers one for each partition that has something to compact. With `wait` it returns when they are over, and
        `progress` is told meanwhile how they are: by default that is a bar, in a notebook and on a terminal.
        "attempted" are those that came to nothing because their files were overwritten first. `timeout`: the seconds
        that it waits.

        Raises NotFound, InvalidArgument; InternalError for one that failed, and says why; Unavailable when they are not
        over in time, and they go on.
        """
        if kind not in _KINDS:
            raise InvalidArgument(f"kind {kind!r}: {', '.join(map(repr, get_args(Kind)))} are possible")
        deadline = time.monotonic() + checked_seconds(timeout)
        name = "" if partition is None else name_of(partition, self.session.table(table).schema, table)
        request = build(pb.RequestCompactionRequest, table=table, partition=name)
        request.kind = _KINDS[kind]
        answer = self.session.call("txnstatus.Compactions/RequestCompaction", request, pb.RequestCompactionResponse)
        wanted = set(answer.compaction_ids)
        with _watched(table, progress, wait=wait) as tell:
            if spark is not None and wanted:
                self._work_by(spark, table)
            while wanted:
                found = _list(each for each in self.compactions(table) if each.compaction_id in wanted)
                tell(found)
                # Of those that are over only the last ones are kept: what is not told any more is over, too.
                left = [each for each in found if not each.is_over]
                if not wait:
                    return found
                if not left:
                    _require_none_failed(found)
                    return found
                if time.monotonic() > deadline:
                    why = f" ({left[0].reason})" if left[0].reason else ""
                    said = f"{_story(left[0])}{why}, and not over within {timeout:g} s: it goes on"
                    raise Unavailable(said, hint=_HINT)
                time.sleep(POLL_SECONDS)
        return []

    def _work_by(self, spark: SparkSession, table: str) -> None:
        """Does what there is to do for the table. Raises what Worker.run_once raises."""
        from txnclient.compact.distributed import rewrite_by
        from txnclient.compact.worker import Worker

        worker = Worker(
            self.session, f"spark-{os.getpid()}", threading.Event(), table, rewrite=partial(rewrite_by, spark)
        )
        while worker.run_once():
            pass

    def compactions(self, table: str | None = None, state: State | None = None) -> list[CompactionSummary]:
        """Compactions that are wanted or under way, and the last ones that ended, of each way to end; the newest first.

        Of one table, or of all; in one state, or in any. Raises NotFound, InvalidArgument.
        """
        if state is not None and state not in _STATES:
            raise InvalidArgument(f"state {state!r}: {', '.join(map(repr, get_args(State)))} are possible")
        request = build(pb.ListCompactionsRequest, table=table or "")
        found: list[CompactionSummary] = []
        more = True
        while more:
            answer = self.session.call("txnstatus.Compactions/ListCompactions", request, pb.ListCompactionsResponse)
            found += map(_summary, answer.compactions)
            if more := answer.more:
                last = answer.compactions[-1]
                request.after.CopyFrom(pb.CompactionPlace(table_id=last.table_id, compaction_id=last.compaction_id))
        found.sort(key=lambda each: (each.opened, each.compaction_id), reverse=True)
        return _list(each for each in found if state in (None, each.state))


def _list(each: Iterable[CompactionSummary]) -> list[CompactionSummary]:
    columns = "table partition kind state worker input_rows output_rows output_files reason"
    return Shown("Compactions", columns, each)


@contextmanager
def _watched(table: str, tell: Tell | None, *, wait: bool) -> Iterator[Tell]:
    """What is told of compactions while the block waits for them: `tell`, or else a bar."""
    if tell is not None or not wait:
        with hidden():
            yield tell or (lambda _: None)
        return
    with shown(f"{table} is compacted", "partitions", after=0) as bar:
        yield lambda found: bar.at(sum(each.is_over for each in found), len(found), _work_at(found))


def _work_at(found: Sequence[CompactionSummary]) -> str:
    workers = sorted({each.worker for each in found if each.state == "working"})
    if all(each.is_over for each in found):
        return f"{sum(each.output_files for each in found):,} files of {sum(each.input_rows for each in found):,} rows"
    return f"{', '.join(workers)} at work" if workers else "no worker at work yet"


_HINT = "see that a worker runs: txnctl compactor; txnctl compactions lists what there is to do"


def _require_none_failed(found: Sequence[CompactionSummary]) -> None:
    for each in found:
        if each.state == "failed":
            raise InternalError(
                f"{_story(each)}: {each.reason}", hint="its files are as they were; txnctl compactions lists the others"
            )


def _story(each: CompactionSummary) -> str:
    of = f"{each.table} {each.partition}".rstrip()
    return f"the {each.kind} compaction {each.compaction_id} of {of} is {each.state}"


def _summary(wire: pb.CompactionInfo) -> CompactionSummary:
    kinds = {number: kind for kind, number in _KINDS.items()}
    states = {number: state for state, number in _STATES.items()}
    return CompactionSummary(
        wire.compaction_id,
        wire.table,
        wire.partition,
        kinds[wire.kind],
        states[wire.state],
        wire.requested,
        Timestamp(wire.opened),
        wire.worker,
        Timestamp(wire.as_of),
        Timestamp(wire.ended),
        Timestamp(wire.switched),
        wire.input_file_sets,
        wire.input_bytes,
        wire.input_rows,
        wire.output_rows,
        wire.output_files,
        wire.reason,
    )
