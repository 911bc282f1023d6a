"""TLS 1.3 of a process: contexts made of its files, which are read again when they change.

A connection that there is keeps what it was made with; the next one has the new certificate, key and authorities.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txnstatus.errors import InvalidArgument, Unauthenticated
from txnstatus.security.principals import Kind, Principal, of_certificate

log = logging.getLogger(__name__)

VARIABLE = "TXN_CREDENTIALS"
"""Environment variable with a directory of credentials."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files."""

    authority: Path
    """Certificates of those whose signature counts; several while one follows the other."""
    certificate: Path
    """The process's own, and those between it and an authority."""
    key: Path

    @classmethod
    def within(cls, directory: Path) -> TlsFiles:
        return cls(directory / "ca.pem", directory / "certificate.pem", directory / "key.pem")

    def paths(self) -> tuple[Path, Path, Path]:
        return (self.authority, self.certificate, self.key)


@dataclass(frozen=True, slots=True)
class Expiry:
    """Until when what the files have holds, in seconds since 1970."""

    own: float
    authority: float
    """The end of the one that ends first."""


@dataclass(frozen=True, slots=True)
class ClientEnd:
    """What whoever connects goes by."""

    own: Principal
    client: ssl.SSLContext
    authority: bytes
    """PEM: those whose signature counts."""


@dataclass(frozen=True, slots=True)
class Contexts(ClientEnd):
    """What the files say at one time."""

    server: ssl.SSLContext
    certificate: bytes
    key: bytes = field(repr=False)
    expires: Expiry


REPLACED_SECONDS = 3.0
"""Files that changed so lately may be half way replaced: a certificate and its key are two files."""

_Signs = tuple[tuple[int, int, int], ...]
"""Inode, time and size of each file: by them it is seen that it is another one. The time is that of the last change of
its inode: a file that takes the name of another one may have been written long before."""


class Tls:
    """The TLS of a process, which has one for as long as it runs. Safe to use from many threads."""

    def __init__(self, files: TlsFiles) -> None:
        """Raises InvalidArgument, naming the file that cannot be used. Waits for files that are being replaced."""
        self._files = files
        self._lock = threading.Lock()
        self._signs, self._contexts = _load_first(files)
        self._failed = self._signs

    @property
    def own(self) -> Principal:
        """Whom the certificate names, as it was read last."""
        return self._contexts.own

    is_secure = True

    def credential(self) -> None:
        """Nothing is shown in place of the certificate."""

    def after_fork(self) -> None:
        """Another thread may have held the lock."""
        self._lock = threading.Lock()

    def contexts(self) -> Contexts:
        """For a new connection. Files that do not go together are left for later: they may be half way written."""
        with self._lock:
            signs = self._signs
            try:
                signs = _signs(self._files)
                if signs not in (self._signs, self._failed):
                    self._failed = signs
                    found = _load(self._files)
                    if _signs(self._files) != signs:
                        return self._contexts  # it is being written: the next connection looks again
                    self._take_up(found)
                    self._signs = signs
            except InvalidArgument as error:
                log.warning("the certificates from before stay in use: %s", error.message)
            return self._contexts

    def _take_up(self, found: Contexts) -> None:
        """Raises InvalidArgument: a process does not become another one."""
        if found.own != self._contexts.own:
            raise InvalidArgument(f"{self._files.certificate} names {found.own}; this is {self._contexts.own}")
        self._contexts = found
        log.info("the certificates of %s were read again", found.own)


def within(directory: str | Path) -> Tls:
    """TLS by the `ca.pem`, `certificate.pem` and `key.pem` in a directory. Raises InvalidArgument."""
    return Tls(TlsFiles.within(Path(directory)))


class _Latest(ssl.SSLContext):
    """A context that makes what it is asked for by the files of then."""

    files: Tls

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self.files.contexts().server.wrap_bio(*arguments, **options)


def latest(files: Tls) -> ssl.SSLContext:
    """A server's context for loops, which take one for good: each connection has what the files say by then."""
    found = _Latest(ssl.PROTOCOL_TLS_SERVER)
    found.files = files
    return found


def from_environment() -> Tls | None:
    """None: the variable is not set. Raises InvalidArgument."""
    directory = os.environ.get(VARIABLE)
    return within(directory) if directory else None


def check_cluster_of(found: Principal | None, own: Principal) -> None:
    """Whether who calls is of this process's cluster. Raises Unauthenticated."""
    if found is None or found.cluster != own.cluster:
        raise Unauthenticated(f"{found or 'nobody'} is not of cluster {own.cluster}")


