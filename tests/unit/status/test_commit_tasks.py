"""CommitTask: whom to ask, and when again."""

from __future__ import annotations

from txnstatus.backoff import Backoff
from txnstatus.errors import Conflict, IllegalState, Unavailable
from txnstatus.status.commit.tasks import CommitTask, SendOp
from txnstatus.types import NO_TIMESTAMP, Participant, ParticipantId, ParticipantOpType, Timestamp, TxnId

A, B = ParticipantId("0.0"), ParticipantId("1.0")
TS = Timestamp(100)
RETRIES = Backoff(first_seconds=0.1, most_seconds=1.0, growth=2.0)


def named(*ids: ParticipantId) -> list[Participant]:
    return [Participant(each, f"t.{each}") for each in ids]


def task(op: ParticipantOpType = ParticipantOpType.BEGIN_COMMIT, *participants: ParticipantId) -> CommitTask:
    made = CommitTask(TxnId(7), op, Timestamp(0), RETRIES)
    made.include(named(*(participants or (A, B))))
    return made


def test_all_are_asked_at_once_and_nobody_twice() -> None:
    one = task()
    assert [s.participant_id for s in one.due(0.0)] == [A, B]
    assert list(one.due(1000.0)) == [], "an answer is still to come, also when that is no answer"


def test_what_is_sent_carries_the_commit_timestamp() -> None:
    one = CommitTask(TxnId(7), ParticipantOpType.FINALIZE_COMMIT, TS, RETRIES)
    one.include(named(A))
    assert list(one.due(0.0)) == [SendOp(TxnId(7), A, ParticipantOpType.FINALIZE_COMMIT, TS)]


def test_it_is_complete_when_all_have_answered() -> None:
    one = task()
    list(one.due(0.0))
    one.answered(A, TS, None, 0.0)
    assert not one.complete
    assert one.waiting_for == [B]
    one.answered(B, NO_TIMESTAMP, None, 0.0)
    assert one.complete
    assert one.highest_timestamp == TS


def test_a_task_of_nobody_is_complete() -> None:
    one = CommitTask(TxnId(7), ParticipantOpType.ABORT_TXN, TS, RETRIES)
    assert one.complete


def test_including_somebody_again_forgets_no_answer() -> None:
    one = task()
    list(one.due(0.0))
    one.answered(A, TS, None, 0.0)
    one.include(named(A, B))
    assert one.waiting_for == [B]


def test_the_first_refusal_to_prepare_is_kept() -> None:
    one = task()
    list(one.due(0.0))
    first = Conflict("first")
    one.answered(B, NO_TIMESTAMP, first, 0.0)
    one.answered(A, NO_TIMESTAMP, IllegalState("second"), 0.0)
    assert one.refusal == (B, first)
    assert list(one.due(1000.0)) == [], "who refused is not asked again"


def test_nobody_can_refuse_a_decision() -> None:
    for op in (ParticipantOpType.FINALIZE_COMMIT, ParticipantOpType.ABORT_TXN):
        one = task(op, A)
        list(one.due(0.0))
        one.answered(A, NO_TIMESTAMP, IllegalState("no"), 0.0)
        assert one.refusal is None
        assert not one.complete
        assert len(list(one.due(1000.0))) == 1


def test_the_pauses_are_spread_and_the_same_in_every_run() -> None:
    """The jitter must not be chance: a replayed run makes the same effects."""

    def pauses(txn_id: int) -> list[float]:
        one = CommitTask(TxnId(txn_id), ParticipantOpType.ABORT_TXN, TS, RETRIES)
        one.include(named(A))
        found = []
        for _ in range(3):
            list(one.due(1e9))
            one.answered(A, NO_TIMESTAMP, Unavailable("gone"), 0.0)
            found.append(one._progress[A].next_try)
        return found

    assert pauses(1) == pauses(1)
    assert len({pauses(txn_id)[0] for txn_id in range(20)}) > 10


def test_very_many_attempts_do_not_overflow_the_pause() -> None:
    one = task(ParticipantOpType.ABORT_TXN, A)
    for attempt in range(3000):
        list(one.due(float(attempt * 10)))
        one.answered(A, NO_TIMESTAMP, Unavailable("gone"), float(attempt * 10))
    assert 0.5 <= one._progress[A].next_try - 29990.0 <= 1.0
