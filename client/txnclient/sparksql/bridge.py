"""The socket over which Spark's JVM asks: on loopback, a connection a call, a line of JSON each way.

It is one for all catalogs of this process. Who calls knows the token, which Spark's configuration holds and redacts.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import socketserver
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from txnclient.sparksql import failures
from txnstatus.errors import IllegalState, NotAuthorized, TxnError

log = logging.getLogger(__name__)

Request = dict[str, Any]
"""What a call says, and what its answer does where it is more than one thing."""
Answers = Callable[[str, Request], Any]
"""What answers the calls of one catalog: method, request → what JSON can say. It may raise."""
MAX_REQUEST_BYTES = 1 << 30
SILENCE_SECONDS = 30.0
"""Seconds within which a connection's request comes."""


class Address(NamedTuple):
    port: int
    token: str


_lock = threading.Lock()
_known: set[str] = set()
"""The catalogs that this process has served."""
_serving: dict[int, tuple[Address, dict[str, Answers]]] = {}
"""The server of this process, by its id: a fork's has none."""


def serve(catalog: str, answers: Answers) -> Address:
    """From now on calls for this catalog are answered."""
    with _lock:
        if os.getpid() not in _serving:
            _serving[os.getpid()] = _start()
        address, catalogs = _serving[os.getpid()]
        catalogs[catalog] = answers
        _known.add(catalog)
        return address


def stop(catalog: str) -> None:
    """Calls for it are refused from now on."""
    with _lock:
        if found := _serving.get(os.getpid()):
            found[1].pop(catalog, None)


def is_served(catalog: str) -> bool:
    with _lock:
        found = _serving.get(os.getpid())
        return found is not None and catalog in found[1]


def was_served(catalog: str) -> bool:
    """Whether it has ever been served by this process."""
    with _lock:
        return catalog in _known


def _start() -> tuple[Address, dict[str, Answers]]:
    catalogs: dict[str, Answers] = {}
    token = secrets.token_hex()

    class Call(socketserver.StreamRequestHandler):
        timeout = SILENCE_SECONDS

        def handle(self) -> None:
            try:
                line = self.rfile.readline(MAX_REQUEST_BYTES)
                self.wfile.write(json.dumps(_answered(line, token, catalogs)).encode() + b"\n")
            except OSError as error:  # whoever asked is gone
                log.warning("a call of Spark's ended early: %s", error)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Call)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="txn-catalog", daemon=True).start()
    return Address(server.server_address[1], token), catalogs


def _answered(line: bytes, token: str, catalogs: dict[str, Answers]) -> dict[str, Any]:
    try:
        call = json.loads(line)
        if not hmac.compare_digest(str(call["token"]).encode(), token.encode()):
            raise NotAuthorized("the call's token is not that of this process")
        answers = catalogs.get(call["catalog"])
        if answers is None:
            raise IllegalState("the catalog is detached", hint="attach it again: txnclient.sparksql.attach")
        return {"answer": answers(call["method"], call["request"])}
    except Exception as error:  # noqa: BLE001 it is the statement's that made the call, and raised there
        code = error.code if isinstance(error, TxnError) else ""
        told = {"ticket": failures.keep(error), "kind": type(error).__name__, "code": code, "message": str(error)}
        return {"error": told}
