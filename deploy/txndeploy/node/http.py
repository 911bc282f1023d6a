"""HTTP of a node, on a port of its own: metrics for Prometheus, whether it lives and serves, and the console.

With TLS metrics and the console are for those who show a certificate of the cluster, metrics for all where the
configuration says so. Probes are for all: what restarts a node has no certificate to show, and learns one bit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor

from aiohttp import web
from prometheus_client import CollectorRegistry, Metric, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from txndeploy.console.routes import Console
from txndeploy.node.metrics import Families
from txnstatus.errors import Unauthenticated
from txnstatus.revocation import is_revoked
from txnstatus.rpc.connection import split_address
from txnstatus.security.principals import Principal, of_certificate, serial_of
from txnstatus.security.tls import Tls, check_cluster_of, latest

STOP_SECONDS = 1.0


class HttpServer:
    """`start`, then `stop`. GET /metrics, /livez, /readyz, and what is the console's; anything else is 404."""

    def __init__(
        self,
        families: Callable[[], Iterable[Metric]],
        not_ready: Callable[[], str],
        blocking: Executor,
        tls: Tls | None = None,
        *,
        is_open: bool = False,
        console: Console | None = None,
        revoked: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """`families`: what there is to say, asked on the loop. `not_ready`: why the node does not serve, or nothing.
        `tls` None: it is HTTP without. `is_open`: metrics are for those without a certificate, too.
        `revoked`: as of a Listener."""
        self._revoked = revoked
        self._tls, self._is_open = tls, is_open or tls is None
        self._families, self._not_ready, self._blocking = families, not_ready, blocking
        self._of_process = ProcessCollector(registry=None), PlatformCollector(registry=None)
        app = web.Application()
        app.add_routes(
            [web.get("/metrics", self._metrics), web.get("/livez", self._live), web.get("/readyz", self._ready)]
        )
        self._console = console
        if console is not None:
            app.add_routes(console.routes(self._caller))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)

    async def start(self, address: str) -> None:
        """Raises OSError where the port is in use, or the address not this host's."""
        await self._runner.setup()
        secured = latest(self._tls) if self._tls is not None else None
        await web.TCPSite(self._runner, *split_address(address), ssl_context=secured).start()

    async def stop(self) -> None:
        await self._runner.cleanup()
        if self._console is not None:
            self._console.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        """Gathered on the loop, in one turn; written out beside it."""
        if not self._is_open:
            self._caller(request)
        registry = CollectorRegistry()
        for collector in (Families(self._families()), *self._of_process):
            registry.register(collector)
        encode, content_type = _encoder(request.headers.get("Accept", ""))
        body = await asyncio.get_running_loop().run_in_executor(self._blocking, encode, registry)
        return web.Response(body=body, headers={"Content-Type": content_type})

    def _caller(self, request: web.Request) -> Principal | None:
        """The principal of the certificate that was shown; None: there is no TLS.

        Raises 403 for whoever shows none of the cluster, or one that counts no more.
        """
        if self._tls is None:
            return None
        shown = request.get_extra_info("peercert")
        try:
            found = of_certificate(shown)
            check_cluster_of(found, self._tls.own)
        except Unauthenticated:
            found = None
        if found is None or is_revoked(found.kind, found.name, serial_of(shown), self._revoked()):
            raise web.HTTPForbidden(text="for those who show a certificate of the cluster\n")
        return found

    async def _live(self, _request: web.Request) -> web.Response:
        """The loop has turns for this, so it has them for others."""
        return web.Response(text="lives\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        why = self._not_ready()
        return web.Response(text=f"{why or 'serves'}\n", status=503 if why else 200)


def _encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """What is asked for; of what does not read, text."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # of a version that is none
        return choose_encoder("")
