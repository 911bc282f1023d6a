"""Serialised handles: what a transaction gives to other processes that are to work for it."""

from __future__ import annotations

from collections.abc import Iterable

from txnclient.calls.requests import build, names_of
from txnclient.handle import Handle
from txnclient.token import Token
from txnstatus.errors import InvalidArgument
from txnstatus.proto import ticket_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.security.showing import ShownTicket


class Serialised:
    """What a `Transaction` does of that."""

    handle: Handle

    def token(
        self,
        *,
        enable_keepalive: bool = False,
        tables: Iterable[str] | None = None,
        appends_only: bool = False,
        may_commit: bool = True,
        seconds: int = 0,
    ) -> bytes:
        """The serialised handle, for `Client.join` in another process. The same bytes every time, whatever happened.

        By default the joined handle does not beat: whoever began the transaction goes on keeping it alive.

        In a cluster with TLS it is a credential, too: `connect(addresses, credentials=token)` needs no other, and does
        in the transaction's name what the token allows, and nothing else. That is all of the transaction, or what is
        done to `tables`, one at least; with `appends_only` files are staged and added, rows inserted, and nothing is
        read, replaced or deleted; without `may_commit` its holder does not end it, either way. It holds for so many
        `seconds`, 0 for twelve hours, and is good for nothing once the transaction has ended. Whoever has joined by a
        token passes on the rights of that one. Without TLS nobody is asked who it is, and a token restricts nobody.

        Raises InvalidArgument; NotAuthorized where the transaction is another owner's; with TLS what a call raises.
        """
        handle, names = self.handle, names_of(() if tables is None else tables)
        if tables is not None and not names:
            raise InvalidArgument("tables = []: a token for no table would be one for all", hint="tables=None for all")
        scope = ticket_pb2.TicketScope(txn_id=handle.id, tables=names, appends_only=appends_only, may_commit=may_commit)
        ticket, authority = self._ticket(scope, seconds)
        cluster_id = handle.session.cluster_id
        trace = handle.trace.context if handle.trace is not None else b""
        token = Token(handle.id, handle.keepalive_millis, enable_keepalive, cluster_id, ticket, authority, trace)
        return token.to_bytes()

    def _ticket(self, scope: ticket_pb2.TicketScope, seconds: int) -> tuple[bytes, bytes]:
        """What the token shows to nodes, and whose signatures count of them."""
        handle, shown = self.handle, self.handle.session.channel.connections.tls
        if shown is None:
            return b"", b""
        if isinstance(shown, ShownTicket):
            return shown.ticket, shown.authority
        asked = build(pb.IssueTicketRequest, txn_id=handle.id, owner=handle.owner, scope=scope, seconds=seconds)
        key = asked.SerializeToString(deterministic=True)
        if key not in handle.tickets:
            answer = handle.session.call("txnstatus.TxnManager/IssueTicket", asked, pb.IssueTicketResponse)
            handle.tickets[key] = answer.ticket
        return handle.tickets[key], shown.contexts().authority
