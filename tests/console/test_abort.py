"""An operator's abort in the console: in the name of a certificate, from its own page, and in no other way."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.console.scene import browser
from tests.support import SCHEMA, connect, fast_cluster, rows
from txnclient import Client, TxnState
from txndeploy.console.routes import API, PREFIX
from txndeploy.local.authority import Authority
from txndeploy.local.cluster import LocalCluster
from txnstatus.security.principals import Kind

SECONDS = 20
REASON = "it is in everybody's way"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("cluster"), nodes=1, http=True, secure=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected


def base(cluster: LocalCluster) -> str:
    return f"https://{cluster.configs['n1'].http_address}"


def files(cluster: LocalCluster) -> Path:
    assert cluster.credentials is not None
    return cluster.credentials


def ask(cluster: LocalCluster, path: str, *, shows: bool = True, **options: Any) -> tuple[int, Any]:
    context = ssl.create_default_context(cafile=files(cluster) / "ca.pem")
    if shows:
        context.load_cert_chain(files(cluster) / "certificate.pem", files(cluster) / "key.pem")
    try:
        with urlopen(Request(f"{base(cluster)}{path}", **options), timeout=SECONDS, context=context) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def abort(cluster: LocalCluster, txn_id: int, said: object, **headers: str) -> tuple[int, Any]:
    """As the page asks for it, but for the headers that are said; `_` stands for a dash."""
    sent = {"Content-Type": "application/json", "Origin": base(cluster)}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {name: value for name, value in sent.items() if value}
    data = json.dumps(said).encode()
    return ask(cluster, f"{API}transactions/{txn_id}/abort", data=data, headers=sent, method="POST")


def test_who_shows_no_certificate_sees_nothing(cluster: LocalCluster) -> None:
    for path in (PREFIX, f"{PREFIX}console.js", f"{API}transactions"):
        assert ask(cluster, path, shows=False)[0] == 403
        assert ask(cluster, path)[0] == 200
    assert ask(cluster, "/livez", shows=False)[0] == 200


def test_it_is_asked_and_aborted_in_the_name_of_the_certificate(cluster: LocalCluster, client: Client) -> None:
    begun = client.transaction("stands around")
    found = json.loads(ask(cluster, f"{API}transactions/{begun.id}")[1])
    assert found["caller"] == client.owner
    status, text = abort(cluster, begun.id, {"reason": REASON})
    assert (status, json.loads(text)) == (200, {"aborts": [{"id": begun.id, "aborted": True}]})
    cause = client.get(begun.id).cause
    assert cause is not None
    assert (cause.by, cause.message) == (f"operator {client.owner}", REASON)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": ""},
        {"Origin": "null"},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
    ],
    ids=["elsewhere", "no origin", "null", "text", "form"],
)
def test_no_page_of_elsewhere_aborts(cluster: LocalCluster, client: Client, headers: dict[str, str]) -> None:
    """Its visitor's browser would show the certificate."""
    begun = client.transaction()
    assert abort(cluster, begun.id, {"reason": REASON}, **headers)[0] == 403
    assert client.get(begun.id).state is TxnState.OPEN
    begun.abort(reason="it was tried")


@pytest.mark.parametrize(
    "said", [{}, {"reason": ""}, {"reason": " "}, {"reason": 7}, [], "why", {"reason": "x" * 5_000}]
)
def test_who_aborts_says_why(cluster: LocalCluster, client: Client, said: object) -> None:
    begun = client.transaction()
    assert abort(cluster, begun.id, said)[0] == 400
    assert client.get(begun.id).state is TxnState.OPEN
    begun.abort(reason="it was tried")


@pytest.mark.parametrize("encoding", ["no-such", "utf-16"])
def test_a_reason_that_does_not_read_is_refused(cluster: LocalCluster, client: Client, encoding: str) -> None:
    begun = client.transaction()
    headers = {"Content-Type": f"application/json; charset={encoding}", "Origin": base(cluster)}
    path = f"{API}transactions/{begun.id}/abort"
    for data in (b'{"reason": "why"}', b"[" * 4_000):
        assert ask(cluster, path, data=data, headers=headers, method="POST")[0] == 400
    headers = {"Content-Type": "application/json", "Origin": base(cluster)}
    assert ask(cluster, path, data=b"[" * 4_000, headers=headers, method="POST")[0] == 400
    assert client.get(begun.id).state is TxnState.OPEN
    begun.abort(reason="it was tried")


