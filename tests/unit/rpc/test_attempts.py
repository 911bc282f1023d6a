"""What the error says once everything was tried: it was the last silence, not the reason."""

from __future__ import annotations

from txnstatus.errors import NotTheLeader, Overloaded, Unavailable
from txnstatus.rpc.attempts import MAX_SAID_BYTES, Attempts, NoAnswer


def test_the_reason_is_told_though_the_last_attempt_was_cut_short() -> None:
    attempts = Attempts()
    attempts.failed("n1", Unavailable("the disk is full"))
    attempts.failed("n2", NoAnswer("n2 cannot be reached"))
    attempts.failed("n1", NoAnswer("n1 did not answer within 0.1 s"))
    error = attempts.error("nothing was done within 2 s", hint="look")
    assert error.message == (
        "nothing was done within 2 s, in 3 attempts; n1: the disk is full; then did not answer within 0.1 s; "
        "n2: cannot be reached"
    )
    assert (type(error), error.hint) == (Unavailable, "look")


def test_whoever_is_overloaded_is_why_though_others_say_that_they_do_not_lead() -> None:
    attempts = Attempts()
    attempts.failed("n1", Overloaded("1000 wait already"))
    attempts.failed("n2", NotTheLeader("n2 does not lead"))
    error = attempts.error("nothing was done within 2 s")
    assert isinstance(error, Overloaded)
    assert "1000 wait already" in error.message
    attempts.failed("n1", NotTheLeader("n1 does not lead any more"))
    assert not isinstance(attempts.error("nothing was done within 2 s"), Overloaded)


def test_one_that_says_much_leaves_room_for_the_others() -> None:
    attempts = Attempts()
    attempts.failed("n1", Unavailable("x" * 10_000))
    attempts.failed("n2", Unavailable("the disk is full"))
    message = attempts.error("nothing was done").message
    assert "the disk is full" in message
    assert len(message) < MAX_SAID_BYTES + 100
