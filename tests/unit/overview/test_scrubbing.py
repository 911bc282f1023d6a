"""What looks like a secret is in no bundle, wherever it stood; what does not is as it was."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txndeploy.overview.scrubbing import LEFT_OUT, scrub, scrub_settings

SECRET = "hunter2hunter2"
PEM = f"-----BEGIN PRIVATE KEY-----\nMIIB{SECRET}\nAAAA\n-----END PRIVATE KEY-----"
TOKEN = f"eyJhbGciOiJFUzI1NiJ9.{SECRET}.sig_{SECRET}"


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("\n", "\\n"),
        PEM[: len(PEM) - 30],
        PEM[30:],
        f"it says {TOKEN} here",
        f"Authorization: Bearer {SECRET}",
        f"password={SECRET}",
        f"PGPASSWORD = '{SECRET}'",
        f'{{"client_secret": "{SECRET}"}}',
        f'{{"said": "{{\\"api_key\\": \\"{SECRET}\\"}}"}}',
        f"s3://someone:{SECRET}@lake/warehouse",
        f"https://lake/warehouse?sig={SECRET}",
        f"dsn: postgresql://ada:{SECRET}@db/air",
        f"host=db password={SECRET} dbname=air",
        f"dsn: Postgresql://ada:{SECRET}@db/air",
        f"it is postgres://ada:p@{SECRET}@db/air",
        f"HTTPS://lake/warehouse?sig={SECRET}",
        f"Authorization: Negotiate {SECRET}",
        f"ghp_{SECRET}",
        f"xoxb-17-{SECRET}",
        "AKIAIOSFODNN7EXAMPLE",
    ],
)
def test_a_secret_is_left_out(text: str) -> None:
    found = scrub(f"before {text} after") if not text.startswith(PEM[30:40]) else scrub(text)
    assert SECRET not in found
    assert "AKIAIOSFODNN7EXAMPLE" not in found
    assert LEFT_OUT in found


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31 12:00:00,000 INFO n1 txnstatus.raft.driver: group-0: n1 leads in term 2, after 0.000 s",
        "transaction 17 was aborted by staleness tracker: no heartbeat for 4.3 s",
        'txnstatus_call_seconds_bucket{le="0.5",method="txnstatus.Table/Scan"} 3.0',
        "file:///data/warehouse/air/flights",
        "key = /etc/txnstatus/key.pem",
        "127.0.0.1:7051",
    ],
)
def test_all_else_is_as_it_was(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize("word", ["token", "a", "a.", "password=", "-----BEGIN ", "a://", "secret:'", "authorization:"])
def test_what_is_long_takes_no_longer_than_it_is(word: str) -> None:
    """Whoever writes a label, or a reason, keeps nobody's bundle waiting."""
    began = time.process_time()
    scrub(word * 2_000)
    assert time.process_time() - began < 2


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4))
def test_documents_still_read(said: dict[str, str]) -> None:
    document = {**said, "token": SECRET, "rows": [{"label": f"password={SECRET}", "id": 7}]}
    for indent in (None, 2):
        text = scrub(json.dumps(document, indent=indent))
        assert SECRET not in text
        assert json.loads(text)["rows"][0]["id"] == 7


def test_settings_of_telling_names_are_left_out_whole() -> None:
    said = {
        "warehouse": f"s3://someone:{SECRET}@lake/w",
        "storage": {"secret_key": SECRET, "password": 7, "tokens": [f"a{SECRET}"], "endpoint": "https://lake"},
        "table_roots": [f"s3://lake/a?sig={SECRET}"],
        "tls": {"key": "/etc/key.pem"},
    }
    found = scrub_settings(said)
    assert SECRET not in json.dumps(found)
    assert found["storage"]["password"] == LEFT_OUT
    assert found["storage"]["endpoint"] == "https://lake"
    assert found["tls"] == said["tls"]
