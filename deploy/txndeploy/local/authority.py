"""An authority of certificates, for tests and small clusters: it says who is a node, a host or a user of its cluster.

A directory with `ca.pem` and `ca-key.pem`. Whoever reads the second can be anybody.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_urlsafe

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from txndeploy.errors import ConfigError
from txnstatus.process.durable import make_directory, write_file, write_together
from txnstatus.security import principals
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.secrets import SECRET_BYTES, Hashed
from txnstatus.security.showing import SECRET
from txnstatus.security.tls import TlsFiles

CERTIFICATE, KEY = "ca.pem", "ca-key.pem"
PUBLIC, PRIVATE = 0o666, 0o600
"""Permissions of files, less the umask: those of a key are for its owner's eyes alone."""
DAYS = 365
AUTHORITY_DAYS = 3_650
SKEW = timedelta(minutes=5)
"""How far clocks may be behind the authority's."""


@dataclass(frozen=True, slots=True)
class Authority:
    cluster: str
    """The name of the cluster, `cluster_name` in the nodes' configurations."""
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def found(cls, cluster: str, directory: Path) -> Authority:
        """A new one. Raises ConfigError where there is one already, or the name cannot be a cluster's."""
        if (directory / KEY).exists():
            raise ConfigError(f"{directory} has an authority already: certificates of a second one would not hold")
        if principals.parse(f"spiffe://{cluster}/user/x") is None:
            raise ConfigError(f"{cluster!r} cannot be a cluster's name")
        key = ec.generate_private_key(ec.SECP256R1())
        built = (
            _builder(cluster, key.public_key(), AUTHORITY_DAYS)
            .issuer_name(_name(cluster))
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"spiffe://{cluster}")]), False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
            .add_extension(_usage(signs_certificates=True), True)
        )
        authority = cls(cluster, built.sign(key, hashes.SHA256()), key)
        make_directory(directory)
        write_together([(directory / KEY, _pem(key), PRIVATE), (directory / CERTIFICATE, authority.pem, PUBLIC)])
        return authority

    @classmethod
    def load(cls, directory: Path) -> Authority:
        """Raises ConfigError."""
        try:
            certificate = x509.load_pem_x509_certificate((directory / CERTIFICATE).read_bytes())
            key = load_pem_private_key((directory / KEY).read_bytes(), None)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            (uri,) = names.get_values_for_type(x509.UniformResourceIdentifier)
        except (OSError, ValueError, TypeError, x509.ExtensionNotFound) as error:
            raise ConfigError(f"{directory} has no authority that txnctl cert ca has made: {error}") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"{directory / KEY} is no key of an elliptic curve")
        return cls(uri.removeprefix("spiffe://"), certificate, key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self, kind: Kind, name: str, directory: Path, *, hosts: Iterable[str] = (), days: float = DAYS
    ) -> Principal:
        """Writes `ca.pem`, `certificate.pem` and `key.pem`, in place of those that are there. `hosts`: names and
        addresses at which the process is reached, for clients of gRPC. Raises ConfigError."""
        principal = Principal(self.cluster, kind, name)
        if principals.parse(principal.uri) != principal:
            raise ConfigError(f"{name!r} cannot be the name of a {kind}")
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.UniformResourceIdentifier(principal.uri), *map(_host, hosts)]
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if principal.is_process:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        built = (
            _builder(name, key.public_key(), days)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.SubjectAlternativeName(names), False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(_usage(signs_certificates=False), True)
            .add_extension(x509.ExtendedKeyUsage(uses), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), False)
        )
        make_directory(directory)
        files = TlsFiles.within(directory)
        certificate = built.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)
        write_together(
            [
                (files.authority, self.pem, PUBLIC),
                (files.key, _pem(key), PRIVATE),
                (files.certificate, certificate, PUBLIC),
            ]
        )
        return principal


def make_secret(name: str, authority: Path, directory: Path, hashed: Path) -> None:
    """Draws the secret of a user: `ca.pem` and `secret` in a directory, and its line in the nodes' file of hashed ones.

    `authority`: a directory with `ca.pem`. Raises ConfigError.
    """
    if not principals.is_name(name):
        raise ConfigError(f"{name!r} cannot be the name of a {Kind.USER}")
    secret = token_urlsafe(SECRET_BYTES)
    try:
        pem = (authority / CERTIFICATE).read_bytes()
        there = hashed.read_text().splitlines() if hashed.exists() else []
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read: {error.strerror}") from error
    others = [line for line in there if line.rsplit(":", 3)[0] != name]
    make_directory(directory)
    write_file(directory / CERTIFICATE, pem)
    write_file(directory / SECRET, f"{name}:{secret}\n".encode(), PRIVATE)
    write_file(hashed, "".join(f"{line}\n" for line in [*others, Hashed.of(secret).line(name)]).encode(), PRIVATE)


def _builder(name: str, key: ec.EllipticCurvePublicKey, days: float) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
