"""Roles: what somebody may be on the cluster, a database or a table, and what follows from what was granted.

An object is known by its name: a table's, a database's, or "", which is the cluster. What is granted on one holds for
what is below it, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from txnstatus.errors import InvalidArgument
from txnstatus.names import check_table_name, is_database_name
from txnstatus.values import value

CLUSTER = ""
"""The object that all others are below."""
MAX_IDENTITY_CHARACTERS = 200


class Role(StrEnum):
    READER = "reader"
    """Reads tables."""
    WRITER = "writer"
    """Reads and writes; makes tables in a database, whose owner it is then."""
    OWNER = "owner"
    """Does all that there is to do with tables, and says who else reads, writes and owns them."""
    OPERATOR = "operator"
    """Keeps the cluster going: sees what there is, and ends what is in the way. It reads no table."""
    ADMIN = "admin"
    """All that the others do, and says who has which role."""

    @property
    def bit(self) -> int:
        return _BITS[self]

    @property
    def implied(self) -> int:
        """The bits of the roles that whoever has this one has, too."""
        return _IMPLIED[self]


_BITS = {role: 1 << place for place, role in enumerate(Role)}
ANY = sum(_BITS.values())
_READS = _BITS[Role.READER]
_WRITES = _READS | _BITS[Role.WRITER]
_IMPLIED = {
    Role.READER: _READS,
    Role.WRITER: _WRITES,
    Role.OWNER: _WRITES | _BITS[Role.OWNER],
    Role.OPERATOR: _BITS[Role.OPERATOR],
    Role.ADMIN: ANY,
}
OFFICES = frozenset({Role.OPERATOR, Role.ADMIN})
"""Roles that an admin alone gives and takes."""


@value
class Holder:
    """Somebody, with the roles that were granted to him on an object."""

    identity: str
    roles: tuple[Role, ...]


@value
class Granted:
    """What is granted on one object."""

    object: str
    table_id: str
    """The id of a table: which one of those that were called so; else empty."""
    holders: tuple[Holder, ...]


class Rights:
    """What everybody may do, as of one state of the catalog."""

    def __init__(self, granted: Iterable[Granted] = (), admins: Collection[str] = ()) -> None:
        """`admins`: who is admin of the cluster whatever was granted."""
        held: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for each in granted:
            for holder in each.holders:
                held[holder.identity][each.object] = bits(holder.roles)
        for identity in admins:
            held[identity][CLUSTER] = Role.ADMIN.implied
        self._held: Mapping[str, Mapping[str, int]] = dict(held)
        self._anywhere = {identity: _union(on.values()) for identity, on in held.items()}
        self._databases = {identity: frozenset(map(database_of, on)) for identity, on in held.items()}

    def on(self, identity: str, name: str) -> int:
        """The bits of the roles that somebody has on an object, be they granted on it or on what it is in."""
        held = self._held.get(identity)
        if held is None:
            return 0
        return held.get(CLUSTER, 0) | held.get(database_of(name), 0) | held.get(name, 0)

    def anywhere(self, identity: str) -> int:
        """The bits of the roles that somebody has on any object."""
        return self._anywhere.get(identity, 0)

    def sees(self, identity: str, name: str) -> bool:
        """Whether somebody is told that the object is there: it has a role on it, or on a table of the database."""
        return bool(self.on(identity, name)) or ("." not in name and name in self._databases.get(identity, ()))


NOTHING = Rights()


@value
class View:
    """What a caller is shown."""

    identity: str
    rights: Rights

    def sees(self, name: str) -> bool:
        return self.rights.sees(self.identity, name)

    def has(self, role: Role, name: str = CLUSTER) -> bool:
        return bool(self.rights.on(self.identity, name) & role.bit)


def bits(roles: Iterable[Role]) -> int:
    return _union(role.implied for role in roles)


def database_of(name: str) -> str:
    """The database that a table is in; of another object its own name."""
    return name.partition(".")[0]


def called(name: str) -> str:
    """What people call an object."""
    return f"table {name}" if "." in name else f"database {name}" if name else "the cluster"


def check_object(name: str) -> str:
    """Raises InvalidArgument for what no object can be called."""
    if "." in name:
        return check_table_name(name)
    if name and not is_database_name(name):
        raise InvalidArgument(f"{name[:200]!r} is no name of a database")
    return name


def check_identity(identity: str) -> str:
    """Raises InvalidArgument for what nobody can be called; processes of the cluster need no roles."""
    short = 0 < len(identity) <= MAX_IDENTITY_CHARACTERS
    if not short or not identity.isprintable() or " " in identity or "/" in identity:
        raise InvalidArgument(
            f"identity {identity[:MAX_IDENTITY_CHARACTERS]!r}: 1 to {MAX_IDENTITY_CHARACTERS} printable characters are "
            "possible, without spaces and /"
        )
    return identity


def check_role(role: str) -> Role:
    """Raises InvalidArgument."""
    try:
        return Role(role)
    except ValueError:
        raise InvalidArgument(f"no role {role[:100]!r}; there are {', '.join(Role)}") from None


def with_role(granted: Mapping[str, Granted], name: str, table_id: str, identity: str, role: Role) -> Granted:
    """What is granted on an object once somebody has the role, too. What was granted on another table of the name is
    not granted on this one."""
    known = granted.get(name)
    holders = _by_identity(known) if known is not None and known.table_id == table_id else {}
    holders[identity] = tuple(sorted({*holders.get(identity, ()), role}, key=_place))
    return Granted(name, table_id, _holders(holders))


def without(granted: Granted, identity: str, roles: Collection[Role]) -> Granted | None:
    """What is granted on an object once somebody has the roles no more; None: nothing."""
    holders = _by_identity(granted)
    if left := tuple(role for role in holders.pop(identity, ()) if role not in roles):
        holders[identity] = left
    return Granted(granted.object, granted.table_id, _holders(holders)) if holders else None


def _by_identity(granted: Granted) -> dict[str, tuple[Role, ...]]:
    return {holder.identity: holder.roles for holder in granted.holders}


def _holders(by_identity: Mapping[str, tuple[Role, ...]]) -> tuple[Holder, ...]:
    return tuple(Holder(identity, by_identity[identity]) for identity in sorted(by_identity))


def _place(role: Role) -> int:
    return _BITS[role]


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found
