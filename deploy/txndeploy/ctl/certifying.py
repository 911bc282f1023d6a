"""The commands of `txnctl` that make certificates, for tests and small clusters, and that revoke those of whomever."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from cryptography.x509 import load_pem_x509_certificate

import txnclient
from txndeploy.errors import ConfigError
from txndeploy.local.authority import AUTHORITY_DAYS, DAYS, Authority, make_secret
from txndeploy.terminal.commands import ClusterOption, TimeoutOption, tells_errors
from txndeploy.terminal.output import console, plain
from txnstatus.proto import admin_pb2
from txnstatus.revocation import of_serial
from txnstatus.security.principals import Kind

commands = typer.Typer(rich_markup_mode=None)
cert_app = typer.Typer(
    help="Certificates: an authority, those that it issues, and what counts no more.", no_args_is_help=True
)
commands.add_typer(cert_app, name="cert")

AuthorityOption = Annotated[Path, typer.Option("--ca", help="The authority's directory.")]
OutOption = Annotated[Path, typer.Option("--out", help="Where ca.pem, certificate.pem and key.pem go.")]
DaysOption = Annotated[float, typer.Option(help="How long the certificate holds, from now on.")]
HostOption = Annotated[
    list[str] | None,
    typer.Option("--host", help="A name or address where gRPC clients reach it; several are possible."),
]


@cert_app.command("ca")
@tells_errors
def cert_ca(
    cluster: Annotated[str, typer.Argument(help="The cluster's name, as `cluster_name` in the configurations.")],
    directory: Annotated[Path, typer.Option("--out", help="Where ca.pem and ca-key.pem go.")],
) -> None:
    """Make an authority. Keep its directory where no node and no program reads it."""
    Authority.found(cluster, directory)
    console().print(f"An authority of cluster {plain(cluster)} is in {plain(str(directory))}.", soft_wrap=True)


@cert_app.command("node")
@tells_errors
def cert_node(
    name: Annotated[str, typer.Argument(help="The node's `node_id`.")],
    ca: AuthorityOption,
    out: OutOption,
    host: HostOption = None,
    days: DaysOption = DAYS,
) -> None:
    """Issue a node's certificate; again, in its place, before it expires. A node that runs notices."""
    _issue(Kind.NODE, name, ca, out, host or (), days)


@cert_app.command("host")
@tells_errors
def cert_host(
    name: Annotated[str, typer.Argument(help="The foreign participant's name.")],
    ca: AuthorityOption,
    out: OutOption,
    days: DaysOption = DAYS,
) -> None:
    """Issue the certificate of a foreign participant's host."""
    _issue(Kind.HOST, name, ca, out, (), days)


@cert_app.command("user")
@tells_errors
def cert_user(
    name: Annotated[str, typer.Argument(help="Whom transactions are to name as their owner.")],
    ca: AuthorityOption,
    out: OutOption,
    days: DaysOption = DAYS,
) -> None:
    """Issue the certificate of a person or a program."""
    _issue(Kind.USER, name, ca, out, (), days)


@cert_app.command("secret")
@tells_errors
def cert_secret(
    name: Annotated[str, typer.Argument(help="Whom transactions are to name as their owner.")],
    authority: Annotated[Path, typer.Option("--ca", help="A directory with the ca.pem by which nodes are known.")],
    out: Annotated[Path, typer.Option("--out", help="Where ca.pem and secret go, for the user.")],
    secrets: Annotated[Path, typer.Option("--secrets", help="The nodes' file, to which the hashed one is added.")],
) -> None:
    """Draw a secret of a user, in place of a certificate; in place of the one that there was."""
    make_secret(name, authority, out, secrets)
    console().print(f"The secret of {plain(name)} is in {plain(str(out))}; {plain(str(secrets))} goes to all nodes.")


@cert_app.command("revoke")
@tells_errors
def cert_revoke(
    cluster: ClusterOption,
    what: Annotated[str, typer.Argument(help="user/NAME, host/NAME, node/NAME, or a certificate's file.")],
    restore: Annotated[bool, typer.Option("--restore", help="It counts again.")] = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Have a name, or one certificate, count no more. Connections that it has end."""
    named = _certificate(Path(what)) if Path(what).is_file() else what
    _tell_revoked(cluster, named, timeout, restores=restore)
    counts = "counts again" if restore else "counts no more"
    console().print(f"{plain(named)} {counts}.", soft_wrap=True)


@cert_app.command("revoked")
@tells_errors
def cert_revoked(cluster: ClusterOption, timeout: TimeoutOption = 10.0) -> None:
    """List what counts no more."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    for what in answer.catalog.revoked:
        console().print(plain(what), soft_wrap=True)


def _tell_revoked(cluster: str, what: str, timeout: float, *, restores: bool) -> None:
    with txnclient.connect(cluster, timeout=timeout) as client:
        request = admin_pb2.DistrustRequest(what=what, restores=restores)
        client.call("txnstatus.Admin/Distrust", request, admin_pb2.DistrustResponse)


def _certificate(file: Path) -> str:
    """The first certificate of a PEM file, as it is revoked. Raises ConfigError."""
    try:
        return of_serial(load_pem_x509_certificate(file.read_bytes()).serial_number)
    except ValueError as error:
        raise ConfigError(f"{file} has no certificate: {error}") from error


def _issue(kind: Kind, name: str, ca: Path, out: Path, hosts: list[str] | tuple[()], days: float) -> None:
    if not 0 < days <= AUTHORITY_DAYS:
        raise ConfigError(f"a certificate for {days:g} days: above 0, and up to {AUTHORITY_DAYS}, are possible")
    principal = Authority.load(ca).issue(kind, name, out, hosts=hosts, days=days)
    console().print(f"{plain(principal.uri)} is in {plain(str(out))}, for {days:g} days.", soft_wrap=True)
