"""BeginCommits: how a range's leader begins commits, where participants are in the same log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from txnstatus.errors import TxnError, Unavailable
from txnstatus.proto.table_pb2 import AddFilesRequest
from txnstatus.status import commands as cmd
from txnstatus.status.records import Step, TxnRecord, refused
from txnstatus.status.table import StatusApplied, TxnStatusTable
from txnstatus.types import HybridClock, ParticipantId, TxnId, TxnState

MAX_TRIES = 20
"""Times that a commit is begun, where compactions come in between."""


class ServicesHere(Protocol):
    """The services of participants whose shards are in the same log, on its leader."""

    def has(self, txn_id: TxnId, participant_id: ParticipantId) -> bool: ...

    def is_ready(self, txn_id: TxnId, participant_id: ParticipantId) -> bool:
        """Whether it can prepare as it is: it nearly always can."""
        ...

    async def make_ready(self, txn_id: TxnId, participant_id: ParticipantId) -> None:
        """Raises why it never can prepare, or what is retriable."""
        ...

    async def last_write(self, request: AddFilesRequest) -> cmd.LastWrite | None:
        """The write as its table's shard judges it; None where that is not in the same log.

        Raises what refuses it, and what is retriable.
        """
        ...

    def has_applied(self, step: Step) -> None:
        """Hears what was asked of one."""
        ...


@dataclass(slots=True)
class BeginCommits:
    table: TxnStatusTable
    here: ServicesHere
    propose: Callable[[cmd.Command], Awaitable[StatusApplied]]
    wall_micros: Callable[[], int]
    clock: HybridClock

    def is_ready(self, record: TxnRecord) -> bool:
        """Whether all participants in this log can prepare."""
        here, txn_id = self.here, record.txn_id
        return all(here.is_ready(txn_id, each) for each in record.participants if here.has(txn_id, each))

    def command(self, txn_id: TxnId, owner: str, writes: tuple[cmd.LastWrite, ...] = ()) -> cmd.BeginCommit:
        return cmd.BeginCommit(txn_id, owner, self.wall_micros(), self.clock.now(), writes)

    async def begin(self, record: TxnRecord, owner: str, writes: tuple[cmd.LastWrite, ...] = ()) -> TxnRecord:
        """Takes a commit as far as it goes by itself: to its end, where nobody elsewhere takes part.

        Raises the refusal, or what is retriable.
        """
        participants = dict.fromkeys([*record.participants, *(write.participant_id for write in writes)])
        tries = 0
        while True:
            is_begun = record.state is not TxnState.OPEN or self.table.check_owner(record, owner)
            aborting = None if is_begun else await self._make_ready(record, participants)
            command = aborting or self.command(record.txn_id, owner, writes)
            tries += 1
            try:
                return (await self.propose(command)).records[0]
            except Unavailable as error:
                # A compaction was switched to in between.
                if type(error) is not Unavailable or tries == MAX_TRIES:
                    raise

    async def _make_ready(self, record: TxnRecord, participants: Iterable[ParticipantId]) -> cmd.BeginAbort | None:
        """Makes those that are in this log ready to prepare. The abort, where one of them never can be.

        Raises what is retriable.
        """
        for participant_id in participants:
            if not self.here.has(record.txn_id, participant_id):
                continue
            try:
                await self.here.make_ready(record.txn_id, participant_id)
            except TxnError as error:
                if error.retriable:
                    raise
                cause = refused(record, participant_id, error)
                return cmd.BeginAbort(record.txn_id, None, cause, self.wall_micros())
        return None
