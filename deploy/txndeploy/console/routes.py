"""The console over HTTP: its page, which is a few files of this package, the documents that the page shows, and aborts.

Nothing is loaded from elsewhere, and a browser is told to run what lies here only. Whatever is asked is asked in the
name of whoever shows a certificate, and may do what that one may do. Where there is no TLS, nothing can be changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http import HTTPStatus
from importlib import resources
from typing import Any

from aiohttp import web

from txnclient import Client
from txnclient.connecting import connect_over
from txndeploy.console import answers
from txndeploy.console.answers import Ask
from txndeploy.console.inside import Inside
from txndeploy.console.kept import Kept
from txndeploy.terminal.output import as_json
from txnstatus.errors import (
    Forgotten,
    IllegalState,
    InternalError,
    InvalidArgument,
    NotAuthorized,
    NotFound,
    TxnError,
)
from txnstatus.measures import Measures
from txnstatus.rpc.connection import is_loopback
from txnstatus.rpc.server import Registry
from txnstatus.security.principals import Principal
from txnstatus.security.tls import Tls

log = logging.getLogger(__name__)

PREFIX = "/console/"
API = f"{PREFIX}api/"
PAGE = {
    "": ("index.html", "text/html"),
    "console.css": ("console.css", "text/css"),
    "console.js": ("console.js", "text/javascript"),
    "pages.js": ("pages.js", "text/javascript"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SECONDS = 3.0
"""Time that a call has."""
LOCK_SECONDS = 1.0
THREADS = 2
MOST_KEPT = 64
FRESH_SECONDS, TABLES_SECONDS = 1.0, 10.0
"""Time for which a document is not asked for again; that of tables reads manifests."""
MAX_BODY_BYTES = 4_096
ID = r"{id:\d{1,18}}"
STATUS: Mapping[type[TxnError], HTTPStatus] = {
    NotFound: HTTPStatus.NOT_FOUND,
    Forgotten: HTTPStatus.NOT_FOUND,
    InvalidArgument: HTTPStatus.BAD_REQUEST,
    NotAuthorized: HTTPStatus.FORBIDDEN,
    IllegalState: HTTPStatus.CONFLICT,
}
DOCUMENTS: Mapping[str, tuple[Ask, float]] = {
    "cluster": (answers.cluster, FRESH_SECONDS),
    "transactions": (answers.transactions, FRESH_SECONDS),
    f"transactions/{ID}": (answers.transaction, FRESH_SECONDS),
    "locks": (answers.locks, FRESH_SECONDS),
    "tables": (answers.tables, TABLES_SECONDS),
    "conflicts": (answers.conflicts, FRESH_SECONDS),
}

Identify = Callable[[web.Request], Principal | None]
"""The principal of the certificate that was shown; None: there is no TLS. Raises 403 where none was."""
Answer = Callable[[web.Request], Awaitable[web.Response]]


class Console:
    """`routes` for a server's, on the loop that answers calls; `close` in the end."""

    def __init__(self, address: str, registry: Registry, measures: Measures, tls: Tls | None) -> None:
        """`address`: where it is served. `registry`: what answers the node's calls. `tls`: what it shows others."""
        self._on_loopback = is_loopback(address)
        self._registry, self._tls = registry, tls
        self._documents = {**DOCUMENTS, "slow": (answers.slow(measures), FRESH_SECONDS)}
        self._threads = ThreadPoolExecutor(THREADS, "console")
        self._kept: Kept[tuple[object, ...], str] = Kept(MOST_KEPT)

    def routes(self, identify: Identify) -> list[web.RouteDef]:
        page = [web.get(f"{PREFIX}{path}", self._file(identify, *file)) for path, file in PAGE.items()]
        documents = [web.get(f"{API}{path}", self._document(identify, *each)) for path, each in self._documents.items()]
        abort = web.post(f"{API}transactions/{ID}/abort", self._abort(identify))
        return [web.get("/", _to_page), web.get(PREFIX.rstrip("/"), _to_page), *page, *documents, abort]

    def close(self) -> None:
        """What is under way is not waited for: it ends with its deadline."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _file(self, identify: Identify, name: str, kind: str) -> Answer:
        body = (resources.files("txndeploy.console") / "page" / name).read_bytes()

        async def answer(request: web.Request) -> web.Response:
            self._check_host(request)
            identify(request)
            return web.Response(body=body, content_type=kind, charset="utf-8", headers=HEADERS)

        return answer

    def _document(self, identify: Identify, ask: Ask, seconds: float) -> Answer:
        async def answer(request: web.Request) -> web.Response:
            self._check_host(request)
            caller, words = identify(request), {**request.query, **request.match_info}
            about = {"now": datetime.now(UTC), "caller": caller.owner if caller else None}

            def work(client: Client) -> str:
                return as_json({**about, **ask(client, words)})

            key = caller, request.path, tuple(sorted(words.items()))
            return await _told(self._kept.get(key, seconds, lambda: self._ask(caller, work)))

        return answer

    def _abort(self, identify: Identify) -> Answer:
        async def answer(request: web.Request) -> web.Response:
            self._check_host(request)
            caller, txn_id = identify(request), int(request.match_info["id"])
            if caller is None:
                raise web.HTTPForbidden(text="without TLS nobody is known here, and nothing can be changed\n")
            _check_own_page(request)
            reason = await _reason(request)

            def work(client: Client) -> str:
                client.abort(txn_id, reason)
                return as_json({"aborts": [{"id": txn_id, "aborted": True}]})

            return await _told(self._ask(caller, work))

        return answer

    async def _ask(self, caller: Principal | None, work: Callable[[Client], str]) -> str:
        """What a client of the caller's says. Raises TxnErrors only."""
        loop = asyncio.get_running_loop()
        channel = Inside(self._registry, caller, loop, self._tls)

        def ask() -> str:
            with connect_over(channel, None if self._tls else "console", SECONDS, LOCK_SECONDS) as client:
                return work(client)

        try:
            return await loop.run_in_executor(self._threads, ask)
        except TxnError:
            raise
        except Exception as error:
            log.exception("the console cannot say what it was asked for")
            raise InternalError(f"{type(error).__name__}: {error}") from error

    def _check_host(self, request: web.Request) -> None:
        """On loopback only whoever calls it by its address gets an answer: a page of elsewhere may have a name of its
        own lead here, and would read what its visitor's browser can reach."""
        try:
            host = request.url.host
        except ValueError:
            raise web.HTTPBadRequest(text="its Host is no host with a port\n") from None
        if self._on_loopback and not is_loopback(f"{host}:0"):
            raise web.HTTPMisdirectedRequest(text="call it by an address of loopback\n")


