"""Floors: a snapshot that was given out is never joined by a later commit, in whichever range.

That is what each range's floor is for, so floors are compared with what was answered, and not with the commits that
come: clocks are seldom so far behind that one comes below.
"""

from __future__ import annotations

from collections.abc import Callable

from txnstatus.status import commands as cmd
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import NO_TIMESTAMP, Timestamp


class Floors:
    def __init__(self, violated: Callable[[str, str], None]) -> None:
        self._violated = violated
        self._open: dict[str, Timestamp] = {}
        """The floors of the ranges where something may still commit; not of one where nothing has begun yet."""
        self._given = NO_TIMESTAMP
        """The highest snapshot that was answered."""

    def applied(self, group: str, table: TxnStatusTable, command: cmd.Command, outcome: StatusApplied) -> None:
        """The first replica of a range has applied a command."""
        floor = table.last_commit_ts
        if isinstance(command, cmd.BeginTxns) and outcome.changed and outcome.records and floor < self._given:
            self._violated(
                "6 snapshots", f"{outcome.txn_ids} begin in {group} above {floor}; {self._given} was given out"
            )
        if table.next_txn_id > table.first_txn_id and not table.settled:
            self._open[group] = floor
        else:
            self._open.pop(group, None)

    def given(self, timestamp: int) -> None:
        """A snapshot was answered."""
        self._given = max(self._given, Timestamp(timestamp))
        for group, floor in self._open.items():
            if floor < timestamp:
                self._violated("6 snapshots", f"{timestamp} is given out; in {group} all above {floor} may commit")
