"""Bearers: whom those are who have shown no certificate, by what they show in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from txnstatus.proto import rpc_pb2 as pb
from txnstatus.security import tickets
from txnstatus.security.principals import Principal
from txnstatus.security.refusals import Refused
from txnstatus.values import value


@value
class Bearer:
    """Somebody who was known by what was shown."""

    principal: Principal
    expires: float
    """Seconds since 1970: until then."""


class Bearers:
    """How a process knows them."""

    def __init__(
        self,
        cluster_id: Callable[[], str],
        ticket_keys: Callable[[], Mapping[int, bytes]],
        wall_micros: Callable[[], int],
    ) -> None:
        """`ticket_keys`: by their numbers, as this process has heard of them."""
        self._cluster_id, self._ticket_keys = cluster_id, ticket_keys
        self._wall_micros = wall_micros

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._wall_micros() / 1e6

    async def identify(self, shown: pb.Frame.Credential) -> Bearer:
        """Raises Refused; Unavailable where another process may know more."""
        match shown.WhichOneof("kind"):
            case "ticket":
                ticket = tickets.check(shown.ticket, self._ticket_keys(), self._cluster_id(), self.now)
                return Bearer(ticket.principal, ticket.expires)
            case _:
                raise Refused("a credential of a kind that is not known here")