def _check_own_page(request: web.Request) -> None:
    """A browser shows its certificate for pages of elsewhere, too: those cannot send JSON here unasked, nor lie about
    where they are from."""
    if request.content_type != "application/json" or request.headers.get("Origin") != str(request.url.origin()):
        raise web.HTTPForbidden(text="only the console's own page may ask for that\n")


async def _reason(request: web.Request) -> str:
    """Raises 400."""
    try:
        said: Any = await request.json() if (request.content_length or 0) <= MAX_BODY_BYTES else None
    except (ValueError, LookupError, RecursionError):  # an encoding that there is not; brackets without end
        said = None
    reason = said.get("reason") if isinstance(said, dict) else None
    if not isinstance(reason, str) or not reason.strip():
        raise web.HTTPBadRequest(text='say why: {"reason": "..."}\n')
    return reason


async def _told(asked: Awaitable[str]) -> web.Response:
    """The answer, or the error that it came to, as JSON."""
    try:
        text, status = await asked, HTTPStatus.OK
    except TxnError as error:
        status = STATUS.get(type(error), HTTPStatus.SERVICE_UNAVAILABLE)
        text = as_json({"error": {"code": error.code, "message": error.message, "hint": error.hint}})
    return web.Response(text=text, status=status, content_type="application/json", headers=HEADERS)


async def _to_page(_request: web.Request) -> web.Response:
    raise web.HTTPFound(PREFIX)
