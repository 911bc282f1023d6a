"""The lock table: modes, queue, upgrades, age; against a model of a few lines, and over every small case."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txnparticipant.locks.locks import (
    COMPATIBLE,
    Answer,
    Claim,
    Lock,
    LockTable,
    Mode,
    Otherwise,
    Request,
    Verdict,
    parent_of,
    with_parents,
)
from txnparticipant.locks.strategies import BUILT_IN, Contender, Die, Refuse, Settlement, Wait, judged
from txnstatus.errors import InternalError
from txnstatus.types import ConflictStrategy, Timestamp, TxnId

S, SW, X = Mode.S, Mode.SHARED_WRITE, Mode.X
OLD, MIDDLE, YOUNG = TxnId(1), TxnId(2), TxnId(3)
T = "air.flights"
GRANTED, WAITS, REFUSED, CIRCLE = Verdict
AT = Timestamp(1)


def ask(
    table: LockTable, txn: int, *locks: tuple[str, Mode], otherwise: Otherwise = Otherwise.WAITS, since: int = 1
) -> Verdict:
    wanted = [Lock(*lock) for lock in locks]
    answer = table.acquire(TxnId(txn), wanted, otherwise, Timestamp(since))
    table.check_invariants({OLD, MIDDLE, YOUNG, TxnId(4)})
    return answer.verdict


def holders(table: LockTable, name: str = T) -> dict[int, Mode]:
    return {
        claim.txn_id: claim.lock.mode for claim, _ in table.explained() if claim.granted and claim.lock.object == name
    }


def waiting(table: LockTable) -> list[int]:
    return [request.txn_id for request in table.queue()]


# ---- modes


@pytest.mark.parametrize(
    ("held", "asked", "together"),
    # As the matrix of Hive's design has it for S and X; shared-write is one writer, beside readers.
    [(S, S, 1), (S, SW, 1), (S, X, 0), (SW, S, 1), (SW, SW, 0), (SW, X, 0), (X, S, 0), (X, SW, 0), (X, X, 0)],
)
def test_which_modes_go_together(held: Mode, asked: Mode, together: int) -> None:
    assert COMPATIBLE[held, asked] == COMPATIBLE[asked, held] == bool(together)
    table = LockTable()
    assert ask(table, 1, (T, held)) is GRANTED
    assert ask(table, 2, (T, asked)) is (GRANTED if together else WAITS)


def test_a_higher_mode_excludes_whatever_a_lower_one_does() -> None:
    for low, high in itertools.combinations(Mode, 2):
        assert all(COMPATIBLE[low, other] or not COMPATIBLE[high, other] for other in Mode)


@pytest.mark.parametrize(
    ("name", "parent"),
    [("air", None), (T, "air"), (f"{T}/a=1", T), (f"{T}/a=1/b=2", f"{T}/a=1"), (f"{T}/a=1.5", T)],
)
def test_parents(name: str, parent: str | None) -> None:
    assert parent_of(name) == parent


def test_parents_are_locked_in_s_and_what_is_locked_is_sorted() -> None:
    locks = with_parents([Lock(f"{T}/a=1/b=2", X), Lock(f"{T}/a=1", SW), Lock("air.b", S)])
    assert locks == (Lock("air", S), Lock("air.b", S), Lock(T, S), Lock(f"{T}/a=1", SW), Lock(f"{T}/a=1/b=2", X))
    assert with_parents([Lock(T, X), Lock(f"{T}/a=1", S)]) == (Lock("air", S), Lock(T, X), Lock(f"{T}/a=1", S))


# ---- the queue


def test_a_request_is_granted_as_a_whole_or_waits_as_a_whole() -> None:
    table = LockTable()
    ask(table, 1, ("b", X))
    assert ask(table, 2, ("a", X), ("b", X)) is WAITS
    assert holders(table, "a") == {}
    assert table.release(OLD) == (MIDDLE,)
    assert (holders(table, "a"), holders(table, "b")) == ({2: X}, {2: X})


def test_nobody_overtakes_an_earlier_request_that_it_is_not_compatible_with() -> None:
    """Else readers would keep a writer waiting for ever."""
    table = LockTable()
    ask(table, 1, (T, S))
    assert ask(table, 2, (T, X)) is WAITS
    assert ask(table, 3, (T, S)) is WAITS
    assert ask(table, 4, ("other", X)) is GRANTED
    assert table.release(OLD) == (MIDDLE,)
    assert table.release(MIDDLE) == (YOUNG,)


def test_what_is_compatible_with_all_before_it_goes_ahead() -> None:
    table = LockTable()
    ask(table, 1, (T, SW))
    assert ask(table, 2, (T, SW)) is WAITS
    assert ask(table, 3, (T, S)) is GRANTED


def test_all_readers_in_a_row_are_let_in_together() -> None:
    table = LockTable()
    ask(table, 1, (T, X))
    for txn in (2, 3, 4):
        assert ask(table, txn, (T, S)) is WAITS
    assert table.release(OLD) == (2, 3, 4)


def test_a_repeated_request_keeps_its_place() -> None:
    table = LockTable()
    ask(table, 1, (T, X))
    for txn in (2, 3, 2, 2):
        assert ask(table, txn, (T, X), since=txn) is WAITS
    assert waiting(table) == [2, 3]
    assert table.release(OLD) == (MIDDLE,)
    assert ask(table, 2, (T, X)) is GRANTED


def test_whoever_does_not_wait_leaves_the_queue_and_lets_others_by() -> None:
    table = LockTable()
    ask(table, 1, (T, S))
    ask(table, 2, (T, X))
    ask(table, 3, (T, S))
    assert ask(table, 4, (T, X), otherwise=Otherwise.REFUSED) is REFUSED
    answer = table.acquire(MIDDLE, [Lock(T, X)], Otherwise.REFUSED, AT)
    assert answer == Answer(REFUSED, (YOUNG,))
    assert holders(table) == {1: S, 3: S}


def test_the_end_of_one_that_waits_lets_others_by() -> None:
    table = LockTable()
    ask(table, 1, (T, S))
    ask(table, 2, (T, X))
    ask(table, 3, (T, S))
    assert table.release(MIDDLE) == (YOUNG,)
    assert table.release(TxnId(9)) == ()


def test_blockers_are_the_holders_and_then_those_that_wait_before() -> None:
    table = LockTable()
    ask(table, 2, (T, S), since=20)
    ask(table, 1, (T, S), since=21)
    ask(table, 3, (T, X), since=22)
    assert table.blockers(YOUNG, [Lock(T, X)]) == (
        Claim(OLD, Lock(T, S), Timestamp(21), granted=True),
        Claim(MIDDLE, Lock(T, S), Timestamp(20), granted=True),
    )
    (only,) = table.blockers(TxnId(4), [Lock(T, S)])
    assert only == Claim(YOUNG, Lock(T, X), Timestamp(22), granted=False)
    assert table.blockers(TxnId(4), [Lock("other", X)]) == ()


def test_of_many_in_the_way_ten_are_named() -> None:
    table = LockTable()
    for txn in range(1, 31):
        table.acquire(TxnId(txn), [Lock(T, X)], Otherwise.WAITS, AT)
    *_, (last, blocked_by) = table.explained()
    assert last.txn_id == 30
    assert blocked_by == tuple(range(1, 11))
    assert len(table.blockers(last.txn_id, [last.lock])) == 29


# ---- upgrades


def test_the_only_holder_is_upgraded_at_once_and_before_all_that_wait_for_it() -> None:
    table = LockTable()
    ask(table, 1, (T, S))
    assert ask(table, 2, (T, X)) is WAITS
    assert ask(table, 1, (T, X)) is GRANTED
    assert holders(table) == {1: X}
    assert waiting(table) == [2]


def test_an_upgrade_waits_for_the_other_holders_and_what_comes_later_waits_for_it() -> None:
    table = LockTable()
    ask(table, 1, (T, S))
    ask(table, 2, (T, S))
    assert ask(table, 1, (T, X)) is WAITS
    assert ask(table, 3, (T, S)) is WAITS
    assert table.release(MIDDLE) == (OLD,)
    assert holders(table) == {1: X}


def test_two_upgrades_would_wait_for_each_other_so_the_second_is_refused() -> None:
    table = LockTable()
    ask(table, 1, (T, S))
    ask(table, 2, (T, S))
    assert ask(table, 1, (T, X)) is WAITS
    assert ask(table, 2, (T, X)) is CIRCLE
    assert holders(table) == {1: S, 2: S}


def test_a_lower_mode_than_the_one_held_is_held_already() -> None:
    table = LockTable()
    ask(table, 1, (T, X))
    ask(table, 2, (T, X))
    assert ask(table, 1, (T, S)) is GRANTED
    assert holders(table) == {1: X}


def test_a_circle_of_three_is_refused_by_whoever_would_close_it() -> None:
    table = LockTable()
    for txn, name in enumerate("abc", 1):
        ask(table, txn, (name, X))
    assert ask(table, 1, ("b", X)) is WAITS
    assert ask(table, 2, ("c", X)) is WAITS
    assert ask(table, 3, ("a", X)) is CIRCLE


# ---- what strategies say


def contenders(table: LockTable, txn: int, *locks: Lock) -> tuple[list[Contender], list[Contender]]:
    def made(claim: Claim) -> Contender:
        lock = claim.lock
        return Contender(claim.txn_id, "ada", "", lock.object, lock.mode, claim.granted, prepared=False)

    asking = [made(Claim(TxnId(txn), lock, AT, granted=False)) for lock in locks]
    return asking, list(map(made, table.blockers(TxnId(txn), locks)))


def says(strategy: str, table: LockTable, txn: int, *locks: Lock) -> Settlement:
    """As the leader asks: only if anybody is in the way."""
    asking, others = contenders(table, txn, *locks)
    return judged(strategy, BUILT_IN[strategy], asking, others) if others else Wait()


def test_wait_die_the_older_waits_for_the_younger() -> None:
    """As in Kudu: requester id < holder id waits."""
    table = LockTable()
    ask(table, YOUNG, (T, X))
    assert says("wait-die", table, OLD, Lock(T, X)) == Wait()


def test_wait_die_the_younger_dies_of_the_older_and_is_told_of_whom() -> None:
    """As in Kudu: requester id > holder id dies."""
    table = LockTable()
    ask(table, OLD, (T, X))
    assert says("wait-die", table, YOUNG, Lock(T, X)) == Die(f"transaction 1 holds X on {T}, and is older: wait-die")
    assert says("wait-die", table, YOUNG, Lock("other", X)) == Wait()


def test_wait_die_counts_those_that_wait_before_it_too() -> None:
    table = LockTable()
    ask(table, YOUNG, (T, S))
    ask(table, OLD, (T, X))
    assert says("wait-die", table, MIDDLE, Lock(T, X)) == Die(
        f"transaction 1 waits for X on {T}, and is older: wait-die"
    )


def test_wound_wait_the_older_wounds_the_younger_and_the_younger_waits() -> None:
    table = LockTable()
    ask(table, MIDDLE, (T, X))
    assert says("wound-wait", table, YOUNG, Lock(T, X)) == Wait((), in_circles=True)
    ask(table, YOUNG, (T, X))
    assert says("wound-wait", table, OLD, Lock(T, X)) == Wait((MIDDLE, YOUNG), in_circles=True)


def test_the_others_that_come_with_the_service() -> None:
    table = LockTable()
    ask(table, OLD, (T, X))
    for txn in (YOUNG, 0):
        assert says("wait", table, txn, Lock(T, X)) == Wait()
        assert (
            says("no-wait", table, txn, Lock(T, X)) == says("first-committer-wins", table, txn, Lock(T, X)) == Refuse()
        )
    assert BUILT_IN.keys() == set(ConflictStrategy)


class Answers:
    """A strategy that answers with what it is given, or raises it."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def settle(self, asking: object, in_the_way: object) -> Settlement:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ZeroDivisionError("by zero"), "raised ZeroDivisionError: by zero"),
        (SystemExit(3), "raised SystemExit: 3"),
        (None, "answered with a NoneType"),
        ("wait", "answered with a str"),
        (Wait, "answered with a type"),
        (Wait((TxnId(9),)), "answered with a Wait"),
        (Wait(([],)), "answered with a Wait"),  # type: ignore[arg-type]
        (Wait(5), "answered with a Wait"),  # type: ignore[arg-type]
        (Wait(in_circles="yes"), "answered with a Wait"),  # type: ignore[arg-type]
        (Die(None), "answered with a Die"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_answer_is_told_with_the_name_of_the_strategy(answer: object, says: str) -> None:
    table = LockTable()
    ask(table, OLD, (T, X))
    with pytest.raises(InternalError, match=f"the conflict strategy 'mine' {says}.*transaction 3 and {T}"):
        judged("mine", Answers(answer), *contenders(table, YOUNG, Lock(T, X)))
    assert holders(table) == {1: X}


# ---- over every small case

Held = frozenset[tuple[int, int, Mode]]
World = tuple[Held, tuple[tuple[tuple[int, Mode], ...], ...], frozenset[int]]
"""What is held (participant, transaction, mode), who waits at each participant, who has ended."""
TXNS = (1, 2, 3)
PARTICIPANTS = (0, 1)


def tables_of(world: World) -> list[LockTable]:
    held, queues, _ = world
    tables = []
    for participant in PARTICIPANTS:
        table = LockTable()
        for where, txn, mode in sorted(held):
            if where == participant:
                table.restore_held(Claim(TxnId(txn), Lock("t", mode), AT, granted=True))
        table.restore_queue(Request(TxnId(txn), (Lock("t", mode),), AT) for txn, mode in queues[participant])
        tables.append(table)
    return tables


def world_of(tables: list[LockTable], ended: frozenset[int]) -> World:
    held = frozenset(
        (where, claim.txn_id, claim.lock.mode)
        for where, table in enumerate(tables)
        for claim, _ in table.explained()
        if claim.granted
    )
    queues = tuple(tuple((r.txn_id, r.locks[0].mode) for r in table.queue()) for table in tables)
    return held, queues, ended


def steps(world: World, strategy: str) -> Iterator[World]:
    """Whoever does not wait asks for a lock, or ends. Whoever waits can do nothing."""
    _, queues, ended = world
    waits = {txn for queue in queues for txn, _ in queue}
    for txn in set(TXNS) - ended - waits:
        for where, mode in itertools.product(PARTICIPANTS, Mode):
            tables = tables_of(world)
            said = says(strategy, tables[where], txn, Lock("t", mode))
            dead = isinstance(said, Die)
            if isinstance(said, Wait):
                otherwise = Otherwise.WAITS_IN_CIRCLES if said.in_circles else Otherwise.WAITS
                answer = tables[where].acquire(TxnId(txn), [Lock("t", mode)], otherwise, AT)
                dead = answer.verdict is CIRCLE
            gone = ended | {txn} if dead else ended
            for table in tables:
                if dead:
                    table.release(TxnId(txn))
                table.check_invariants(set(map(TxnId, TXNS)) - ended)
            gone |= abort_all(tables, strategy)
            yield world_of(tables, gone)
        tables = tables_of(world)
        for table in tables:
            table.release(TxnId(txn))
        yield world_of(tables, ended | {txn})


def abort_all(tables: list[LockTable], strategy: str) -> frozenset[int]:
    """As long as somebody who waits has others aborted, they are."""
    gone: set[int] = set()
    while True:
        dying: set[TxnId] = set()
        for table in tables:
            for request in table.queue():
                said = says(strategy, table, request.txn_id, *request.locks)
                assert isinstance(said, Wait), f"{request} waits, and is judged otherwise now"
                dying.update(said.abort)
        if not dying:
            return frozenset(gone)
        gone |= dying
        for table in tables:
            for victim in dying:
                table.release(victim)


def reachable(strategy: str) -> set[World]:
    start: World = frozenset(), ((), ()), frozenset()
    seen, left = {start}, [start]
    while left:
        for after in steps(left.pop(), strategy):
            if after not in seen:
                seen.add(after)
                left.append(after)
    return seen


def stuck(world: World) -> bool:
    """Somebody has not ended, and nobody can act."""
    _, queues, ended = world
    return bool(set(TXNS) - ended) and set(TXNS) - ended <= {txn for queue in queues for txn, _ in queue}


@pytest.mark.parametrize(("strategy", "who_waits"), [("wait-die", min), ("wound-wait", max)])
def test_age_ends_every_deadlock_over_two_participants(
    strategy: str, who_waits: Callable[[TxnId, TxnId], TxnId]
) -> None:
    """With wait-die the older one of two waits, with wound-wait the younger one."""
    worlds = reachable(strategy)
    assert len(worlds) > 1_000
    for world in worlds:
        assert not stuck(world), world
        for table in tables_of(world):
            for request in table.queue():
                for blocker in table.blockers(request.txn_id, request.locks):
                    assert request.txn_id != blocker.txn_id
                    assert request.txn_id == who_waits(request.txn_id, blocker.txn_id), f"the wrong one waits: {world}"


@pytest.mark.campaign
def test_without_age_there_are_deadlocks_over_two_participants_and_none_on_one() -> None:
    """So the search above would have found one; what ends these is the bound on waiting."""
    deadlocks = [world for world in reachable("wait") if stuck(world)]
    assert deadlocks
    assert all(all(queues) for _, queues, _ in deadlocks), "on one participant, a circle is refused"


# ---- against a model


class Model:
    """The rules as sentences, in no hurry."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, str], Mode] = {}
        self.queue: list[tuple[int, tuple[Lock, ...]]] = []

    def waits_for(self, txn: int, locks: tuple[Lock, ...], earlier: list[tuple[int, tuple[Lock, ...]]]) -> set[int]:
        found = set()
        for lock in locks:
            own = self.held.get((txn, lock.object))
            for (other, name), mode in self.held.items():
                if other != txn and name == lock.object and not COMPATIBLE[lock.mode, mode]:
                    found.add(other)
            for other, theirs in earlier:
                for their in theirs:
                    clash = their.object == lock.object and not COMPATIBLE[lock.mode, their.mode]
                    they_wait_for_me = own is not None and not COMPATIBLE[own, their.mode]
                    if other != txn and clash and not they_wait_for_me:
                        found.add(other)
        return found

    def acquire(self, txn: int, locks: tuple[Lock, ...], otherwise: Otherwise) -> Verdict:
        if all(self.held.get((txn, lock.object), 0) >= lock.mode for lock in locks):
            return GRANTED
        if (txn, locks) in self.queue:
            if otherwise is Otherwise.REFUSED:
                self.queue.remove((txn, locks))
                self.let_in()
                return REFUSED
            return WAITS
        blockers = self.waits_for(txn, locks, self.queue)
        if not blockers:
            self.grant(txn, locks)
            return GRANTED
        if otherwise is Otherwise.REFUSED:
            return REFUSED
        reached = set(blockers)
        while True:
            further = {
                other
                for n, (waiter, theirs) in enumerate(self.queue)
                if waiter in reached
                for other in self.waits_for(waiter, theirs, self.queue[:n])
            }
            if further <= reached:
                break
            reached |= further
        if txn in reached and otherwise is not Otherwise.WAITS_IN_CIRCLES:
            return CIRCLE
        self.queue.append((txn, locks))
        return WAITS

    def grant(self, txn: int, locks: tuple[Lock, ...]) -> None:
        for lock in locks:
            self.held[txn, lock.object] = max(lock.mode, self.held.get((txn, lock.object), lock.mode))

    def let_in(self) -> None:
        """One after the other from the front, until nobody can be let in any more."""
        for n, (txn, locks) in enumerate(self.queue):
            if not self.waits_for(txn, locks, self.queue[:n]):
                del self.queue[n]
                self.grant(txn, locks)
                return self.let_in()
        return None

    def release(self, txn: int) -> None:
        self.held = {key: mode for key, mode in self.held.items() if key[0] != txn}
        self.queue = [(other, locks) for other, locks in self.queue if other != txn]
        self.let_in()


names = st.sampled_from(["t", "t/a=1", "t/a=2"])
requests = st.lists(st.tuples(names, st.sampled_from(Mode)), min_size=1, max_size=3)
acquisitions = st.tuples(st.integers(1, 5), requests, st.sampled_from(Otherwise))
commands = st.lists(st.one_of(acquisitions, acquisitions, acquisitions, st.integers(1, 5)), max_size=40)


@settings(deadline=None, max_examples=500)
@given(commands)
def test_it_does_what_the_model_does(steps: list[tuple[int, list[tuple[str, Mode]], Otherwise] | int]) -> None:
    table, model = LockTable(), Model()
    live = set(map(TxnId, range(1, 6)))
    for step in steps:
        before = table.queue()
        if isinstance(step, int):
            let_in = table.release(TxnId(step))
            model.release(step)
        else:
            txn, asked, otherwise = step
            locks = with_parents(Lock(*lock) for lock in asked)
            answer = table.acquire(TxnId(txn), locks, otherwise, AT)
            assert answer.verdict is model.acquire(txn, locks, otherwise)
            let_in = answer.let_in
        table.check_invariants(live)
        assert {(c.txn_id, c.lock.object): c.lock.mode for c, _ in table.explained() if c.granted} == model.held
        assert [(r.txn_id, r.locks) for r in table.queue()] == model.queue
        asker = step if isinstance(step, int) else step[0]
        assert {r.txn_id for r in before} - {r.txn_id for r in table.queue()} - {asker} <= set(let_in)
