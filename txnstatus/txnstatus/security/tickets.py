"""Tickets: what the cluster signs of a transaction token, and how it is seen that it has.

Whoever holds one acts for the transaction's owner, in that transaction, as far as its scope goes. Nodes keep nothing of
those that they have signed: a ticket ends with its time, with its transaction, or with the key.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from google.protobuf.message import DecodeError

from txnstatus.errors import Unavailable
from txnstatus.limits import TICKET_KEY_BYTES
from txnstatus.proto import ticket_pb2 as pb
from txnstatus.security.principals import Kind, Principal, Scope
from txnstatus.security.refusals import Refused
from txnstatus.types import TxnId
from txnstatus.values import value

DEFAULT_SECONDS = 12 * 3600
MAX_SECONDS = 7 * 24 * 3600
_SIGNED = b"txnstatus ticket 1\0"
"""What is signed begins like this: nothing else that a key of these signs is a ticket."""
_NO_KEY = bytes(TICKET_KEY_BYTES)


@value
class Ticket:
    cluster_id: str
    owner: str
    """Owner of the transaction."""
    scope: Scope
    expires: int
    """Seconds since 1970."""

    @property
    def principal(self) -> Principal:
        """The one who acts by it."""
        return Principal(self.cluster_id.rpartition(".")[0], Kind.USER, self.owner, self.scope)


def sign(ticket: Ticket, number: int, key: bytes) -> bytes:
    """A SignedTicket. `number`: the key's."""
    data = pb.Ticket(
        cluster_id=ticket.cluster_id, owner=ticket.owner, scope=scope_to_wire(ticket.scope), expires=ticket.expires
    ).SerializeToString()
    return pb.SignedTicket(ticket=data, key=number, mac=_mac(key, data)).SerializeToString()


def check(shown: bytes, keys: Mapping[int, bytes], cluster_id: str, now: float) -> Ticket:
    """The ticket, if it is one of this cluster and holds. `keys`: by their numbers. `now`: seconds since 1970.

    What has been altered, is another cluster's or made up takes the same work, whichever it is. Raises Refused;
    Unavailable for one of a key that this process has not heard of yet.
    """
    signed = _signed(shown)
    if keys and signed.key > max(keys):
        raise Unavailable("this node has not heard yet of the key by which a token is signed")
    key = keys.get(signed.key)
    made = _mac(key or _NO_KEY, signed.ticket)
    if not hmac.compare_digest(made, signed.mac) or key is None:
        raise Refused("a ticket that no key of this cluster has signed")
    ticket = read(shown)
    if ticket.cluster_id != cluster_id:
        raise Refused("a ticket of another cluster")
    if ticket.expires <= now:
        raise Refused(f"a ticket of transaction {ticket.scope.txn_id} that has expired")
    return ticket


def read(shown: bytes) -> Ticket:
    """What a SignedTicket says, whoever has made it. Raises ValueError where it says nothing."""
    try:
        found = pb.Ticket.FromString(_signed(shown).ticket)
    except DecodeError:
        found = pb.Ticket()
    if not found.cluster_id:
        raise ValueError(f"{len(shown)} bytes that are no ticket")
    return Ticket(found.cluster_id, found.owner, scope_from_wire(found.scope), found.expires)


def scope_to_wire(scope: Scope) -> pb.TicketScope:
    return pb.TicketScope(
        txn_id=scope.txn_id, tables=scope.tables, appends_only=scope.appends_only, may_commit=scope.may_commit
    )


def scope_from_wire(wire: pb.TicketScope) -> Scope:
    return Scope(TxnId(wire.txn_id), tuple(wire.tables), wire.appends_only, wire.may_commit)


def _signed(shown: bytes) -> pb.SignedTicket:
    """One that says nothing, where the bytes are none."""
    try:
        return pb.SignedTicket.FromString(shown)
    except DecodeError:
        return pb.SignedTicket()


def _mac(key: bytes, ticket: bytes) -> bytes:
    return hmac.digest(key, _SIGNED + ticket, "sha256")
