"""A cluster in which there is something of everything that the console shows, and a browser that looks at it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support import SCHEMA, connect, rows, wait_until
from txnclient import Client, Conflict, Locked, Transaction, TxnAborted
from txndeploy.local.cluster import LocalCluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MARKUP = '<img src=x onerror="window.told = 1"><script>window.told = 2</script>'
"""A label, or a reason, of somebody who means ill."""
PATIENT_MS = 300_000
"""Milliseconds that those who hold and wait are alive without a word: a test of a page is no test of heartbeats."""
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")


@dataclass(frozen=True, slots=True)
class Scene:
    holder: int
    """A transaction that holds a lock for which `waiter` waits."""
    waiter: int
    loser: int
    """One that was aborted by a conflict with `winner`."""
    winner: int
    ill: int
    """One that was aborted, whose label and reason are MARKUP."""


@contextmanager
def scene(cluster: LocalCluster) -> Iterator[Scene]:
    with connect(cluster) as client:
        for name in ("flights", "weather", "planes"):
            client.create_table(f"air.{name}", SCHEMA)
            client.write(rows(*range(100)), f"air.{name}", label="first load")
        loser, winner = _conflict(client)
        ill = client.transaction(MARKUP)
        ill.abort(reason=MARKUP)
        holder, waiter = _patient(client, "hourly load"), _patient(client, "nightly repair")
        holder.lock("air.flights", "X")
        waiting = threading.Thread(target=_lock, args=(waiter,), daemon=True)
        waiting.start()
        wait_until(lambda: any(not lock.acquired for lock in client.locks()), "one waits for the lock")
        yield Scene(holder.id, waiter.id, loser, winner, ill.id)
        client.abort(waiter.id, "the scene is over")
        waiting.join(60)
        holder.abort(reason="the scene is over")


def _patient(client: Client, label: str) -> Transaction:
    return client.transaction(label, keepalive_millis=PATIENT_MS)


def _lock(waiter: Transaction) -> None:
    try:
        waiter.lock("air.flights", "X", lock_timeout=300)
    except (TxnAborted, Locked):
        return  # as the scene ends


def _conflict(client: Client) -> tuple[int, int]:
    """Ids of the one that lost, and of the one that was first."""
    first, second = client.transaction("morning load"), client.transaction("the same once more")
    first.write(rows(1), "air.weather", "overwrite")
    second.write(rows(2), "air.weather", "overwrite")
    first.commit()
    with pytest.raises(Conflict):
        second.commit()
    return second.id, first.id


@contextmanager
def browser() -> Iterator[Browser]:
    """Skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright")
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip("no browser: apt-get install chromium-headless-shell")
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()