def check_process(found: Principal | None, own: Principal, expected: str = "") -> None:
    """Whether who answers is who it has to be: the process `expected`, `node/n1` say; empty: any node of the cluster,
    or of any where it is not said of which `own` is.

    Raises Unauthenticated; its sentence begins after the other side's address.
    """
    is_right = found is not None and (found.owner == expected if expected else found.kind is Kind.NODE)
    if found is None or not is_right or found.cluster != (own.cluster or found.cluster):
        raise Unauthenticated(f"it is {found or 'nobody'}, and not {expected or 'a node'} of cluster {own.cluster}")


def explain(error: ssl.SSLError) -> Unauthenticated:
    """What has become of a handshake; the sentence begins after the other side's address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unauthenticated(f"its certificate does not hold: {error.verify_message}", hint=_HINT)
    told = _ALERTS.get(error.reason or "", f"TLS fails: {error.reason or error}")
    return Unauthenticated(told, hint=_HINT)


_HINT = "what certificates have to be like: docs/security.md"
_ALERTS = {
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of the certificate it was shown",
    "TLSV1_ALERT_DECRYPT_ERROR": "it does not know the authority of the certificate it was shown",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate that it was shown has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the certificate that it was shown is revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the certificate that it was shown is not valid yet by its clock, or not in order",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not accept the certificate it was shown",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "the certificate that it was shown is not for this use",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants to be shown a certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it does not take TLS 1.3",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
}
"""Reasons as OpenSSL names them. In TLS 1.3 a server says what it thinks of a certificate after the client is done."""


def _signs(files: TlsFiles) -> _Signs:
    found = []
    for path in files.paths():
        try:
            stat = path.stat()
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error
        found.append((stat.st_ino, stat.st_ctime_ns, stat.st_size))
    return tuple(found)


def _load_first(files: TlsFiles) -> tuple[_Signs, Contexts]:
    """Raises InvalidArgument for files that do not go together, at once where none of them is new."""
    deadline = time.monotonic() + REPLACED_SECONDS
    while True:
        try:
            signs = _signs(files)
            found = _load(files)
            if _signs(files) == signs:
                return signs, found
        except InvalidArgument:
            if abs(time.time() - _changed(files)) > REPLACED_SECONDS or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _changed(files: TlsFiles) -> float:
    """When one of the files was changed last, or went away or came; 0: there is nothing."""
    found = [0.0]
    for path in (*files.paths(), *{path.parent for path in files.paths()}):
        with contextlib.suppress(OSError):
            found.append(path.stat().st_ctime)
    return max(found)


def _load(files: TlsFiles) -> Contexts:
    server = _context(files, ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = ssl.CERT_OPTIONAL  # whoever listens says what one without may do
    server.num_tickets = 0  # nobody resumes; and what rests has nothing to read
    (shown, end), client = _shown(files, server), _context(files, ssl.PROTOCOL_TLS_CLIENT)
    try:
        authority, certificate, key = (path.read_bytes() for path in files.paths())
    except OSError as error:
        raise InvalidArgument(f"{error.filename} cannot be read: {error.strerror}") from error
    expires = Expiry(end, min(map(_end, server.get_ca_certs())))
    return Contexts(shown, client, authority, server, certificate, key, expires)


def bare(protocol: int) -> ssl.SSLContext:
    """A context that trusts nobody and shows nothing."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # a process is known by its name, wherever it is reached: see check_process
    return context


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    context = bare(protocol)
    try:
        context.load_verify_locations(files.authority)
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        raise InvalidArgument(f"{files.authority} has no certificates of an authority: {_why(error)}") from error
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise InvalidArgument(
            f"{files.certificate} and {files.key} are no certificate and its key: {_why(error)}",
            hint="both are PEM files, and the key has no password",
        ) from error
    return context


def _no_password() -> str:
    """Without it OpenSSL asks at the terminal."""
    raise ValueError("the key has a password")


def _shown(files: TlsFiles, server: ssl.SSLContext) -> tuple[Principal, float]:
    """Whom others will take this process for, and until when: it shows its certificate to itself. Raises
    InvalidArgument."""
    client = _context(files, ssl.PROTOCOL_TLS_CLIENT)
    client.verify_mode = ssl.CERT_NONE
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    shows, looks = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    try:
        for end in (shows, looks, shows, looks):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
        certificate = looks.getpeercert()
        found = of_certificate(certificate)
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "verify_message", "") or _why(error)
        raise InvalidArgument(f"{files.certificate} does not hold by {files.authority}: {why}") from error
    except Unauthenticated as error:
        raise InvalidArgument(f"{files.certificate}: {error.message}", hint=error.hint) from error
    assert certificate is not None, "a handshake without a certificate fails"
    assert found is not None
    return found, _end(certificate)


def _end(certificate: Mapping[str, Any]) -> float:
    return ssl.cert_time_to_seconds(certificate["notAfter"])


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
