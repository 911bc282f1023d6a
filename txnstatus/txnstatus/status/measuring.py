"""What of a status table's commands is counted, on its leader."""

from __future__ import annotations

from collections.abc import Sequence

from txnstatus.measures import Measures
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.table import StatusApplied
from txnstatus.types import TERMINAL

_ENDED = {state: state.name.lower() for state in TERMINAL}


def measure(measures: Measures, commands: Sequence[cmd.Command], outcomes: Sequence[StatusApplied | Rejected]) -> None:
    """Beginnings and ends of transactions, each where it happened: a command that is repeated changes nothing."""
    for command, outcome in zip(commands, outcomes, strict=True):
        if isinstance(outcome, Rejected) or not outcome.changed:
            continue
        if isinstance(command, cmd.BeginTxns):
            measures.begun += len(outcome.records)
        for record in outcome.records:
            if (ended := _ENDED.get(record.state)) is not None:
                measures.ended[ended, record.cause.code.value if record.cause else ""] += 1
