"""What the status manager is told, and what it wants done."""

from __future__ import annotations

from dataclasses import dataclass

from txnstatus import commands as cmd
from txnstatus.commit_tasks import SendOp
from txnstatus.errors import TxnError
from txnstatus.table import Applied, Rejected
from txnstatus.types import ParticipantId, ParticipantOpType, Timestamp, TxnId

# ---- events


@dataclass(frozen=True, slots=True)
class LeadershipGained:
    pass


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    pass


@dataclass(frozen=True, slots=True)
class CommandApplied:
    """A command reached the table on this leader."""

    command: cmd.Command
    outcome: Applied | Rejected


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """A commit is about to be proposed: participants may be asked to prepare while it replicates."""

    txn_id: TxnId
    owner: str


@dataclass(frozen=True, slots=True)
class ParticipantAnswered:
    txn_id: TxnId
    participant_id: ParticipantId
    op: ParticipantOpType
    timestamp: Timestamp
    error: TxnError | None


@dataclass(frozen=True, slots=True)
class Tick:
    pass


Event = LeadershipGained | LeadershipLost | CommandApplied | CommitRequested | ParticipantAnswered | Tick


# ---- effects


@dataclass(frozen=True, slots=True)
class Propose:
    command: cmd.Command
    awaited: bool = True
    """Somebody waits for it: False for what only tidies up."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The transaction's outcome is durable: answer whoever waits for it."""

    txn_id: TxnId


Effect = Propose | SendOp | Decided
