"""The checker of histories: it agrees with trying out every order, and sees each kind of broken promise."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator

import pytest

from tests.faults.history import Answer, Begin, Call, History, Kind, Scan, problems, shortfalls, steps_of
from tests.faults.linear import Model, Moves, Step, TooHard, linearizable, observed
from txnstatus.types import AbortCause, AbortCode, Timestamp, TxnId, TxnState

OPEN, COMMITTING, COMMITTED = TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS, TxnState.COMMITTED
ABORTED, FINALIZING, ABORTING = TxnState.ABORTED, TxnState.FINALIZE_IN_PROGRESS, TxnState.ABORT_IN_PROGRESS
EXPIRED = AbortCause(AbortCode.EXPIRED, "silent", "staleness tracker")
ASKED = AbortCause(AbortCode.REQUESTED, "", "me")
T0 = TxnId(0)


# ---- against trying out everything


def _possible(steps: list[Step], moves: Moves) -> bool:
    """By definition: some order of some of the optional steps, with moves of the service anywhere between."""
    numbers = range(len(steps))
    optional = [number for number in numbers if steps[number].optional]
    for size in range(len(optional) + 1):
        for dropped in itertools.combinations(optional, size):
            for order in itertools.permutations([number for number in numbers if number not in dropped]):
                if _in_time(steps, order) and _path(steps, order, OPEN, moves):
                    return True
    return False


def _in_time(steps: list[Step], order: tuple[int, ...]) -> bool:
    return not any(steps[b].returned < steps[a].invoked for a, b in itertools.combinations(order, 2))


def _path(steps: list[Step], order: tuple[int, ...], state: TxnState, moves: Moves) -> bool:
    if not order:
        return True
    first = steps[order[0]]
    if state in first.allowed and _path(steps, order[1:], (first.effect or {}).get(state, state), moves):
        return True
    return any(_path(steps, order, target, moves) for target in moves.get(state, ()))


def _random_history(dice: random.Random) -> tuple[list[Step], Model]:
    model = Model(dice.random() < 0.3, dice.random() < 0.3, dice.random() < 0.3)
    calls = []
    for _ in range(dice.randint(2, 5)):
        kind = dice.choice(list(Kind))
        invoked = dice.uniform(0, 10)
        returned = invoked + dice.uniform(0, 5)
        state, answer = None, Answer.UNKNOWN
        if kind in (Kind.COMMIT, Kind.STATE):
            state = dice.choice([OPEN, COMMITTING, FINALIZING, COMMITTED, ABORTING, ABORTED, None])
            answer = Answer.STATE if state else Answer.UNKNOWN
        elif kind is Kind.ABORT:
            answer = dice.choice([Answer.OK, Answer.OK, Answer.ILLEGAL, Answer.UNKNOWN])
        else:
            answer = dice.choice([Answer.OK, Answer.ILLEGAL, Answer.ABORTED])
        calls.append(Call(kind, T0, invoked, returned, answer, state))
    return list(steps_of(calls, model)), model


def test_it_agrees_with_trying_out_every_order() -> None:
    dice, verdicts = random.Random(5), []
    while len(verdicts) < 1_000:
        steps, model = _random_history(dice)
        if len(steps) > 6:
            continue
        verdicts.append(linearizable(steps, model.moves))
        assert verdicts[-1] == _possible(steps, model.moves), steps
    assert 200 < sum(verdicts) < 800


def test_what_it_gives_up_on_is_not_called_good() -> None:
    steps = [observed(0, 100, {state}) for state in (OPEN, COMMITTING, FINALIZING) for _ in range(5)]
    with pytest.raises(TooHard):
        linearizable(steps, {}, max_steps=1)
    assert not linearizable(steps, {})


# ---- planted faults, in a history that is good without them


def _call(kind: Kind, txn: int, at: float, answer: Answer, state: TxnState | None = None, **more: object) -> Call:
    return Call(kind, TxnId(txn), at, at + 0.5, answer, state, **more)  # type: ignore[arg-type]


def _commit(txn: int, at: float, ts: int) -> Call:
    return _call(Kind.COMMIT, txn, at, Answer.STATE, COMMITTED, commit_ts=Timestamp(ts))


def _good() -> History:
    """0 and 1 commit, 2 is aborted, 3 expires, 4's commit has an unknown outcome and happened."""
    history = History()
    for txn in range(5):
        history.add(Begin(f"r{txn}", txn, txn + 0.1, (TxnId(txn),), 4.0))
        history.written[TxnId(txn)] = ("a", "b")
        history.attempted.add(TxnId(txn))
    history.add(Begin("r1", 1.2, 1.3, (TxnId(1),), 4.0))
    history.add(_call(Kind.KEEP_ALIVE, 3, 4.0, Answer.OK))
    history.add(_commit(0, 0.2, 100))
    history.add(_commit(1, 5.0, 110))
    history.add(_call(Kind.ABORT, 2, 5.0, Answer.OK))
    history.add(_call(Kind.COMMIT, 2, 6.0, Answer.ABORTED, cause=ASKED))
    history.add(_call(Kind.COMMIT, 4, 6.0, Answer.UNKNOWN))
    history.add(_call(Kind.STATE, 4, 8.0, Answer.STATE, COMMITTED, commit_ts=Timestamp(120)))
    history.add(_call(Kind.STATE, 3, 10.0, Answer.STATE, ABORTED, cause=EXPIRED))
    history.add(Scan(7.0, Timestamp(110), {"a": (TxnId(0), TxnId(1)), "b": (TxnId(1), TxnId(0))}))
    history.add(Scan(9.0, Timestamp(110), {"a": (TxnId(0), TxnId(1)), "b": (TxnId(1), TxnId(0))}, repeated=True))
    everything = (TxnId(0), TxnId(1), TxnId(4))
    history.add(Scan(11.0, Timestamp(120), {"a": everything, "b": everything}))
    history.add(_call(Kind.STATE, 1, 30.0, Answer.FORGOTTEN))
    history.add(_call(Kind.ABORT, 2, 30.0, Answer.FORGOTTEN))
    return history


