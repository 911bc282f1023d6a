"""A bundle: what a maintainer needs to know of a cluster, in one file, without secrets.

What cannot be had is in it as the reason why: a bundle is made when something is wrong.
"""

from __future__ import annotations

import importlib.metadata
import io
import os
import platform
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import tomli_w

from txnclient import Client, TxnError, TxnState
from txndeploy.overview import health
from txndeploy.overview.scrubbing import scrub, scrub_settings
from txndeploy.terminal import listings
from txndeploy.terminal.output import as_json
from txnstatus.security.showing import Shows
from txnstatus.types import TERMINAL

LOG_BYTES = 1 << 20
"""Bytes of a log's end."""
EXPLAINED = 10
"""Transactions that have been live for longest, each of which is explained."""
MOST_LIVE = 10_000
HTTP_SECONDS = 5.0

File = tuple[str, Callable[[], str]]
"""A name, and what makes the text."""


def files(
    client: Client, configurations: Sequence[Path], logs: Sequence[Path], metrics: Sequence[str], shown: Shows | None
) -> list[File]:
    """What there is to say. `metrics`: URLs of nodes' `/metrics`, for which `shown` is shown."""
    return [
        ("versions.json", versions),
        ("cluster.json", lambda: as_json(_cluster(client))),
        ("transactions.json", lambda: as_json(_live(client))),
        ("explanations.txt", lambda: "\n\n".join(_explanations(client))),
        ("locks.json", lambda: listings.locks(client.locks(extended=True), extended=True).to_json()),
        ("compactions.json", lambda: listings.compactions(client.compactions()).to_json()),
        *((f"configuration/{number}-{path.name}", _configuration(path)) for number, path in enumerate(configurations)),
        *((f"logs/{number}-{path.name}", _tail(path)) for number, path in enumerate(logs)),
        *((f"metrics/{number}.txt", _metrics(url, shown)) for number, url in enumerate(metrics)),
    ]


def write(path: Path, wanted: Sequence[File]) -> Mapping[str, str]:
    """Makes the file, for its owner alone, once all is in it. Returns what could not be had, and why.

    Raises OSError where it cannot be written.
    """
    missing: dict[str, str] = {}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, make in wanted:
                try:
                    text = make()
                except (TxnError, OSError, ValueError) as error:
                    missing[name] = text = f"{type(error).__name__}: {error}"
                _add(archive, name, scrub(text))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return missing


def versions() -> str:
    """Versions of all that is installed, of Python and of the machine."""
    packages = {each.name: each.version for each in importlib.metadata.distributions()}
    python = {"version": sys.version, "implementation": platform.python_implementation()}
    machine = {"platform": platform.platform(), "cpus": os.cpu_count()}
    return as_json({"made": datetime.now(UTC), "python": python, "machine": machine, "packages": packages})


def _cluster(client: Client) -> Mapping[str, Any]:
    state = listings.catalog(client)
    groups = listings.groups(client, state)
    troubles = [trouble.what for trouble in health.troubles(state, groups.rows)]
    nodes = [{"node": name, "address": info.address} for name, info in sorted(state.nodes.items())]
    about = {"id": state.cluster_id, "version": state.version, "troubles": troubles, "nodes": nodes}
    return {**about, **groups.document(), **listings.options(state).document()}


def _live(client: Client) -> Mapping[str, Any]:
    found = client.transactions(set(TxnState) - TERMINAL, limit=MOST_LIVE + 1)
    return listings.transactions(found[:MOST_LIVE], more=len(found) > MOST_LIVE).document()


def _explanations(client: Client) -> Iterator[str]:
    live = client.transactions(set(TxnState) - TERMINAL, limit=MOST_LIVE)
    for txn in sorted(live, key=lambda each: each.begin_micros)[:EXPLAINED]:
        try:
            yield str(client.explain(txn.txn_id))
        except TxnError as error:
            yield f"transaction {txn.txn_id}: {error}"


def _configuration(path: Path) -> Callable[[], str]:
    return lambda: tomli_w.dumps(scrub_settings(tomllib.loads(path.read_text())))


def _tail(path: Path) -> Callable[[], str]:
    def read() -> str:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
            return file.read().decode(errors="replace")

    return read


def metrics_of(configurations: Sequence[Path]) -> list[str]:
    """URLs of the metrics of nodes, by their configurations, of those that serve some."""
    found = []
    for path in configurations:
        said = tomllib.loads(path.read_text())
        if address := said.get("http_address"):
            found.append(f"{'https' if 'tls' in said else 'http'}://{address}/metrics")
    return found


def _metrics(url: str, shown: Shows | None) -> Callable[[], str]:
    def read() -> str:
        context = shown.contexts().client if shown is not None and url.startswith("https:") else None
        with urlopen(url, timeout=HTTP_SECONDS, context=context) as answer:
            text: str = answer.read().decode(errors="replace")
        return text

    return read


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = len(data), int(datetime.now(UTC).timestamp())
    archive.addfile(entry, io.BytesIO(data))
