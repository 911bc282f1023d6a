"""What a Raft group replicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from txnstatus.raft.restoring import Restoring


class StateMachine(Protocol):
    """What is applied is total and deterministic; an exception ends the process."""

    def apply(self, commands: Sequence[bytes]) -> Sequence[object]:
        """Those of an entry, one after the other; returns the outcome of each."""
        ...

    def snapshot(self) -> Iterator[bytes]:
        """The state as of this call, in chunks; each is made when it is asked for, also after later commands."""
        ...

    def restoring(self) -> Restoring: ...
