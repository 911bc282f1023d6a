"""What a Raft group replicates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from txnstatus.raft.restoring import Restoring


class StateMachine(Protocol):
    """`apply` is total and deterministic; an exception ends the process."""

    def apply(self, command: bytes) -> object: ...
    def snapshot(self) -> Iterator[bytes]:
        """The state as of this call, in chunks; each is made when it is asked for, also after later commands."""
        ...

    def restoring(self) -> Restoring: ...
