"""Leasing: compactions that wait for a worker, the one that this process has, and how it is kept."""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Sequence

from txnclient.alive.heartbeat import Ask
from txnclient.calls.channel import ManagerChannel
from txnclient.calls.requests import build
from txnclient.session import Session
from txnstatus.errors import TxnError
from txnstatus.limits import MAX_REASON_CHARACTERS
from txnstatus.proto import compaction_pb2 as pb
from txnstatus.sizes import ANY_SIZE, Sizes
from txnstatus.types import Timestamp

log = logging.getLogger(__name__)

COMPLETE_SECONDS = 120.0
"""Time in which a switch is to be answered: deletes that came meanwhile are carried over before."""


class Leased:
    """A compaction that this process works at. It is renewed until it ends, or is garbage."""

    def __init__(self, session: Session, task: pb.CompactionTask, lease_id: str) -> None:
        self.task = task
        self._session, self._lease_id = session, lease_id
        self._lost: TxnError | None = None

    def __str__(self) -> str:
        return f"compaction {self.task.compaction_id} of {self.task.table.name} {self.task.partition}".rstrip()

    def require(self) -> None:
        """Raises why it is not this process's any more."""
        if self._lost is not None:
            raise copy.copy(self._lost)

    def complete(self, done: pb.CompleteCompactionRequest) -> Timestamp:
        """Has readers see what was written, from the timestamp on that is answered. Raises TxnError."""
        for name, value in self._key.items():
            setattr(done, name, value)
        answer = self._session.call(
            "txnstatus.Compactions/CompleteCompaction", done, pb.CompleteCompactionResponse, timeout=COMPLETE_SECONDS
        )
        return Timestamp(answer.switched)

    def fail(self, reason: str, *, returned: bool = False) -> None:
        """Gives it up, and what it has written. `returned`: nothing is wrong with it, somebody else may do it.

        Raises TxnError.
        """
        request = build(pb.FailCompactionRequest, **self._key, reason=reason[:MAX_REASON_CHARACTERS], returned=returned)
        self._session.call("txnstatus.Compactions/FailCompaction", request, pb.FailCompactionResponse)

    @property
    def _key(self) -> dict[str, str]:
        task = self.task
        return {
            "table_id": task.table.table_id,
            "compaction_id": task.compaction_id,
            "lease_id": self._lease_id,
        }

    # ---- kept alive

    @property
    def keepalive_seconds(self) -> float:
        return self.task.lease_millis / 1000

    def renew(self, channel: ManagerChannel, timeout: float) -> None:
        """Raises TxnError."""
        channel.call(
            "txnstatus.Compactions/RenewCompaction",
            pb.RenewCompactionRequest(**self._key),
            pb.RenewCompactionResponse,
            timeout=timeout,
            attempt_seconds=timeout,
        )

    def heartbeat_answered(self, sent_at: float) -> None:
        """Nothing to do: it is as it should be."""

    def heartbeat_silent(self, seconds: float, last: TxnError) -> None:
        """Whether somebody else has it by now, the next answer says."""
        log.warning("%s was not renewed for %.1f s: %s", self, seconds, last.message)

    def heartbeat_refused(self, error: TxnError) -> None:
        self._lost = copy.copy(error)


def lease(session: Session, worker: str, table: str = "", sizes: Sizes = ANY_SIZE) -> Leased | None:
    """Something to do, of one table or of any; None: there is nothing. Raises TxnError.

    Of other sizes it is where nobody who takes them is there.
    """
    lease_id = uuid.uuid4().hex
    request = build(
        pb.LeaseCompactionRequest,
        worker=worker,
        lease_id=lease_id,
        table=table,
        min_bytes=sizes.least,
        max_bytes=sizes.below,
    )
    answer = session.call("txnstatus.Compactions/LeaseCompaction", request, pb.LeaseCompactionResponse)
    return Leased(session, answer.task, lease_id) if answer.HasField("task") else None


def renewing(channel: ManagerChannel) -> Ask[Leased]:
    """For Heartbeats: each is a call of its own, since a process has few."""

    def ask(leases: Sequence[Leased], timeout: float) -> list[TxnError | None]:
        answers: list[TxnError | None] = []
        for each in leases:
            try:
                each.renew(channel, timeout / len(leases))
                answers.append(None)
            except TxnError as error:
                answers.append(error)
        return answers

    return ask
