"""What a backup says of itself: which files it has, of what, and what they must be. Decides, performs nothing.

It is one JSON document with a digest of itself. A directory without one is no backup, however much is in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from txnstatus.errors import InvalidArgument

NAME = "backup.json"
FORMAT = 1
_FILE = re.compile(r"[a-z0-9-]{1,80}\.snapshot")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class GroupFile:
    """The state of a group at the cut: the file of a snapshot."""

    group: str
    file: str
    """Name in the directory."""
    bytes: int
    sha256: str
    """Digest of the file, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The tables' files that are in the backup, by a list of them."""

    files: int
    data_bytes: int
    elsewhere: int
    """Number of files that lie outside of their tables' places, and are not in it."""
    bytes: int
    """Size of the list."""
    sha256: str
    """Digest of the list, in hexadecimal."""


@dataclass(frozen=True, slots=True)
class Manifest:
    cluster_id: str
    """The id of the cluster that it was taken of."""
    cut_id: str
    taken_micros: int
    """The time after the cut, by the clock of whoever took it, since 1970."""
    groups: tuple[GroupFile, ...]
    """All of them, the catalog's among them, by name."""
    data: DataFiles | None = None
    """None: it is without the tables' files."""


def encode(manifest: Manifest) -> bytes:
    document = {"format": FORMAT, **asdict(manifest)}
    return json.dumps({**document, "sha256": _digest(document)}, indent=1).encode()


def decode(data: bytes) -> Manifest:
    """Raises InvalidArgument for what is no manifest, was changed, or is of another release."""
    try:
        document = json.loads(data)
        digest = document.pop("sha256")
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise InvalidArgument(f"{NAME} is no manifest of a backup: {error}") from error
    if digest != _digest(document):
        raise InvalidArgument(f"{NAME} was changed, or is cut short: its digest does not match")
    if document.get("format") != FORMAT:
        raise InvalidArgument(f"the backup is of format {document.get('format')!r}; this release reads {FORMAT}")
    try:
        groups = tuple(GroupFile(**each) for each in document["groups"])
        told = DataFiles(**document["data"]) if document.get("data") else None
        manifest = Manifest(document["cluster_id"], document["cut_id"], document["taken_micros"], groups, told)
    except (KeyError, TypeError) as error:
        raise InvalidArgument(f"{NAME} does not say what a backup says: {error}") from error
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    """Raises InvalidArgument, also for names that lead out of the directory."""
    groups = [each.group for each in manifest.groups]
    if groups != sorted(set(groups)):
        raise InvalidArgument(f"{NAME}: its groups are not in order, or one comes twice")
    for each in manifest.groups:
        if each.file != file_of(each.group) or not _FILE.fullmatch(each.file) or not _HEX.fullmatch(each.sha256):
            raise InvalidArgument(f"{NAME}: {each.file!r:.100} is no file of group {each.group!r:.100}")


def file_of(group: str) -> str:
    return f"{group}.snapshot"


def check_file(said: GroupFile, size: int, sha256: str) -> None:
    """Raises InvalidArgument where a file is not the one that was written."""
    if (size, sha256) != (said.bytes, said.sha256):
        raise InvalidArgument(
            f"{said.file} is not what was backed up: {size} bytes with digest {sha256[:12]}, where {said.bytes} with "
            f"{said.sha256[:12]} were written"
        )


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
