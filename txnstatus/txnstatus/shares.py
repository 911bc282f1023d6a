"""Shares: how much of one node a user may have at a time: who takes too much waits, or is refused, and nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from txnstatus.errors import LimitReached
from txnstatus.pace import AT_ONCE, Pace, Turn
from txnstatus.values import value

BEGINS, READS = "user_begins_per_second", "user_reads_per_second"
DOES = {BEGINS: "begin", READS: "ask"}
"""What users do, by the limit of how much of it they do in a second."""
LOCK = "txnstatus.Table/Lock"
FEW = 1_000
"""Users of whom it costs nothing to know."""


@value
class Shares:
    """Each is for each user, at one node; 0: as much as there is."""

    connections: int = 0
    begins_per_second: int = 0
    """Transactions that begin in a second, on the average; as many may begin at once."""
    reads_per_second: int = 0
    """Calls that only ask, in a second, likewise."""
    calls_mib: int = 0
    """MiB of calls that are being answered."""
    lock_waits: int = 0
    """Locks that are waited for, or being given."""


@dataclass(slots=True)
class _Use:
    connections: int = 0
    bytes: int = 0
    locks: int = 0
    begins: Pace = field(default_factory=Pace)
    reads: Pace = field(default_factory=Pace)

    def pace(self, limit: str) -> Pace:
        return self.begins if limit == BEGINS else self.reads


class Users:
    """What each user has now; what is refused is not counted. Methods raise LimitReached, naming limit and value."""

    def __init__(self) -> None:
        self.shares = Shares()
        """Shares of each who has none of his own."""
        self.own: Mapping[str, Shares] = {}
        """Shares of single users, by their names."""
        self._uses: dict[str, _Use] = {}
        """Uses by name of whoever has something, or has begun something of late: names come and go for years."""
        self._sweeps_at = FEW
        """Number of uses at which those that are over are looked for."""

    def connected(self, user: str) -> None:
        """One more connection; `disconnected` ends it."""
        use, most = self._use(user), self._of(user).connections
        if most and use.connections >= most:
            raise _reached(user, f"has {use.connections} connections to this node", "user_connections", most)
        use.connections += 1

    def disconnected(self, user: str) -> None:
        self._use(user).connections -= 1
        self._forget_idle(user)

    def turn(self, user: str, limit: str, count: int, now: float, patience: float) -> Turn:
        """That of so many; `told` ends a refusal. `limit`: BEGINS or READS. `now`, `patience`: as for Pace."""
        rate = self._rate(user, limit)
        if not rate:
            return AT_ONCE
        turn = self._use(user).pace(limit).turn(count, rate, now, patience)
        if len(self._uses) >= self._sweeps_at:
            self._sweep(now)
        return turn

    def refusal(self, user: str, limit: str, now: float, patience: float) -> Turn | None:
        """That of whatever is asked for now; `told` ends it. None: something has its turn, or waits."""
        rate, use = self._rate(user, limit), self._uses.get(user)
        return use.pace(limit).refusal(rate, now, patience) if rate and use is not None else None

    def told(self, user: str, limit: str, turn: Turn, now: float, number: int = 1) -> LimitReached:
        """What a refusal says now that it has its turn, or that nobody waits for it any more; or a number of them that
        are alike."""
        pace = self._use(user).pace(limit)
        pace.late -= number * turn.is_late
        wait, does = pace.wait(turn.count, turn.rate, now), DOES[limit]
        has = f"can {does} {min(turn.count, turn.rate)} more in {wait:.2f} s"
        refusal = _reached(user, has, limit, turn.rate, do=f"wait, or {does} fewer a second")
        refusal.again_seconds = pace.again(turn.count, turn.rate, now)
        self._forget_idle(user)
        return refusal

    def answers(self, user: str, method: str, size: int) -> None:
        """A call is taken up; `answered` ends it."""
        use, shares = self._use(user), self._of(user)
        if shares.calls_mib and use.bytes and use.bytes + size > shares.calls_mib << 20:
            raise _reached(user, f"has calls of {use.bytes} bytes under way", "user_calls_mib", shares.calls_mib)
        if shares.lock_waits and method == LOCK and use.locks >= shares.lock_waits:
            raise _reached(user, f"waits for {use.locks} locks", "user_lock_waits", shares.lock_waits)
        use.bytes += size
        use.locks += method == LOCK

    def answered(self, user: str, method: str, size: int) -> None:
        use = self._use(user)
        use.bytes -= size
        use.locks -= method == LOCK
        self._forget_idle(user)

    def _rate(self, user: str, limit: str) -> int:
        shares = self._of(user)
        return shares.begins_per_second if limit == BEGINS else shares.reads_per_second

    def _of(self, user: str) -> Shares:
        return self.own.get(user, self.shares)

    def _use(self, user: str) -> _Use:
        use = self._uses.get(user)
        if use is None:
            use = self._uses[user] = _Use()
        return use

    def _forget_idle(self, user: str) -> None:
        if self._uses[user] == _Use():
            del self._uses[user]

    def _sweep(self, now: float) -> None:
        """What was begun is not counted any more once as much might have begun since."""
        for user, use in self._uses.items():
            for limit in DOES:
                if (pace := use.pace(limit)).is_over(self._rate(user, limit), now):
                    pace.forget()
        self._uses = {user: use for user, use in self._uses.items() if use != _Use()}
        self._sweeps_at = max(FEW, 2 * len(self._uses))


def _reached(user: str, has: str, option: str, most: int, *, do: str = "let some end first") -> LimitReached:
    return LimitReached(
        f"{user} {has}: {option} = {most} are possible",
        hint=f"{do}; an operator raises it: txnctl limit set {user} {option} N",
    )
