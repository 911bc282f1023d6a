"""Buckets that need credentials, or an address, of their own: the file that TXN_STORES names.

A table for each root, of which the longest that a location is in counts; what is in none of them is asked for as the
process's variables and profiles say:

    ["s3://lake/sales"]
    endpoint = "https://minio.example:9000"
    region = "eu-central-1"
    access_key_file = "/run/secrets/sales-key"
    secret_key_file = "/run/secrets/sales-secret"

Nodes, programs, executors and compactors read it each by themselves, so each may be given what it may do. When the
file, or one that it names, has changed, it is read again: credentials are rotated without a restart.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    from pyarrow import fs

VARIABLE = "TXN_STORES"
SECRETS = ("access_key", "secret_key", "session_token")
"""What may be given by itself, or as the file that holds it: NAME_file."""
PLAIN = ("endpoint", "region", "role")


@dataclass(frozen=True, slots=True)
class Store:
    """A root of a bucket, and how it is asked."""

    root: str
    settings: tuple[tuple[str, str], ...] = field(repr=False)
    """Names as in the file, and texts: secrets as they are."""

    def holds(self, uri: str) -> bool:
        return uri == self.root or uri.startswith(f"{self.root}/")

    def file_system(self) -> fs.FileSystem:
        """Raises InvalidArgument."""
        from pyarrow import fs

        asked: dict[str, Any] = dict(self.settings)
        if "role" in asked:
            asked["role_arn"] = asked.pop("role")
        if "endpoint" in asked:
            parts = urlsplit(asked.pop("endpoint"))
            asked |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
        try:
            return fs.S3FileSystem(**asked, allow_delayed_open=True)
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"the store {self.root!r} cannot be used: {error}") from error


@dataclass(frozen=True, slots=True)
class Stores:
    path: str = ""
    """The file; empty = there is none."""
    stores: tuple[Store, ...] = ()
    """The longest roots first."""
    read: Mapping[str, int] = field(default_factory=dict)
    """The files that were read for it, and when each was changed last, in nanoseconds."""

    def of(self, uri: str) -> Store | None:
        return next((store for store in self.stores if store.holds(uri)), None)

    @property
    def is_current(self) -> bool:
        return all(_changed_at(path) == at for path, at in self.read.items())


def parse(text: str, source: str) -> tuple[list[Store], list[str]]:
    """The stores, and the files of secrets that were read for them. Raises InvalidArgument: the message names the rule.

    `source`: what messages call it.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{source} is not TOML: {error}") from error
    stores, files = [], []
    for root, said in document.items():
        if not isinstance(said, dict) or not root.startswith("s3://") or root.endswith("/") or root == "s3://":
            raise InvalidArgument(f'{source}: {root!r} is no table of a store, as ["s3://bucket/path"] is')
        settings, read = _settings(said, f"{source}, {root!r}")
        stores.append(Store(root, tuple(settings.items())))
        files += read
    return sorted(stores, key=lambda store: -len(store.root)), files


def _settings(said: Mapping[str, object], source: str) -> tuple[dict[str, str], list[str]]:
    settings: dict[str, str] = {}
    files = []
    known = [*PLAIN, *SECRETS, *(f"{name}_file" for name in SECRETS)]
    for name, text in said.items():
        if name not in known or not isinstance(text, str) or not text:
            raise InvalidArgument(f"{source}: {name!r} is no setting with a text; there are {', '.join(known)}")
        if not name.endswith("_file"):
            settings[name] = text
            continue
        try:
            settings[name.removesuffix("_file")] = Path(text).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgument(f"{source}: {name} {text!r} cannot be read: {error}") from error
        files.append(text)
    if ("access_key" in settings) != ("secret_key" in settings):
        raise InvalidArgument(f"{source}: access_key and secret_key come together")
    if "role" in settings and "access_key" in settings:
        raise InvalidArgument(f"{source}: a role is taken by who the process is, not by an access_key")
    endpoint = urlsplit(settings.get("endpoint", "https://any"))
    if endpoint.scheme not in ("http", "https") or not endpoint.netloc or endpoint.path.strip("/"):
        raise InvalidArgument(f"{source}: endpoint {settings['endpoint']!r} is not https://HOST:PORT")
    return settings, files


def load() -> Stores:
    """The stores that the variable's file has, read again if it has changed. Raises InvalidArgument."""
    global _loaded
    path = os.environ.get(VARIABLE, "")
    if path != _loaded.path or not _loaded.is_current:
        _loaded = _read(path) if path else Stores()
    return _loaded


def _read(path: str) -> Stores:
    changed = {path: _changed_at(path)}
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{VARIABLE} names {path!r}, which cannot be read: {error}") from error
    stores, files = parse(text, f"{VARIABLE} {path!r}")
    return Stores(path, tuple(stores), changed | {file: _changed_at(file) for file in files})


def _changed_at(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


_loaded = Stores()
