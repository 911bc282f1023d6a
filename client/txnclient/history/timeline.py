"""The timeline: every transaction that is over, from its record, or from the files that outlive it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from txnclient.calls.requests import build
from txnclient.info import TxnSummary, txn_summary
from txnclient.read import instants
from txnclient.session import Session
from txnclient.showing import Shown
from txnstatus.errors import Forgotten, NotFound
from txnstatus.lake import parallel, timeline
from txnstatus.lake.timeline import Past, TableChange
from txnstatus.proto import timeline_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.types import DECIDED_COMMIT, TERMINAL, TxnState, micros_at, time_of

END = (1 << 63) - 1
"""Microseconds: the end of all time."""
CLOCKS_APART = 3_600_000_000
"""Microseconds by which a transaction may have ended before its commit's timestamp: clocks of nodes differ."""
AT_ONCE = 64
"""Files of which one is looked at beside the other."""


class Timeline:
    """What a `Client` tells of transactions that are over."""

    session: Session

    def timeline(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        table: str = "",
        label: str = "",
    ) -> list[Past]:
        """Transactions that are over, the oldest first: all, or those for which all that is said holds.

        Also those whose records are forgotten: they are in files of the cluster, which this program reads, beside the
        tables in the warehouse. `since`, `until`: times with a zone; those that ended from then on, and before then.
        `table`: the name of a table, or another participant, that took part. What one did to each table is told of
        those that are written down, which takes a minute.

        Raises InvalidArgument; OSError where the files cannot be read.
        """
        first = 0 if since is None else instants.micros(since)
        end = END if until is None else instants.micros(until)
        # Records first: what is forgotten meanwhile is in a file by then.
        ended = build(status_pb.ListTransactionsRequest, states=[each.name for each in TERMINAL], label=label)
        kept: dict[int, Past] = {each.txn_id: of_record(txn_summary(each)) for each in self.session.records(ended)}
        kept |= {each.txn_id: each for each in timeline.read(self._files(first, end))}
        wanted = (
            each
            for each in kept.values()
            if first <= micros_at(each.ended) < end
            and (not label or each.label == label)
            and (not table or any(change.table == table for change in each.tables))
        )
        columns = "txn_id state owner label ended commit_timestamp tables abort_reason"
        return Shown("Timeline", columns, sorted(wanted, key=lambda each: (each.ended, each.txn_id)))

    def past(self, txn_id: int) -> Past:
        """One transaction, as it is now: from its record, or from the files once that is forgotten.

        The later it ended, the sooner it is found: files are looked at from the last one on.

        Raises NotFound; Forgotten for one that is in no file; OSError where the files cannot be read.
        """
        try:
            return of_record(txn_summary(self.session.record(txn_id)))
        except Forgotten:
            found = self._written(txn_id)
            if found is None:
                raise
            return found

    def _written(self, txn_id: int) -> Past | None:
        uris = self._files(0, END)
        for end in range(len(uris), 0, -AT_ONCE):
            some = uris[max(0, end - AT_ONCE) : end]
            if found := list(filter(None, parallel.each(partial(timeline.find, txn_id=txn_id), some))):
                return found[0]
        return None

    def _files(self, first: int, end: int) -> Sequence[str]:
        found = list[str]()
        request = build(pb.ListTimelineRequest, since_micros=first, until_micros=end)
        while True:
            answer = self.session.call("txnstatus.Timeline/ListTimeline", request, pb.ListTimelineResponse)
            found += answer.files
            if not answer.more:
                return found
            request.after = found[-1]


def is_undone(history: Timeline, txn_id: int) -> bool:
    """Whether an undo has taken the transaction back, and no undo that one.

    Raises OSError where the files of the timeline cannot be read.
    """
    try:
        since = history.past(txn_id).ended - timedelta(microseconds=CLOCKS_APART)
    except (NotFound, Forgotten):
        return False
    done = (each for each in history.timeline(since=since) if TxnState[each.state] in DECIDED_COMMIT)
    undos, by, count = {each.undoes: each.txn_id for each in done}, txn_id, 0
    while (found := undos.pop(by, None)) is not None:
        by, count = found, count + 1
    return count % 2 == 1


def of_record(txn: TxnSummary) -> Past:
    """A transaction as the timeline tells of one, in whatever state it is."""
    return Past(
        txn.txn_id,
        txn.state.name,
        txn.owner,
        txn.label,
        time_of(txn.begin_micros),
        time_of(txn.last_transition_micros),
        txn.commit_timestamp,
        tuple(map(TableChange, txn.participants)),
        *timeline.why(txn.cause),
        txn.undoes,
    )
