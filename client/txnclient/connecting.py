"""Connecting: a client, and the SQL that it speaks where there is no Spark."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txnclient.calls.channel import ManagerChannel, parse_addresses
from txnclient.calls.connections import Connections
from txnclient.calls.requests import checked_seconds
from txnclient.client.client import Client
from txnclient.session import Conversation, Session
from txnclient.token import Token
from txnclient.transaction.transaction import Transaction
from txnclient.write.locks import DEFAULT_LOCK_SECONDS, checked_timeout
from txnstatus.errors import InvalidArgument
from txnstatus.security import showing
from txnstatus.security.showing import ShownTicket, Shows
from txnstatus.tracing import beginning

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow as pa

DEFAULT_TIMEOUT_SECONDS = 30.0


def connect(
    addresses: str | Sequence[str],
    *,
    owner: str | None = None,
    timeout: float = DEFAULT_TIMEOUT_SECONDS,
    lock_timeout: float = DEFAULT_LOCK_SECONDS,
    credentials: str | Path | bytes | None = None,
) -> Client:
    """A client of the cluster whose nodes, any of them, are at `addresses` (`host:port`, comma-separated).

    No call is made yet. `credentials` is a directory with `ca.pem` and, of docs/security.md, a certificate and its key,
    a JSON Web Token or a secret; by default that of the variable TXN_CREDENTIALS; files that change are read again. Or
    it is a `Transaction.token()`, for a process that has nothing else and is to do what the token allows. Without
    either, connections go without TLS. `owner` names whose transactions these are: with TLS whoever the credentials
    name, and nobody else; without, by default the user, in a Spark executor the driver's. `timeout`, in seconds, is the
    deadline of each call, retries included.
    `lock_timeout`, in seconds, is how long writes wait for the locks that a table's conflict strategy has them take,
    and `lock` for its own, unless they say.

    Raises InvalidArgument.
    """
    channel = ManagerChannel(parse_addresses(addresses), Connections(tls_of(credentials)))
    return connect_over(channel, owner, timeout, lock_timeout)


def connect_over(channel: ManagerChannel, owner: str | None, timeout: float, lock_timeout: float) -> Client:
    """As `connect`, by a channel that is there."""
    beginning.begin("txnclient")
    shown = channel.connections.tls
    whose = _owner(shown, owner)
    if isinstance(shown, ShownTicket):
        channel.adopt(shown.cluster_id)
    return Client(Session(channel, whose, checked_seconds(timeout), checked_timeout(lock_timeout), DuckEngine()))


def tls_of(credentials: str | Path | bytes | None) -> Shows | None:
    """None: connections go without. Raises InvalidArgument."""
    if isinstance(credentials, bytes):
        return Token.from_bytes(credentials).shown()
    return showing.from_environment() if credentials is None else showing.within(credentials)


def _owner(shown: Shows | None, said: str | None) -> str:
    """The owner of what is begun. Raises InvalidArgument where that is somebody else than who is shown."""
    if shown is None:
        return said or default_owner()
    if said and said != shown.own.owner:
        raise InvalidArgument(f"owner {said!r} with the credentials of {shown.own}: leave owner out")
    return shown.own.owner


def default_owner() -> str:
    """Spark tells executors whose job they run."""
    return os.environ.get("SPARK_USER") or getpass.getuser()


class DuckEngine:
    """SQL by sqlglot and DuckDB, which are loaded when something is said."""

    def alone(self, client: Client, script: str, args: Mapping[str, Any] | None, label: str) -> pa.Table:
        return _sessions().alone(client, script, args, label)

    def within(self, txn: Transaction, script: str, args: Mapping[str, Any] | None) -> pa.Table:
        return _sessions().within(txn, script, args)

    def session(self, client: Client, label: str) -> Conversation:
        found: Conversation = _sessions().DuckSession(client, label)
        return found


def _sessions() -> ModuleType:
    try:
        from txnclient.ducksql import sessions
    except ImportError as error:
        raise InvalidArgument(
            f"SQL without Spark is done with sqlglot and DuckDB: {error}", hint="pip install 'txnstatus[sql]'"
        ) from None
    return sessions
