"""What stays in the process that made it: it has connections and threads, which no copy has."""

from __future__ import annotations

from typing import ClassVar, NoReturn, SupportsIndex

from txnstatus.errors import InvalidArgument


class Staying:
    """Cannot be pickled or copied, and says what can: Spark pickles whatever a function for its executors refers to."""

    instead: ClassVar[str]
    """What to send instead of it."""

    def __reduce_ex__(self, _protocol: SupportsIndex) -> NoReturn:
        raise InvalidArgument(f"{self!r} cannot be pickled or copied: it stays in its process", hint=self.instead)
