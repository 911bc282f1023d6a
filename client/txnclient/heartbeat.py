"""Heartbeats: one daemon thread a process keeps all its handles' transactions alive, one call for each cluster.

A handle that is garbage stops beating; its transaction then expires. The thread touches no storage, and an error
never ends it: whatever one round meets, the next one is due.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import weakref
from collections import defaultdict
from typing import TYPE_CHECKING

from txnstatus.errors import TxnError
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.errors import from_detail

if TYPE_CHECKING:
    from txnclient.client import Client
    from txnclient.transaction import Transaction

log = logging.getLogger(__name__)

BEATS_PER_INTERVAL = 3
"""Beats in one keep-alive interval: two may be lost in a row."""
MAX_IDS_PER_CALL = 10_000


class Heartbeats:
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._due: weakref.WeakKeyDictionary[Transaction, float] = weakref.WeakKeyDictionary()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def add(self, handle: Transaction) -> None:
        """Beats for the handle until `remove`, until it is lost, or until it is garbage."""
        with self._condition:
            if self._pid != os.getpid():
                # A fork copies the registry, and not the thread. The parent's handles are the parent's.
                self._due, self._thread, self._pid = weakref.WeakKeyDictionary(), None, os.getpid()
            self._due[handle] = time.monotonic() + _period(handle)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="txn-heartbeats", daemon=True)
                self._thread.start()
            self._condition.notify()

    def remove(self, handle: Transaction) -> None:
        with self._condition:
            self._due.pop(handle, None)

    def _run(self) -> None:
        while True:
            self._beat_due()

    def _beat_due(self) -> None:
        """A frame of its own: what it refers to must be gone before the next wait, or no handle is ever garbage."""
        for client, handles in self._wait_for_due().items():
            for start in range(0, len(handles), MAX_IDS_PER_CALL):
                self._beat(client, handles[start : start + MAX_IDS_PER_CALL])

    def _wait_for_due(self) -> dict[Client, list[Transaction]]:
        """The handles to beat for now, by client: whoever is due, and who would be soon, in the same call."""
        with self._condition:
            while True:
                now = time.monotonic()
                first = min(self._due.values(), default=None)
                if first is not None and first <= now:
                    break
                self._condition.wait(None if first is None else first - now)
            due: defaultdict[Client, list[Transaction]] = defaultdict(list)
            for handle, at in self._due.items():
                if at - now < _period(handle) / 2:
                    due[handle.client].append(handle)
            return due

    def _beat(self, client: Client, handles: list[Transaction]) -> None:
        started = time.monotonic()
        period = min(_period(handle) for handle in handles)
        try:
            response = client.call(
                "txnstatus.TxnManager/KeepTransactionAlive",
                pb.KeepTransactionAliveRequest(txn_ids=[handle.id for handle in handles], owner=client.owner),
                pb.KeepTransactionAliveResponse,
                timeout=max(0.1, period),
            )
        except TxnError as error:
            if error.retriable:
                log.info("a heartbeat failed, the next one follows: %s", error.message)
                self._schedule(handles, period / 4)
                return
            for handle in handles:
                self.remove(handle)
                handle.mark_lost(error)
            return
        alive = []
        for handle, result in zip(handles, response.results, strict=True):
            if result.HasField("error"):
                self.remove(handle)
                handle.mark_lost(from_detail(result.error))
            else:
                handle.mark_heard(started)
                alive.append(handle)
        self._schedule(alive, None)

    def _schedule(self, handles: list[Transaction], pause: float | None) -> None:
        """The next beat of each handle that is still registered; never of all clients at the same moment."""
        now = time.monotonic()
        with self._condition:
            for handle in handles:
                if handle in self._due:
                    self._due[handle] = now + (_period(handle) if pause is None else pause) * random.uniform(0.9, 1.0)


def _period(handle: Transaction) -> float:
    return handle.keepalive_seconds / BEATS_PER_INTERVAL


HEARTBEATS = Heartbeats()
"""The one of this process."""
