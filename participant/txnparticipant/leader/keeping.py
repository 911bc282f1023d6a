"""What was overwritten stays for a while, on a shard's leader: somebody copies the files of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from txnparticipant.shard.leases import Leases
from txnstatus.proto import backup_pb2 as pb


@dataclass(frozen=True, slots=True)
class Keeping:
    """Implements the Keeper service for one shard.

    A new leader retires nothing before its leases are complete, so whoever repeats the call in time misses nothing.
    """

    leases: Leases
    check_lease: Callable[[], None]
    """Raises NotTheLeader where this replica does not lead, or cannot prove it."""

    async def keep_overwritten(self, _request: pb.KeepOverwrittenRequest) -> pb.KeepOverwrittenResponse:
        self.check_lease()
        self.leases.keep_all()
        return pb.KeepOverwrittenResponse(millis=int(self.leases.seconds * 1000))
