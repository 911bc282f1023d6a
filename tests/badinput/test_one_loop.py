"""What is counted of a turn is all of it, also where others have its answer before it is over."""

from __future__ import annotations

import threading

import pytest

from tests.badinput.one_loop import Turns

STEPS = 50_000


@pytest.mark.parametrize("number", range(5))
def test_a_turn_that_answers_early_is_counted_whole(number: int) -> None:
    turns, answered = Turns(), threading.Event()

    def turn(_handle: object) -> None:
        answered.set()
        for _ in range(STEPS):
            pass

    thread = threading.Thread(target=turns.run, args=(None, turn))
    with turns.counted():
        thread.start()
        assert answered.wait(10.0)
    assert turns.most >= STEPS
    thread.join()
