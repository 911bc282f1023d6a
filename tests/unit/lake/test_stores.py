"""Stores of buckets: which one a location is in, what a file of them may say, and credentials that are rotated."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from txnstatus.errors import InvalidArgument
from txnstatus.lake import storage, stores

SECRET = "very secret"


def test_the_longest_root_counts() -> None:
    found, _ = stores.parse('["s3://lake"]\nregion = "a"\n["s3://lake/sales"]\nregion = "b"\n', "stores")
    known = stores.Stores("stores", tuple(found))
    for uri, root in (
        ("s3://lake/sales/orders/delta_1_x/part-0.parquet", "s3://lake/sales"),
        ("s3://lake/sales", "s3://lake/sales"),
        ("s3://lake/salesmen/t", "s3://lake"),
        ("s3://lakes/sales/t", None),
        ("file:///lake/sales", None),
    ):
        store = known.of(uri)
        assert (store.root if store else None) == root, uri


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("sales", "is not TOML"),
        ('region = "a"', "'region' is no table of a store"),
        ('["file:///data"]\nregion = "a"', "'file:///data' is no table of a store"),
        ('["s3://lake/"]\nregion = "a"', "'s3://lake/' is no table of a store"),
        ('["s3://lake"]\nreigon = "a"', "'reigon' is no setting with a text; there are endpoint, region"),
        ('["s3://lake"]\nregion = 7', "'region' is no setting with a text"),
        (f'["s3://lake"]\naccess_key = "{SECRET}"', "access_key and secret_key come together"),
        (f'["s3://lake"]\nsecret_key = "{SECRET}"', "access_key and secret_key come together"),
        (f'["s3://lake"]\nsecret_key = "{SECRET}"\naccess_key = "k"\nrole = "r"', "a role is taken by who the process"),
        ('["s3://lake"]\nsecret_key_file = "/nowhere"', "secret_key_file '/nowhere' cannot be read"),
        ('["s3://lake"]\nendpoint = "minio:9000"', "endpoint 'minio:9000' is not https://HOST:PORT"),
        ('["s3://lake"]\nendpoint = "https://minio/path"', "is not https://HOST:PORT"),
    ],
)
def test_what_a_file_may_not_say(text: str, rule: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(rule)) as refused:
        stores.parse(text, "TXN_STORES 'stores.toml'")
    assert SECRET not in str(refused.value)


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(stores.VARIABLE, "/nowhere/stores.toml")
    with pytest.raises(InvalidArgument, match=r"TXN_STORES names '/nowhere/stores\.toml', which cannot be read"):
        storage.file_system("s3://lake/sales/t")


def test_secrets_are_not_shown() -> None:
    found, _ = stores.parse(f'["s3://lake"]\naccess_key = "k"\nsecret_key = "{SECRET}"', "stores")
    assert SECRET not in repr(found) + str(stores.Stores("stores", tuple(found)))


def test_each_root_is_asked_with_its_own_key_and_a_new_one_as_soon_as_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_text("key-of-sales\n")
    with _store() as (address, keys):
        file = tmp_path / "stores.toml"
        file.write_text(
            f'["s3://lake/sales"]\nendpoint = "{address}"\nregion = "x"\naccess_key_file = "{key}"\nsecret_key = "s"\n'
            f'["s3://lake"]\nendpoint = "{address}"\nregion = "x"\naccess_key = "key-of-all"\nsecret_key = "s"\n'
        )
        monkeypatch.setenv(stores.VARIABLE, str(file))
        for uri, expected in (("s3://lake/sales/t", "key-of-sales"), ("s3://lake/hr/t", "key-of-all")):
            assert _key_of(uri, keys) == expected
        key.write_text("key-of-tomorrow")
        os.utime(key, ns=(1, 1))
        assert _key_of("s3://lake/sales/t", keys) == "key-of-tomorrow"


def _key_of(uri: str, keys: list[str]) -> str:
    keys.clear()
    with pytest.raises(OSError, match="does not exist"):
        storage.read_file(f"{uri}/delta_1_x/part-0.parquet")
    assert keys
    assert set(keys) == {keys[0]}
    return keys[0]


@contextmanager
def _store() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that has nothing, and the keys with which it is asked."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            found = re.search(r"Credential=([^/]+)/", self.headers.get("Authorization", ""))
            keys.append(found[1] if found else "")
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_HEAD  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
