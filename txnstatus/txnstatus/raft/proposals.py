"""What is proposed to a group: on its way into the log, waiting there, or ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from txnstatus.errors import OutcomeUnknown, TxnError
from txnstatus.raft.members import Members
from txnstatus.raft.replica import MAX_BATCH_BYTES, MAX_BATCH_COMMANDS, SUCCESS, Replica


@dataclass(slots=True)
class Proposal:
    """Commands on their way together, in one entry: all of them apply, one after the other, or none."""

    commands: Sequence[bytes]
    outcomes: Sequence[object] = ()
    """Answers of `apply`, one for each command, once they have applied here."""
    error: TxnError | None = None
    """The reason why there are no outcomes."""
    members: Members | None = None
    """The members from then on, where the proposal is their change and has no commands."""
    ended: Callable[[Proposal], None] = lambda _proposal: None
    """A listener that hears of it once it has ended."""
    began: float = 0.0
    """When it was submitted, by the driver's clock."""
    size: int = field(init=False)
    """Bytes of all commands."""

    def __post_init__(self) -> None:
        self.size = sum(map(len, self.commands))


class Proposals:
    """The proposals of one replica; each ends once."""

    def __init__(self, name: str, replica: Replica) -> None:
        self._name = name
        self._replica = replica
        self.queued: list[Proposal] = []
        self.submitted: list[Proposal] = []
        self.term = -1
        """The term in which the submitted ones were."""
        self._done: list[Proposal] = []

    def add(self, proposal: Proposal) -> None:
        """Raises ValueError."""
        if proposal.size > MAX_BATCH_BYTES:
            raise ValueError(f"commands of {proposal.size} bytes: at most {MAX_BATCH_BYTES} are possible")
        self.queued.append(proposal)

    @property
    def change_members(self) -> bool:
        """Whether one of the queued ones does."""
        return any(proposal.members is not None for proposal in self.queued)

    def submit(self) -> None:
        """All that is queued becomes entries, in as few as possible."""
        while self.queued:
            batch = self._next_batch()
            self.submitted += batch
            self.term = int(self._replica.raftCurrentTerm)
            self._submit(batch)

    def refuse(self, error: TxnError) -> None:
        """The queued ones end: nothing happened."""
        if self.queued:
            self._fail(self.queued, error)
            self.queued = []

    def lose(self) -> None:
        """The submitted ones end: the next leader may yet commit their entries, or overwrite them."""
        if self.submitted:
            self._fail(self.submitted, OutcomeUnknown(f"{self._name} lost the leadership"))
            self.submitted = []

    def take_done(self) -> list[Proposal]:
        done, self._done = self._done, []
        return done

    def _next_batch(self) -> list[Proposal]:
        """Takes as many as fit in one entry; a change of the members is an entry of its own."""
        size = commands = 0
        for count, proposal in enumerate(self.queued):
            size += proposal.size
            commands += len(proposal.commands)
            full = size > MAX_BATCH_BYTES or commands > MAX_BATCH_COMMANDS
            if count and (full or proposal.members or self.queued[0].members):
                break
        else:
            count = len(self.queued)
        batch, self.queued = self.queued[:count], self.queued[count:]
        return batch

    def _submit(self, batch: list[Proposal]) -> None:
        def ended(outcomes: list[object] | None, failure: int) -> None:
            self._ended(batch, outcomes, failure)

        if batch[0].members is not None:
            self._replica.submit_members(batch[0].members, ended)
        else:
            self._replica.submit([command for proposal in batch for command in proposal.commands], ended)

    def _ended(self, batch: list[Proposal], outcomes: list[object] | None, failure: int) -> None:
        """pysyncobj's callback. Its SUCCESS means applied here; with any other word the entry may still commit."""
        if batch[0].error is not None:
            return  # this replica lost the leadership meanwhile, and said so
        ended = {id(proposal) for proposal in batch}
        self.submitted = [proposal for proposal in self.submitted if id(proposal) not in ended]
        if failure != SUCCESS or outcomes is None:
            self._fail(batch, OutcomeUnknown(f"{self._name} lost track of an entry ({failure})"))
            return
        start = 0
        for proposal in batch:
            proposal.outcomes = outcomes[start : start + len(proposal.commands)]
            start += len(proposal.commands)
        self._done += batch

    def _fail(self, proposals: Sequence[Proposal], error: TxnError) -> None:
        for proposal in proposals:
            proposal.error = error
        self._done += proposals