@pytest.mark.parametrize("host", ["127.0.0.1:none", "127.0.0.1:99999"])
def test_a_host_that_is_none_is_refused(cluster: LocalCluster, host: str) -> None:
    assert ask(cluster, f"{API}cluster", headers={"Host": host})[0] == 400
    assert "Traceback" not in (cluster.directory / "n1" / "node.log").read_text()


def test_what_cannot_be_aborted_says_so(cluster: LocalCluster, client: Client) -> None:
    client.create_table("air.flights", SCHEMA)
    with client.transaction() as done:
        done.write(rows(1), "air.flights")
    status, text = abort(cluster, done.id, {"reason": REASON})
    assert status == 409, text
    assert client.get(done.id).state is TxnState.COMMITTED
    assert abort(cluster, 987_654_321, {"reason": REASON})[0] == 404


def test_in_a_browser_one_says_why_and_it_ends(cluster: LocalCluster, client: Client) -> None:
    begun = client.transaction("stands around")
    with browser() as running:
        page = shown_page(running, cluster, files(cluster))
        page.goto(f"{base(cluster)}{PREFIX}#/transactions/{begun.id}")
        page.get_by_label("Reason").fill(REASON)
        page.get_by_role("button", name=f"Abort transaction {begun.id}").click()
        page.get_by_text(f"aborts it: {REASON}").wait_for()
        assert page.get_by_role("button", name="Abort").count() == 0
        assert client.owner in page.locator("#caller").inner_text()
    assert client.get(begun.id).state is TxnState.ABORTED


@pytest.fixture(scope="module")
def reader(cluster: LocalCluster, client: Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Credentials of one who sees all tables, and operates nothing."""
    where = tmp_path_factory.mktemp("rita")
    Authority.load(cluster.directory / "authority").issue(Kind.USER, "rita", where)
    client.grant("reader", "rita", on=None)
    return where


def test_a_reader_s_abort_is_refused(cluster: LocalCluster, client: Client, reader: Path) -> None:
    begun = client.transaction("stands around")
    context = ssl.create_default_context(cafile=reader / "ca.pem")
    context.load_cert_chain(reader / "certificate.pem", reader / "key.pem")
    request = Request(
        f"{base(cluster)}{API}transactions/{begun.id}/abort",
        data=json.dumps({"reason": REASON}).encode(),
        headers={"Content-Type": "application/json", "Origin": base(cluster)},
        method="POST",
    )
    with pytest.raises(HTTPError) as refused:
        urlopen(request, timeout=SECONDS, context=context)
    assert refused.value.code == 403
    assert "rita may not call TxnManager/AbortTransaction" in refused.value.read().decode()
    assert client.get(begun.id).state is TxnState.OPEN
    begun.abort(reason="it was tried")


def test_in_a_browser_a_reader_s_abort_is_refused_and_says_so(
    cluster: LocalCluster, client: Client, reader: Path
) -> None:
    begun = client.transaction("stands around")
    with browser() as running:
        page = shown_page(running, cluster, reader)
        page.goto(f"{base(cluster)}{PREFIX}#/transactions/{begun.id}")
        page.get_by_label("Reason").fill(REASON)
        page.get_by_role("button", name=f"Abort transaction {begun.id}").click()
        page.get_by_text("It was not aborted: rita may not call").wait_for()
        assert "rita" in page.locator("#caller").inner_text()
    assert client.get(begun.id).state is TxnState.OPEN
    begun.abort(reason="it was tried")


def shown_page(running: Any, cluster: LocalCluster, shown: Path) -> Any:
    """A page of a browser that shows a certificate."""
    certificate = {
        "origin": base(cluster),
        "certPath": str(shown / "certificate.pem"),
        "keyPath": str(shown / "key.pem"),
    }
    return running.new_page(ignore_https_errors=True, client_certificates=[certificate])
