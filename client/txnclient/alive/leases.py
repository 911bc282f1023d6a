"""Leases: what a snapshot has begun to read is not removed while its program lives and renews them."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence

from txnclient.alive.heartbeat import Ask
from txnclient.calls.channel import ManagerChannel
from txnstatus.errors import TxnError, Unavailable
from txnstatus.proto import table_pb2 as pb
from txnstatus.rpc.errors import from_detail
from txnstatus.types import Timestamp

log = logging.getLogger(__name__)


class Lease:
    """A snapshot's lease on one table. It is renewed until it is garbage, or removed from the session's leases."""

    def __init__(self, lease_id: str, table: str, timestamp: Timestamp, millis: int) -> None:
        """`millis`: how long it holds after each renewal."""
        self.wire = pb.SnapshotLease(lease_id=lease_id, table=table, timestamp=timestamp, lease_millis=millis)
        self._lost: TxnError | None = None

    @property
    def keepalive_seconds(self) -> float:
        return self.wire.lease_millis / 1000

    def require(self) -> None:
        """Raises why it was lost; SnapshotTooOld, as a rule."""
        if self._lost is not None:
            raise copy.copy(self._lost)

    def heartbeat_answered(self, sent_at: float) -> None:
        """Nothing to do: it is as it should be."""

    def heartbeat_silent(self, seconds: float, last: TxnError) -> None:
        """What was read may be gone or not; the next answer says so."""
        log.warning("the snapshot of %s was not renewed for %.1f s: %s", self.wire.table, seconds, last.message)

    def heartbeat_refused(self, error: TxnError) -> None:
        log.warning("the snapshot of %s is lost: %s", self.wire.table, error.message)
        self._lost = copy.copy(error)


def renew(channel: ManagerChannel) -> Ask[Lease]:
    def ask(leases: Sequence[Lease], timeout: float) -> list[TxnError | None]:
        response = channel.call(
            "txnstatus.Table/RenewLeases",
            pb.RenewLeasesRequest(leases=[lease.wire for lease in leases]),
            pb.RenewLeasesResponse,
            timeout=timeout,
            attempt_seconds=timeout,
        )
        if len(response.results) != len(leases):
            raise Unavailable("the answer left snapshots out")
        return [from_detail(result.error) if result.HasField("error") else None for result in response.results]

    return ask
