"""What a command does to the limits of single users."""

from __future__ import annotations

from collections.abc import Mapping

from txnstatus.catalog import commands as cmd
from txnstatus.catalog.options import OF_USERS, Options
from txnstatus.errors import LimitReached, NotFound
from txnstatus.roles import check_identity

Limits = Mapping[str, Mapping[str, int]]
MAX_LIMITED = 1_000
"""Users with limits of their own: the catalog is one value, which every node keeps."""


def limits_after(limits: Limits, command: cmd.SetLimit) -> Limits:
    """Raises InvalidArgument; NotFound for what is no limit of users; LimitReached."""
    user, name = check_identity(command.identity), command.name
    if name not in OF_USERS:
        raise NotFound(f"no limit {name[:100]!r} of users; there are {', '.join(OF_USERS)}")
    own = {limit: value for limit, value in limits.get(user, {}).items() if limit != name}
    if not command.restores:
        Options.checked({name: command.value})
        own[name] = command.value
    others = {other: each for other, each in limits.items() if other != user}
    if own and len(others) >= MAX_LIMITED:
        raise LimitReached(
            f"{len(others)} users have limits of their own: MAX_LIMITED = {MAX_LIMITED} are possible",
            hint="set what most of them may take for all: txnctl config set",
        )
    return {**others, user: own} if own else others
