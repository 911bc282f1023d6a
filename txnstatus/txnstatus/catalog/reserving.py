"""Places in which somebody makes a table right now: nobody else makes one in them, above them, or below them.

Tables that are there are known to their shards. What is in the catalog is only who is about to make one, so that two
that look at the same moment do not both find the place free.
"""

from __future__ import annotations

from collections.abc import Sequence

from txnstatus.codec import Codec
from txnstatus.errors import InvalidArgument, LimitReached
from txnstatus.names import check_table_name
from txnstatus.proto import catalog_pb2 as pb
from txnstatus.roles import check_identity
from txnstatus.values import value

MAX_RESERVED = 1_000
"""Tables that are made at one moment: the catalog is one value, which every node keeps."""
MAX_NUMBER = 100
"""Characters of a reservation's number."""
MAX_PLACE = 4_096
"""Characters of a place: no file system and no store takes more."""


@value
class Reservation:
    """One try to make a table."""

    number: str
    """Drawn by chance: no other try has it."""
    owner: str
    table: str
    place: tuple[str, ...]
    """Scheme, host, and each part of the path."""
    leads_to: tuple[str, ...]
    """The place through links."""

    def is_in_the_way(self, wanted: Reservation) -> bool:
        """Whether it is somebody else's, and one of the two places is in the other."""
        meets = _overlap(self.place, wanted.place) or _overlap(self.leads_to, wanted.leads_to)
        return meets and self.owner != wanted.owner


Reserved = tuple[Reservation, ...]
_CODEC = Codec[Reservation, pb.CatalogState.Reservation](Reservation, pb.CatalogState.Reservation)
to_wire, from_wire = _CODEC.to_wire, _CODEC.from_wire


def with_reservation(reserved: Reserved, wanted: Reservation, ended: Sequence[str]) -> Reserved:
    """`ended`: numbers of those that have come to nothing. Raises InvalidArgument, LimitReached."""
    check_identity(wanted.owner)
    check_table_name(wanted.table)
    if not 0 < len(wanted.number) <= MAX_NUMBER:
        raise InvalidArgument(f"the number of a reservation has 1 to {MAX_NUMBER} characters, not {len(wanted.number)}")
    for place in (wanted.place, wanted.leads_to):
        if len(place) < 2:
            raise InvalidArgument("a place has a scheme and a host")
        if (size := sum(map(len, place)) + len(place)) > MAX_PLACE:
            raise InvalidArgument(f"a location of {size} characters: MAX_PLACE = {MAX_PLACE} are possible")
    left = tuple(each for each in reserved if each.number not in ended)
    if wanted in left:
        return left
    if any(each.number == wanted.number for each in left):
        raise InvalidArgument(f"another reservation has the number {wanted.number!r}")
    if any(each.is_in_the_way(wanted) for each in left):
        raise InvalidArgument(
            f"the location of {wanted.table} is not free: somebody else makes a table there",
            hint="choose another one; or ask again in a minute: if nothing has come of that, it is free then",
        )
    if len(left) >= MAX_RESERVED:
        raise LimitReached(
            f"{len(left)} tables with a location are being made: MAX_RESERVED = {MAX_RESERVED} are possible",
            hint="ask again in a minute",
        )
    return (*left, wanted)


def without_reservation(reserved: Reserved, number: str) -> Reserved:
    return tuple(each for each in reserved if each.number != number)


def _overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    common = min(len(one), len(other))
    return one[:common] == other[:common]
