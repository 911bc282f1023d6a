"""What a process shows to those that it calls, and by what it knows them: a certificate, or a transaction's token."""

from __future__ import annotations

import ssl
from typing import Protocol

from txnstatus.errors import InvalidArgument
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.security import tickets
from txnstatus.security.principals import Principal
from txnstatus.security.tls import ClientEnd, bare


class Shows(Protocol):
    """`Tls` is one."""

    @property
    def own(self) -> Principal:
        """The one that it is."""

    @property
    def is_secure(self) -> bool:
        """Whether its connections have TLS."""

    def contexts(self) -> ClientEnd:
        """For a new connection, which has TLS."""

    def credential(self) -> pb.Frame.Credential | None:
        """The first that is said over a new connection; None: a certificate is shown."""

    def after_fork(self) -> None: ...


class ShownTicket:
    """A ticket of a transaction, in place of a certificate. Safe to use from many threads."""

    def __init__(self, ticket: bytes, authority: bytes) -> None:
        """`authority`: PEM, whose signature counts of nodes; empty: they have no TLS. Raises InvalidArgument."""
        self.ticket, self.authority = ticket, authority
        try:
            found = tickets.read(ticket)
        except ValueError as error:
            raise InvalidArgument(str(error)) from None
        self.cluster_id = found.cluster_id
        self._end = ClientEnd(found.principal, bare(ssl.PROTOCOL_TLS_CLIENT), authority)
        if authority:
            try:
                self._end.client.load_verify_locations(cadata=authority.decode())
            except (ValueError, ssl.SSLError):
                raise InvalidArgument("the token names no authority of certificates") from None

    def __repr__(self) -> str:
        return f"<a ticket of {self.own}>"

    @property
    def own(self) -> Principal:
        return self._end.own

    @property
    def is_secure(self) -> bool:
        return bool(self.authority)

    def contexts(self) -> ClientEnd:
        return self._end

    def credential(self) -> pb.Frame.Credential:
        return pb.Frame.Credential(ticket=self.ticket)

    def after_fork(self) -> None:
        pass
