"""Bearers: whom those are who have shown no certificate, by what they show in its place."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from txnstatus.proto import rpc_pb2 as pb
from txnstatus.security import tickets
from txnstatus.security.principals import Kind, Principal, is_name
from txnstatus.security.refusals import Refused
from txnstatus.values import value

if TYPE_CHECKING:
    from txnstatus.security.jwts import Jwts
    from txnstatus.security.secrets import Secrets

AT_ONCE = 2
"""Secrets that are hashed at one time: strangers keep no more of the process's cores busy."""


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
        cluster: str = "",
        blocking: Executor | None = None,
        jwts: Jwts | None = None,
        secrets: Secrets | None = None,
    ) -> None:
        """`ticket_keys`: by their numbers, as this process has heard of them. `cluster`: its name, for those who are
        known by `jwts` and `secrets`; None: nobody is. `blocking`: threads for what takes long."""
        self._cluster_id, self._ticket_keys = cluster_id, ticket_keys
        self._wall_micros = wall_micros
        self._cluster, self._blocking, self._jwts, self._secrets = cluster, blocking, jwts, secrets
        self._hashing = asyncio.Semaphore(AT_ONCE)

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
            case "jwt" if self._jwts is not None:
                named = self._jwts.check(shown.jwt, self.now)
                return Bearer(self._user(named.name), named.expires)
            case "secret" if self._secrets is not None:
                name, secret = shown.secret.name, shown.secret.secret
                async with self._hashing:
                    await asyncio.get_running_loop().run_in_executor(self._blocking, self._secrets.check, name, secret)
                return Bearer(self._user(name), math.inf)
            case _:
                raise Refused("a credential of a kind that is not taken here")

    def _user(self, name: str) -> Principal:
        if not is_name(name):
            raise Refused("a credential of a name that no user can have")
        return Principal(self._cluster, Kind.USER, name)
