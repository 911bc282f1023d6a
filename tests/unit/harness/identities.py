"""Who is who, for tests of TLS: an authority, and credentials of whoever is named."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from tests.unit.harness.answering import SECONDS, STATE
from txnclient.aio import stepping
from txnclient.aio.lines import Lines
from txnclient.calls.channel import ManagerChannel
from txnclient.calls.connections import Connections
from txndeploy.local.authority import Authority
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.security import tls
from txnstatus.security.principals import Kind
from txnstatus.security.tls import Tls

CLUSTER = "air"
REQUEST = pb.GetTransactionStateRequest(txn_id=2)


class Identities:
    """Credentials of one authority."""

    def __init__(self, directory: Path, cluster: str = CLUSTER) -> None:
        self.directory = directory
        self.authority = Authority.found(cluster, directory / "authority")
        self._made: dict[tuple[str, str], Tls] = {}

    @property
    def authority_file(self) -> Path:
        return self.directory / "authority" / "ca.pem"

    def files(self, kind: Kind, name: str, days: float = 1.0) -> Path:
        """A directory with credentials that nobody else has."""
        where = self.directory / f"{kind}-{name}"
        self.authority.issue(kind, name, where, days=days)
        return where

    def node(self, name: str = "n1") -> Tls:
        return self._of(Kind.NODE, name)

    def host(self, name: str = "billing") -> Tls:
        return self._of(Kind.HOST, name)

    def user(self, name: str = "alice") -> Tls:
        return self._of(Kind.USER, name)

    def _of(self, kind: Kind, name: str) -> Tls:
        if (kind, name) not in self._made:
            self._made[kind, name] = tls.within(self.files(kind, name))
        return self._made[kind, name]


def trusting(where: Path, *others: Authority) -> Tls:
    """The credentials in a directory, whose owner trusts other authorities, too."""
    with (where / "ca.pem").open("ab") as file:
        for other in others:
            file.write(other.pem)
    return tls.within(where)


async def blocking(shown: Tls | None, address: str) -> int:
    """What a blocking client hears, in a thread of its own."""
    channel = ManagerChannel([address], Connections(shown))
    try:
        answer = await asyncio.to_thread(channel.call, STATE, REQUEST, pb.GetTransactionStateResponse, timeout=SECONDS)
    finally:
        channel.close()
    return answer.txn.txn_id


async def awaiting(shown: Tls | None, address: str) -> int:
    """What a client of asyncio hears."""
    lines = Lines(shown)
    channel = ManagerChannel([address], lines)
    try:
        answer = await stepping.run(
            lambda: channel.call(STATE, REQUEST, pb.GetTransactionStateResponse, timeout=SECONDS)
        )
    finally:
        lines.hang_up()
    return answer.txn.txn_id


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"