def test_a_good_history_has_no_problems() -> None:
    assert problems(_good()) == []


def _last_scan(history: History, **tables: tuple[int, ...]) -> None:
    history.add(Scan(20.0, Timestamp(120), {name: tuple(map(TxnId, ids)) for name, ids in tables.items()}))


def _plants() -> Iterator[tuple[str, str, Callable[[History], None]]]:
    state, keep = Kind.STATE, Kind.KEEP_ALIVE

    def plant(name: str, number: str, *events: Begin | Call | Scan) -> tuple[str, str, Callable[[History], None]]:
        return name, number, lambda history: [history.add(event) for event in events] and None

    ts = Timestamp
    forgotten = _call(state, 0, 12, Answer.FORGOTTEN)
    yield plant("a lost commit", "1/3", _call(state, 0, 12, Answer.STATE, OPEN))
    yield plant("a commit that turned", "1/3", _call(state, 1, 12, Answer.STATE, ABORTED))
    yield plant("a resurrected abort", "1/3", _commit(2, 12, 130))
    yield plant("a stale read", "1/3", _call(state, 4, 12, Answer.STATE, COMMITTING))
    yield plant("an abort of what is committed", "1/3", _call(Kind.ABORT, 0, 12, Answer.OK))
    yield plant("an abort refused for nothing", "1/3", _call(Kind.ABORT, 2, 12, Answer.ILLEGAL))
    yield plant("a keep-alive of the dead", "1/3", _call(keep, 3, 12, Answer.OK))
    yield plant("an acknowledged id that is gone", "1/3", _call(state, 0, 12, Answer.NOT_FOUND))
    yield plant("open after it was forgotten", "2", forgotten, _call(keep, 0, 14, Answer.OK))
    yield plant("remembered again", "2", forgotten, _call(state, 0, 14, Answer.STATE, COMMITTED, commit_ts=ts(100)))
    yield plant("an abort that nobody asked for", "1/3", Call(state, TxnId(9), 1, 2, Answer.STATE, ABORTED))
    yield plant("an id given twice", "2", Begin("other", 12, 13, (TxnId(2),), 4.0))
    yield plant("a retried begin that began again", "12", Begin("r1", 12, 13, (TxnId(9),), 4.0))
    yield plant("another commit timestamp", "2", _call(state, 0, 12, Answer.STATE, COMMITTED, commit_ts=ts(101)))
    yield plant("another reason", "2", _call(Kind.COMMIT, 2, 12, Answer.ABORTED, cause=EXPIRED))
    yield plant("expired in its interval", "9", _call(state, 3, 6.0, Answer.STATE, ABORTED, cause=EXPIRED))
    yield plant("a timestamp below an earlier commit", "6", Begin("late", 30, 31, (TxnId(9),), 4.0), _commit(9, 32, 90))
    yield plant("a snapshot that is too old", "6", Scan(20, ts(100), {"a": (T0,), "b": (T0,)}))
    yield plant("a snapshot without a commit", "3/4", Scan(20, ts(120), {"a": (T0, TxnId(1)), "b": (T0, TxnId(1))}))
    yield "half a transaction", "4", lambda history: _last_scan(history, a=(0, 1, 4), b=(0, 1))
    yield "a row written twice", "12", lambda history: _last_scan(history, a=(0, 1, 4, 4), b=(0, 1, 4))
    yield "an aborted transaction's rows", "4", lambda history: _last_scan(history, a=(0, 1, 2, 4), b=(0, 1, 2, 4))
    yield "another answer at the same time", "5", lambda history: _last_scan(history, a=(0, 1), b=(0, 1, 4))
    yield plant("rows from the future", "4", Scan(20, ts(110), {"a": (T0, TxnId(1), TxnId(4)), "b": ()}, repeated=True))


