"""Heartbeats: while a client has something to keep alive, one daemon thread beats for all of it, many to a call.

That is transactions, or what snapshots read (leases.py). A handle that is garbage stops beating; what it stands for
then expires. The thread touches no storage, and an error
never ends it: whatever one round meets, the next one is due. What is due when, decides heartbeat_schedule.py.
"""

from __future__ import annotations

import copy
import itertools
import logging
import random
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from txnclient.alive.heartbeat_schedule import Call, HeartbeatSchedule
from txnclient.calls import forking
from txnclient.calls.channel import ManagerChannel
from txnstatus.errors import InternalError, TxnError
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.errors import from_detail
from txnstatus.types import TxnId

log = logging.getLogger(__name__)

IDLE_SECONDS = 5.0
"""Time after which the thread of a client without handles ends; the next handle starts another."""


class Kept(Protocol):
    """A thing that is kept alive. Its methods are called on the heartbeat thread."""

    @property
    def keepalive_seconds(self) -> float: ...
    def heartbeat_answered(self, sent_at: float) -> None: ...
    def heartbeat_silent(self, seconds: float, last: TxnError) -> None: ...
    def heartbeat_refused(self, error: TxnError) -> None: ...


class KeptTransaction(Kept, Protocol):
    @property
    def id(self) -> TxnId: ...


KeptT = TypeVar("KeptT", bound=Kept)
Ask = Callable[[Sequence[KeptT], float], Sequence[TxnError | None]]
"""One call for many handles, with a timeout in seconds. Returns each one's answer; None = alive."""


def keep_alive(channel: ManagerChannel, owner: str) -> Ask[KeptTransaction]:
    def ask(handles: Sequence[KeptTransaction], timeout: float) -> list[TxnError | None]:
        response = channel.call(
            "txnstatus.TxnManager/KeepTransactionAlive",
            pb.KeepTransactionAliveRequest(txn_ids=sorted({handle.id for handle in handles}), owner=owner),
            pb.KeepTransactionAliveResponse,
            timeout=timeout,
            attempt_seconds=timeout,
        )
        refused = {each.txn_id: from_detail(each.error) for each in response.refused}
        return [refused.get(handle.id) for handle in handles]

    return ask


class Heartbeats(Generic[KeptT]):
    """The heartbeats of one client. Safe to use from many threads; in a forked child, of the child's handles only."""

    def __init__(self, ask: Ask[KeptT], name: str) -> None:
        """`name`: the thread's."""
        self._ask = ask
        self._name = name
        self._closed = False
        self.after_fork()
        forking.register(self)

    def after_fork(self) -> None:
        """The parent's handles are the parent's; its thread is not here, and may have held the lock."""
        self._condition = threading.Condition()
        self._schedule = HeartbeatSchedule(lambda: random.uniform(0.9, 1.0))
        self._handles: dict[int, weakref.ref[KeptT]] = {}
        self._keys = itertools.count()
        self._thread: threading.Thread | None = None

    def add(self, handle: KeptT, heard: float) -> int:
        """Beats for the handle until `remove`, until it is lost, or until it is garbage. Returns its key."""
        with self._condition:
            key = next(self._keys)
            if self._closed:
                return key
            before = self._schedule.next_due()
            self._handles[key] = weakref.ref(handle)
            self._schedule.add(key, handle.keepalive_seconds, heard)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            elif before is None or self._schedule.next_due() != before:
                self._condition.notify()
            return key

    def remove(self, key: int) -> None:
        with self._condition:
            self._forget(key)

    def close(self) -> None:
        """Ends the thread, and every beat."""
        with self._condition:
            self._closed = True
            for key in list(self._handles):
                self._forget(key)
            self._condition.notify()

    def _forget(self, key: int) -> None:
        self._handles.pop(key, None)
        self._schedule.remove(key)

    # ---- the thread

    def _run(self) -> None:
        while (call := self._wait()) is not None:
            self._beat(call)

    def _wait(self) -> Call | None:
        """The next call, when its time has come; None when the thread is to end. It holds no handle meanwhile."""
        with self._condition:
            while not self._closed:
                now = time.monotonic()
                if call := self._schedule.due(now):
                    return call
                at = self._schedule.next_due()
                woken = self._condition.wait(IDLE_SECONDS if at is None else at - now)
                if at is None and not woken and not self._handles:
                    break
            self._thread = None
            return None

    def _beat(self, call: Call) -> None:
        """A frame of its own: what it refers to must be gone before the next wait, or no handle is ever garbage."""
        handles = self._living(call.keys)
        if not handles:
            return
        sent = time.monotonic()
        answers = self._answers(list(handles.values()), call.timeout)
        alive: list[int] = []
        unanswered: dict[int, TxnError] = {}
        for (key, handle), answer in zip(handles.items(), answers, strict=True):
            if answer is None:
                alive.append(key)
                handle.heartbeat_answered(sent)
            elif answer.retriable or isinstance(answer, InternalError):
                unanswered[key] = answer
            elif self._still_beats(key):
                handle.heartbeat_refused(answer)
        self._conclude(alive, unanswered, handles, sent)

    def _conclude(
        self, alive: list[int], unanswered: dict[int, TxnError], handles: dict[int, KeptT], sent: float
    ) -> None:
        now = time.monotonic()
        with self._condition:
            self._schedule.answered(alive, sent, now)
            silent = self._schedule.failed(unanswered, sent, now)
            for key in handles.keys() - set(alive) - unanswered.keys():
                self._forget(key)
        for key, error in itertools.islice(unanswered.items(), 1):
            log.info("a heartbeat of %s failed, the next one follows: %s", handles[key], error.message)
        for key, seconds in silent:
            handles[key].heartbeat_silent(seconds, unanswered[key])

    def _answers(self, handles: Sequence[KeptT], timeout: float) -> Sequence[TxnError | None]:
        """An error of the call as a whole is everybody's."""
        try:
            return self._ask(handles, timeout)
        except TxnError as error:
            # Without its traceback, which holds the frames of the handles.
            return [copy.copy(error)] * len(handles)
        except Exception as error:
            log.exception("a heartbeat failed in a way that nobody thought of; the next one follows")
            return [InternalError(str(error))] * len(handles)

    def _living(self, keys: tuple[int, ...]) -> dict[int, KeptT]:
        living = {}
        with self._condition:
            for key in keys:
                handle = self._handles[key]() if key in self._handles else None
                if handle is None:
                    self._forget(key)
                else:
                    living[key] = handle
        return living

    def _still_beats(self, key: int) -> bool:
        with self._condition:
            return key in self._handles
