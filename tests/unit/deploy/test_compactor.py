"""The process of a worker: how it ends."""

from __future__ import annotations

import subprocess
import sys

ANOTHER_THREAD_IS_TOLD = """
import signal, sys, threading, time
from contextlib import nullcontext
from types import SimpleNamespace
from txndeploy.node import compactor

class Worker(SimpleNamespace):
    def __init__(self, session, name, stopping, *more):
        super().__init__(stopping=stopping)
    def run(self):
        main, stood = threading.main_thread().ident, 0
        while stood < 100:  # looks, between each of which it could have gone on
            frame = sys._current_frames()[main]
            before = frame.f_lasti
            time.sleep(0.001)
            stood = stood + 1 if frame.f_code.co_name == "wait" and frame.f_lasti == before else 0
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        self.stopping.wait()

compactor.Worker = Worker
compactor.txnclient.connect = lambda addresses: nullcontext(SimpleNamespace(session=None))
sys.exit(compactor.run("nobody:1"))
"""


def test_sigterm_ends_it_whichever_thread_is_told() -> None:
    """Python runs the handler in the main thread, which a signal that another one takes does not wake."""
    assert subprocess.run([sys.executable, "-c", ANOTHER_THREAD_IS_TOLD], timeout=20).returncode == 0
