"""Refusals that say no more than they must: whoever is refused learns that, and the operator's log learns why."""

from __future__ import annotations

from txnstatus.errors import Unauthenticated

TOLD = "what it was shown in place of a certificate does not hold"
"""All that is told, whatever is wrong: of a name that there is as of one that there is not."""


class Refused(Unauthenticated):
    """What was shown does not hold. `why` is for the log of the process that refuses, and has no secret in it."""

    def __init__(self, why: str) -> None:
        super().__init__(TOLD)
        self.why = why
