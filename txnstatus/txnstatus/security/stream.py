"""TLS of one connection without its socket: bytes go in as they come, and come out as they are to be sent."""

from __future__ import annotations

import contextlib
import ssl

from txnstatus.security.principals import Principal, of_certificate, serial_of
from txnstatus.security.tls import ClientEnd, Contexts, check_process, explain

RECORD_BYTES = 1 << 14
"""Plain bytes of a TLS record, at most."""
HANDSHAKE = b"\x16"
"""The first byte of whoever begins with TLS."""
TAKES_NONE = b"\x15\x03\x03\x00\x02\x02\x46"
"""A record that ends the handshake of whoever begins with TLS where there is none: fatal, protocol version."""


class TlsStream:
    """One end. It decides who the other one is, and keeps what is for its owner apart from what is for the network."""

    def __init__(self, contexts: ClientEnd, *, serves: bool, expected: str = "") -> None:
        """`contexts`: Contexts, of one that serves. `expected`, of a client: as for `check_process`."""
        self._own, self._serves, self._expected = contexts.own, serves, expected
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = contexts.server if serves and isinstance(contexts, Contexts) else contexts.client
        self._tls = context.wrap_bio(self._in, self._out, server_side=serves)
        self.is_ready = False
        """Whether the handshake is done; a client's, that the server is who it has to be."""
        self.is_over = False
        """Whether the other side has said that nothing comes any more."""
        if not serves:
            self._shake()

    def take(self, data: bytes) -> bytes:
        """What has come for the owner. Raises Unauthenticated: the connection is over once `outgoing` is sent."""
        self._in.write(data)
        try:
            if not self.is_ready and not self._shake():
                return b""
            came = []
            while (self._in.pending or self._tls.pending()) and not self.is_over:
                came.append(self._read())
            return came[0] if len(came) == 1 else b"".join(came)
        except ssl.SSLError as error:
            raise explain(error) from error

    def seal(self, data: bytes) -> bytes:
        """The data as it is to be sent, after what is to be sent before it. Only when it is ready."""
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
        return self._out.read()

    def outgoing(self) -> bytes:
        """What is to be sent now: parts of the handshake, or why it failed."""
        return self._out.read()

    def end(self) -> bytes:
        """What is to be sent last."""
        with contextlib.suppress(ssl.SSLError):  # it waits for the other side to say so, too; or there was no handshake
            self._tls.unwrap()
        return self._out.read()

    @property
    def has_certificate(self) -> bool:
        """Whether the other side has shown one, once it is ready."""
        return self._tls.getpeercert() is not None

    @property
    def serial(self) -> int:
        """The number of the other side's certificate, once it is ready; 0: it has none."""
        return serial_of(self._tls.getpeercert())

    @property
    def principal(self) -> Principal | None:
        """Whom the other side's certificate names, once it is ready. Raises Unauthenticated where it names nobody."""
        return of_certificate(self._tls.getpeercert())

    def _shake(self) -> bool:
        """Whether the handshake is done. Raises ssl.SSLError, Unauthenticated."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        if not self._serves:
            check_process(self.principal, self._own, self._expected)
        self.is_ready = True
        return True

    def _read(self) -> bytes:
        try:
            part = self._tls.read(RECORD_BYTES)
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLZeroReturnError:
            part = b""
        self.is_over = not part
        return part
