"""How many unfinished transactions there are in a range, of each owner, and whether a begin is one too many."""

from __future__ import annotations

from txnstatus.errors import LimitReached
from txnstatus.status import commands as cmd


class Owners:
    """Numbers of unfinished transactions, by their owners."""

    def __init__(self) -> None:
        self._unfinished: dict[str, int] = {}

    def of(self, owner: str) -> int:
        return self._unfinished.get(owner, 0)

    def more(self, owner: str, count: int = 1) -> None:
        self._unfinished[owner] = self._unfinished.get(owner, 0) + count

    def less(self, owner: str) -> None:
        left = self._unfinished[owner] - 1
        if left:
            self._unfinished[owner] = left
        else:
            del self._unfinished[owner]

    @property
    def counts(self) -> dict[str, int]:
        """Owners who have some, with their numbers."""
        return dict(self._unfinished)


def too_many(command: cmd.BeginTxns, unfinished: int, of_owner: int) -> LimitReached | None:
    """The refusal of a begin where so many are unfinished in the range, and so many of them its owner's."""
    if command.max_unfinished and unfinished + command.count > command.max_unfinished:
        return LimitReached(
            f"{unfinished} transactions of this range are unfinished, and "
            f"{command.max_unfinished} may be: {command.count} more cannot begin",
            hint="commit or abort some, or raise the limit: txnctl config set max_open_transactions N",
        )
    if command.max_of_owner and of_owner + command.count > command.max_of_owner:
        return LimitReached(
            f"{command.owner} has {of_owner} unfinished transactions in this range, and {command.count} more cannot "
            f"begin: user_open_transactions = {command.max_of_owner} are possible",
            hint="commit or abort some; an operator raises the limit: "
            f"txnctl limit set {command.owner} user_open_transactions N",
        )
    return None
