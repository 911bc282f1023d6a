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
        self._handles: weakref.WeakSet[Transaction] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._pid = 0

    def add(self, handle: Transaction) -> None:
        """Beats for the handle until `remove`, until it is lost, or until it is garbage."""
        with self._condition:
            if self._pid != os.getpid():
                # A fork copies the registry, and not the thread. The parent's handles are the parent's.
                self._handles, self._thread, self._pid = weakref.WeakSet(), None, os.getpid()
            self._handles.add(handle)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="txn-heartbeats", daemon=True)
                self._thread.start()
            self._condition.notify()

    def remove(self, handle: Transaction) -> None:
        with self._condition:
            self._handles.discard(handle)

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._handles:
                    self._condition.wait()
                period = min(handle.keepalive_seconds for handle in self._handles) / BEATS_PER_INTERVAL
            started = time.monotonic()
            failed = not self._beat(timeout=max(0.1, period))
            # After a failure sooner, and never all clients of a cluster at the same moment.
            pause = (period / 2 if failed else period) * random.uniform(0.9, 1.0)
            time.sleep(max(0.01, pause - (time.monotonic() - started)))

    def _beat(self, timeout: float) -> bool:
        by_client: defaultdict[Client, list[Transaction]] = defaultdict(list)
        with self._condition:
            for handle in self._handles:
                by_client[handle.client].append(handle)
        complete = True
        for client, handles in by_client.items():
            for start in range(0, len(handles), MAX_IDS_PER_CALL):
                try:
                    self._beat_for(client, handles[start : start + MAX_IDS_PER_CALL], timeout)
                except TxnError as error:
                    log.info("a heartbeat failed, the next one follows: %s", error.message)
                    complete = False
        return complete

    def _beat_for(self, client: Client, handles: list[Transaction], timeout: float) -> None:
        started = time.monotonic()
        response = client.call(
            "txnstatus.TxnManager/KeepTransactionAlive",
            pb.KeepTransactionAliveRequest(txn_ids=[handle.id for handle in handles], owner=client.owner),
            pb.KeepTransactionAliveResponse,
            timeout=timeout,
        )
        for handle, result in zip(handles, response.results, strict=True):
            if result.HasField("error"):
                self.remove(handle)
                handle.mark_lost(from_detail(result.error))
            else:
                handle.mark_heard(started)


HEARTBEATS = Heartbeats()
"""The one of this process."""
