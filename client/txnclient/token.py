"""The serialised form of a handle: what one process gives to another that is to write in the same transaction.

Layout: magic `TXN1`, CRC-32 of the rest (little-endian), then a TxnToken message. In it is a ticket that the cluster
has signed: whoever has no other credentials shows that, and may do what it allows; see docs/security.md.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from txnstatus.errors import InvalidArgument
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.security.showing import ShownTicket
from txnstatus.types import TxnId

_MAGIC = b"TXN1"
_HEADER = struct.Struct("<4sI")
_HINT = "pass the bytes of Transaction.token() as they are"


@dataclass(frozen=True, slots=True)
class Token:
    txn_id: TxnId
    keepalive_millis: int
    enable_keepalive: bool
    cluster_id: str
    ticket: bytes = field(default=b"", repr=False)
    """A SignedTicket; empty: there is none."""
    authority: bytes = field(default=b"", repr=False)
    """PEM: whose signature counts of the nodes to which it is shown; empty: they have no TLS."""
    trace: bytes = b""
    """The context of the span of the transaction; empty: it is in no trace."""

    def shown(self) -> ShownTicket | None:
        """The ticket, for whoever shows nothing else; None: nothing is wanted, where no connection has TLS.

        Raises InvalidArgument for what is no ticket.
        """
        return ShownTicket(self.ticket, self.authority) if self.ticket else None

    def to_bytes(self) -> bytes:
        payload = pb.TxnToken(
            txn_id=self.txn_id,
            keepalive_millis=self.keepalive_millis,
            enable_keepalive=self.enable_keepalive,
            cluster_id=self.cluster_id,
            ticket=self.ticket,
            authority=self.authority,
            trace=self.trace,
        ).SerializeToString()
        return _HEADER.pack(_MAGIC, zlib.crc32(payload)) + payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Token:
        """Raises InvalidArgument, saying what is wrong; no call is made."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidArgument(f"a token is bytes, not {type(data).__name__}", hint=_HINT)
        data = bytes(data)
        if not data:
            raise InvalidArgument("the token is empty", hint=_HINT)
        if not data.startswith(_MAGIC[: len(data)]):
            raise InvalidArgument(f"these {len(data)} bytes are no transaction token", hint=_HINT)
        if len(data) < _HEADER.size:
            raise InvalidArgument(f"the token is cut short: {len(data)} bytes", hint=_HINT)
        _, crc = _HEADER.unpack_from(data)
        payload = data[_HEADER.size :]
        if zlib.crc32(payload) != crc:
            raise InvalidArgument(f"the token is damaged or cut short: {len(data)} bytes", hint=_HINT)
        try:
            wire = pb.TxnToken.FromString(payload)
        except DecodeError:
            raise InvalidArgument(f"these {len(data)} bytes are no transaction token", hint=_HINT) from None
        return cls(
            TxnId(wire.txn_id),
            wire.keepalive_millis,
            wire.enable_keepalive,
            wire.cluster_id,
            wire.ticket,
            wire.authority,
            wire.trace,
        )
