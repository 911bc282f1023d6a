"""Together: transactions with participants in the same log as their record.

What the protocol asks of such a participant needs no message: it is done in the entry that asks for it. So BEGIN_COMMIT
of all of them comes with BeginCommit, after the writes that it carries; and where the others are none, the votes, the
decision, FINALIZE_COMMIT and CompleteCommit are part of that entry, too, or a refusal's abort to its end. Operations,
states and answers are those of docs/protocol.md, one after the other, as if each had been an entry. Participants
elsewhere are the coordinator's (see `manager`): it decides when those have prepared, and their number is what
FinalizeCommit names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from txnstatus.errors import TxnError, Unavailable
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.status.records import Step, TxnRecord, refused
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import NO_TIMESTAMP, Participant, ParticipantId, Timestamp, TxnId, TxnState

Decisive = cmd.BeginCommit | cmd.FinalizeCommit | cmd.BeginAbort | cmd.Expire
"""Commands after which participants are to be asked something."""


class Member(Protocol):
    """Whoever keeps participants in the same log; what is asked of it is total, as all of `apply` is."""

    def unready(self, txn_id: TxnId, participant_id: ParticipantId) -> TxnError | None:
        """Why it cannot be asked to prepare at the moment; that is retriable."""
        ...

    def write(self, command: bytes) -> TxnError | None:
        """Returns the refusal, if there is one. A write that was done before does nothing."""
        ...

    def prepare(self, txn_id: TxnId, participant: Participant, at: Timestamp) -> Step:
        """BEGIN_COMMIT, at the timestamp or above all that changed there."""
        ...

    def publish(self, txn_id: TxnId, participant_id: ParticipantId, commit_ts: Timestamp) -> Step:
        """FINALIZE_COMMIT."""
        ...

    def discard(self, txn_id: TxnId, participant: Participant) -> Step:
        """ABORT_TXN."""
        ...


Here = Callable[[TxnId, ParticipantId], Member | None]
"""Finds who keeps a participant of a transaction; None: nobody in the same log. Who is not may never be again, for the
same transaction: a participant goes to another log, and what comes was elsewhere for all that have begun before."""
_OPEN, _COMMIT_IN_PROGRESS = TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS
_FINALIZE_IN_PROGRESS = TxnState.FINALIZE_IN_PROGRESS
"""A module's names are found in a fifth of the time that an enum's take, and every commit comes by these."""
Own = Sequence[tuple[Participant, Member]]
"""Participants in the same log."""


class Together:
    """The status table of a range, with the participants that are in its log."""

    def __init__(self, table: TxnStatusTable, here: Here) -> None:
        self.table = table
        self._here = here

    def apply(self, command: cmd.Command) -> StatusApplied | Rejected:
        if not isinstance(command, Decisive):
            return self.table.apply(command)
        if isinstance(command, cmd.BeginCommit) and command.writes and (refusal := self._write(command)):
            return Rejected(refusal)
        record = self.table.find(command.txn_id)
        if record is None:
            return self.table.apply(command)
        own = self._own(record)
        if isinstance(command, cmd.BeginCommit) and record.state is _OPEN:
            for each, keeper in own:
                if refusal := keeper.unready(command.txn_id, each.participant_id):
                    return Rejected(refusal)
        elif isinstance(command, cmd.FinalizeCommit):
            command = _with_own(command, record, own)
        outcome = self.table.apply(command)
        if not own or isinstance(outcome, Rejected) or not outcome.changed:
            return outcome
        steps: list[Step] = []
        record = self._go_on(outcome.records[0], own, command, steps)
        return StatusApplied((record,), changed=True, steps=tuple(steps))

    def _own(self, record: TxnRecord) -> Own:
        found = ((each, self._here(record.txn_id, each.participant_id)) for each in record.participants.values())
        return [(each, keeper) for each, keeper in found if keeper is not None]

    def _write(self, command: cmd.BeginCommit) -> TxnError | None:
        """What the transaction writes last. Returns the refusal, if there is one; what is written by then stays."""
        record = self.table.find(command.txn_id)
        if record is None or record.state is not TxnState.OPEN:
            return None
        for write in command.writes:
            keeper = self._here(command.txn_id, write.participant_id)
            if keeper is None:
                return Unavailable(f"{write.participant_id} has gone to another log")
            if refusal := keeper.write(write.command):
                return refusal
        return None

    def _go_on(self, record: TxnRecord, own: Own, command: Decisive, steps: list[Step]) -> TxnRecord:
        """Asks those that are here, and goes on as far as that leads without the others."""
        txn_id, alone, now = record.txn_id, len(own) == len(record.participants), command.now_micros
        if isinstance(command, cmd.BeginCommit) and record.state is _COMMIT_IN_PROGRESS:
            for each, keeper in own:
                steps.append(keeper.prepare(txn_id, each, command.prepare_ts))
                if refusal := steps[-1].refused:
                    record = self._move(
                        cmd.BeginAbort(txn_id, None, refused(record, each.participant_id, refusal), now)
                    )
                    break
            else:
                if alone:
                    record = self._move(cmd.FinalizeCommit(txn_id, _highest(steps, NO_TIMESTAMP), now, len(own)))
        if record.state is _FINALIZE_IN_PROGRESS:
            steps += [keeper.publish(txn_id, each.participant_id, record.commit_ts) for each, keeper in own]
            return self._move(cmd.CompleteCommit(txn_id, now)) if alone else record
        if record.state is TxnState.ABORT_IN_PROGRESS:
            steps += [keeper.discard(txn_id, each) for each, keeper in own]
            return self._move(cmd.FinalizeAbort(txn_id, now)) if alone else record
        return record

    def _move(self, command: cmd.TxnCommand) -> TxnRecord:
        """A step that the table cannot refuse: all that it depends on was just done."""
        outcome = self.table.apply(command)
        assert isinstance(outcome, StatusApplied), f"{command}: {outcome}"
        return outcome.records[0]


def _with_own(command: cmd.FinalizeCommit, record: TxnRecord, own: Own) -> cmd.FinalizeCommit:
    """The decision counts those that are here, too. They have prepared, and are asked again what they answered."""
    if record.state is not TxnState.COMMIT_IN_PROGRESS:
        return command
    votes = [keeper.prepare(record.txn_id, each, command.commit_ts) for each, keeper in own]
    return replace(command, commit_ts=_highest(votes, command.commit_ts), prepared=command.prepared + len(votes))


def _highest(votes: Sequence[Step], at_least: Timestamp) -> Timestamp:
    return max([at_least, *[vote.timestamp for vote in votes]])
