"""What the status manager is told, and what it wants done."""

from __future__ import annotations

from txnstatus.errors import TxnError
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import StatusApplied
from txnstatus.types import ParticipantId, ParticipantOpType, Timestamp, TxnId
from txnstatus.values import value

# ---- events


@value
class LeadershipGained:
    pass


@value
class LeadershipLost:
    pass


@value
class CommandApplied:
    """A command reached the table on this leader."""

    command: cmd.Command
    outcome: StatusApplied | Rejected


@value
class CommitRequested:
    """A commit is about to be proposed: participants may be asked to prepare while it replicates."""

    txn_id: TxnId
    owner: str


@value
class ParticipantAnswered:
    txn_id: TxnId
    participant_id: ParticipantId
    op: ParticipantOpType
    timestamp: Timestamp
    error: TxnError | None


@value
class Tick:
    unsettled_seconds: float = 0.0
    """Age of the oldest command that is on its way, by the time that it carries: it may yet apply. 0: none is."""


Event = LeadershipGained | LeadershipLost | CommandApplied | CommitRequested | ParticipantAnswered | Tick


# ---- effects


@value
class Propose:
    command: cmd.Command
    awaited: bool = True
    """Somebody waits for it: False for what only tidies up."""


@value
class Decided:
    """The transaction's outcome is durable: answer whoever waits for it."""

    record: TxnRecord
    """The transaction as it was decided: the table may have forgotten it by the time of the answer."""


Effect = Propose | SendOp | Decided
