"""SIGTERM inside the blocks of transactions, and around them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from txnclient.termination import EXIT_CODE, Terminated, Terminations


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


def handler() -> object:
    return signal.getsignal(signal.SIGTERM)


def test_inside_a_block_it_is_an_exception_and_a_second_one_ends_the_process() -> None:
    terminations = Terminations()
    terminations.enter()
    with pytest.raises(Terminated) as raised:
        os.kill(os.getpid(), signal.SIGTERM)
    assert raised.value.code == EXIT_CODE
    assert str(raised.value) == "SIGTERM"
    assert handler() is signal.SIG_DFL
    terminations.leave()
    assert handler() is signal.SIG_DFL


def test_it_is_given_back_with_the_outermost_block() -> None:
    terminations = Terminations()
    terminations.enter()
    terminations.enter()
    terminations.leave()
    assert handler() is not signal.SIG_DFL
    terminations.leave()
    assert handler() is signal.SIG_DFL


def test_a_handler_of_the_program_stays_whenever_it_came() -> None:
    terminations, theirs = Terminations(), lambda *_: None
    signal.signal(signal.SIGTERM, theirs)
    terminations.enter()
    assert handler() is theirs
    terminations.leave()
    assert handler() is theirs
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    terminations.enter()
    signal.signal(signal.SIGTERM, theirs)
    terminations.leave()
    assert handler() is theirs


def test_one_that_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    terminations = Terminations()
    terminations.enter()
    os.kill(os.getpid(), signal.SIGTERM)
    terminations.leave()
    assert handler() is signal.SIG_IGN


def test_other_threads_do_nothing() -> None:
    terminations = Terminations()
    thread = threading.Thread(target=lambda: (terminations.enter(), terminations.leave()))
    thread.start()
    thread.join()
    assert handler() is signal.SIG_DFL


def test_a_forked_child_ends_at_once() -> None:
    """What it has on its stack is its parent's, and so is the transaction."""
    terminations = Terminations()
    terminations.enter()
    child = os.fork()
    if not child:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os._exit(7)
    _, status = os.waitpid(child, 0)
    terminations.leave()
    assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
