"""What a command does to what is granted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from txnstatus.catalog import commands as cmd
from txnstatus.errors import InvalidArgument, LimitReached
from txnstatus.roles import (
    Granted,
    called,
    check_identity,
    check_object,
    check_role,
    with_role,
    without,
)

TABLE_ID_PATTERN = r"[0-9]{1,9}\.[0-9]{1,19}"
MAX_GRANTED = 10_000
"""Pairs of an object and somebody who has roles on it: the catalog is one value, which every node keeps."""


def grants_after(
    grants: Mapping[str, Granted], command: cmd.Grant | cmd.Revoke | cmd.ForgetGrants
) -> Mapping[str, Granted]:
    """Raises InvalidArgument, LimitReached."""
    match command:
        case cmd.Grant(name, table_id, identity, role):
            is_of_table = re.fullmatch(TABLE_ID_PATTERN, table_id) if "." in check_object(name) else not table_id
            if not is_of_table:
                raise InvalidArgument(f"a grant on {called(name)} with the id {table_id!r:.100}: that is none of its")
            granted = with_role(grants, name, table_id, check_identity(identity), check_role(role))
            after = {**grants, name: granted}
            check_room(after)
            return after
        case cmd.Revoke(name, identity, role):
            known, who, taken = grants.get(check_object(name)), check_identity(identity), check_role(role)
            return grants if known is None else _put(grants, name, without(known, who, (taken,)))
        case cmd.ForgetGrants(table, table_id):
            is_its = table in grants and grants[table].table_id == table_id and bool(table_id)
            return _put(grants, table, None) if is_its else grants


def moved(granted: Granted, name: str) -> list[cmd.Grant | cmd.ForgetGrants]:
    """What has all that is granted on a table under the name that it has now, and nothing under the other one."""
    grants = [
        cmd.Grant(name, granted.table_id, holder.identity, role) for holder in granted.holders for role in holder.roles
    ]
    return [*grants, cmd.ForgetGrants(granted.object, granted.table_id)]


def check_room(grants: Mapping[str, Granted], more: int = 0) -> None:
    """Raises LimitReached where there are too many, or would be with so many more."""
    count = sum(len(each.holders) for each in grants.values()) + more
    if count > MAX_GRANTED:
        raise LimitReached(
            f"{count} grants: MAX_GRANTED = {MAX_GRANTED} are possible",
            hint="grant on databases rather than on tables",
        )


def _put(grants: Mapping[str, Granted], name: str, granted: Granted | None) -> Mapping[str, Granted]:
    others = {other: each for other, each in grants.items() if other != name}
    return {**others, name: granted} if granted is not None else others