@pytest.mark.parametrize(("number", "plant"), [pytest.param(n, p, id=name) for name, n, p in _plants()])
def test_a_planted_fault_is_seen(number: str, plant: Callable[[History], None]) -> None:
    history = _good()
    plant(history)
    found = problems(history)
    assert any(problem.startswith(f"{number}: ") for problem in found), found


def test_an_unknown_outcome_may_be_either_and_is_one() -> None:
    """A commit nobody heard of may have happened at any time after it was asked for, and then it stays."""
    unknown = Call(Kind.COMMIT, T0, 0.0, 1.0, Answer.UNKNOWN)
    model = Model()
    for seen, good in (
        ([(5.0, OPEN), (6.0, OPEN)], True),
        ([(5.0, OPEN), (6.0, COMMITTED)], True),
        ([(5.0, COMMITTED), (6.0, OPEN)], False),
        ([(5.0, COMMITTING), (6.0, COMMITTED)], True),
        ([(5.0, ABORTED)], False),
    ):
        calls = [unknown, *(Call(Kind.STATE, T0, at, at, Answer.STATE, state) for at, state in seen)]
        assert linearizable(list(steps_of(calls, model)), model.moves) is good, seen
    assert math.isinf(next(iter(steps_of([unknown], model))).returned)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"committed": 10}, "10 commits"),
        ({"scans": 0}, "no scans"),
        ({"abort ok": 0}, "no abort ok"),
    ],
)
def test_a_run_without_load_is_void(change: dict[str, int], says: str) -> None:
    counts = {"committed": 100, "scans": 1, "abort ok": 1, "keep-alive ok": 1, "state state": 1}
    assert says in "".join(shortfalls(counts | change, faults=4, min_faults=4))
    assert bool(shortfalls(counts | change, faults=4, min_faults=4)) is bool(says)


def test_a_run_without_faults_is_void() -> None:
    assert "3 faults of 4" in "".join(shortfalls({}, faults=3, min_faults=4))
