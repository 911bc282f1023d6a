"""Granting: who has which role on what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from txnclient.calls.requests import build
from txnclient.session import Session
from txnclient.showing import Shown
from txnstatus.proto import admin_pb2 as pb


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that somebody was given."""

    on: str | None
    """The name of a table or of a database; None: it is the cluster."""
    identity: str
    role: str


class Granting:
    """What a `Client` does about roles."""

    session: Session

    def grant(self, role: str, identity: str, *, on: str | None) -> None:
        """Gives somebody a role, also one who is not known yet: `identity` is what a certificate calls its user.

        `role`: "reader", "writer", "owner", "operator" or "admin". `on`: the name of a table, `database.table`; or of a
        database, where it is for all tables that there are and come; or None, the cluster. It holds on each node within
        a moment. Who has the role stays as he is. What is granted on a table ends with the table.

        Raises NotAuthorized for whom neither owns it nor is an admin of it; NotFound for a table that there is not;
        InvalidArgument; LimitReached where 10,000 are granted.
        """
        request = build(pb.GrantRequest, object=on or "", identity=identity, role=role)
        self.session.call("txnstatus.Admin/Grant", request, pb.GrantResponse)

    def revoke(self, role: str, identity: str, *, on: str | None) -> None:
        """Takes a role back that was granted on that: one that was granted on what it is in stays. A role that includes
        others goes with them, unless those were granted, too. What is begun goes on: a transaction that has written may
        commit.

        Raises as `grant` does; nothing for a role that nobody has granted.
        """
        request = build(pb.RevokeRequest, object=on or "", identity=identity, role=role)
        self.session.call("txnstatus.Admin/Revoke", request, pb.RevokeResponse)

    def grants(self, identity: str = "") -> list[Grant]:
        """Roles that were granted: the caller's, and all on what the caller owns. `identity`: only somebody's."""
        request = build(pb.ShowGrantsRequest, identity=identity)
        return Shown("Grants", "on identity role", _told(self.session, request))


def _told(session: Session, request: pb.ShowGrantsRequest) -> Iterator[Grant]:
    for each in session.call("txnstatus.Admin/ShowGrants", request, pb.ShowGrantsResponse).grants:
        yield Grant(each.object or None, each.identity, each.role)
