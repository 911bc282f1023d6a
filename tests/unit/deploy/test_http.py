"""HTTP of a node with TLS: what is for whom, and certificates that change."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import pytest

from tests.unit.harness.identities import Identities, free_address
from txndeploy.local.authority import AUTHORITY_DAYS
from txndeploy.node import metrics
from txndeploy.node.http import HttpServer
from txnstatus.security import tls
from txnstatus.security.principals import Kind
from txnstatus.security.tls import Tls

PATHS = ("/livez", "/readyz", "/metrics")


@pytest.fixture
def air(tmp_path: Path) -> Identities:
    return Identities(tmp_path / "air")


@contextlib.asynccontextmanager
async def serving(files: Tls | None, *, is_open: bool = False) -> AsyncIterator[str]:
    """The address."""
    with ThreadPoolExecutor(1) as blocking:
        server, address = HttpServer(list, lambda: "", blocking, files, is_open=is_open), free_address()
        await server.start(address)
        try:
            yield address
        finally:
            await server.stop()


def context(authority: Path, shown: Path | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority))
    made.check_hostname = False
    if shown is not None:
        made.load_cert_chain(shown / "certificate.pem", shown / "key.pem")
    return made


async def statuses(address: str, secured: ssl.SSLContext | bool, scheme: str = "https") -> list[int]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=secured)) as session:
        found = []
        for path in PATHS:
            async with session.get(f"{scheme}://{address}{path}") as answer:
                found.append(answer.status)
        return found


async def test_metrics_are_for_those_who_show_a_certificate_and_probes_for_all(air: Identities) -> None:
    async with serving(air.node()) as address:
        assert await statuses(address, context(air.authority_file)) == [200, 200, 403]
        assert await statuses(address, context(air.authority_file, air.files(Kind.USER, "alice"))) == [200, 200, 200]
        with pytest.raises(aiohttp.ClientError):
            await statuses(address, True, "http")


async def test_metrics_are_for_all_where_that_is_said(air: Identities) -> None:
    async with serving(air.node(), is_open=True) as address:
        assert await statuses(address, context(air.authority_file)) == [200, 200, 200]


async def test_nobody_of_another_authority_or_cluster_sees_metrics(air: Identities, tmp_path: Path) -> None:
    again = Identities(tmp_path / "again")
    async with serving(air.node()) as address:
        with pytest.raises(aiohttp.ClientError):
            await statuses(address, context(air.authority_file, again.files(Kind.USER, "alice")))
    sea = Identities(tmp_path / "sea", "sea")
    node = air.files(Kind.NODE, "n2")
    with (node / "ca.pem").open("ab") as file:
        file.write(sea.authority.pem)
    async with serving(tls.within(node)) as address:
        assert await statuses(address, context(air.authority_file, sea.files(Kind.USER, "alice"))) == [200, 200, 403]


async def test_a_certificate_that_changes_is_shown_at_the_next_connection(air: Identities, tmp_path: Path) -> None:
    """Also another authority, both ways: a loop is given one context for good."""
    node, again = air.files(Kind.NODE, "n1"), Identities(tmp_path / "again")
    async with serving(tls.within(node)) as address:
        assert (await statuses(address, context(air.authority_file)))[0] == 200
        again.authority.issue(Kind.NODE, "n1", node)
        with pytest.raises(aiohttp.ClientError):
            await statuses(address, context(air.authority_file))
        shown = context(again.authority_file, again.files(Kind.USER, "alice"))
        assert await statuses(address, shown) == [200, 200, 200]


def test_until_when_certificates_hold_is_told_and_of_new_ones_at_once(air: Identities) -> None:
    """An alert rule goes by it: all that is not seen of a certificate is its end, which ends all connections."""

    def days() -> dict[str, int]:
        found = metrics.certificates(files).samples
        return {each.labels["of"]: round((each.value - time.time()) / 86400) for each in found}

    node = air.files(Kind.NODE, "n1")
    air.authority.issue(Kind.NODE, "n1", node, days=10)
    files = tls.within(node)
    assert days() == {"node": 10, "authority": AUTHORITY_DAYS}
    air.authority.issue(Kind.NODE, "n1", node, days=300)
    assert days()["node"] == 300
    assert not metrics.certificates(None).samples


async def test_without_tls_it_is_http() -> None:
    async with serving(None) as address:
        assert await statuses(address, True, "http") == [200, 200, 200]


async def test_metrics_are_text_for_who_asks_for_what_does_not_read() -> None:
    async with serving(None) as address, aiohttp.ClientSession() as session:
        for wanted in ("application/openmetrics-text; version=x", ";;;", "x/"):
            async with session.get(f"http://{address}/metrics", headers={"Accept": wanted}) as answer:
                assert (answer.status, answer.content_type) == (200, "text/plain")
