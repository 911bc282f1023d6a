"""A status leader in one replicated log: what is volatile, what is in the log, and what the clients were told.

This is the part of status/service.py and of Raft that the search needs: which command is proposed when, in which order
entries apply, and what a change of leaders loses. What is decided, the cores decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tests.exhaustive import invariants
from tests.exhaustive.cores import KEEPALIVE_MILLIS, Done, StatusCore
from tests.exhaustive.one_log import Command
from tests.exhaustive.shards import ShardCore
from tests.exhaustive.values import OWNER, Error, Interned
from tests.exhaustive.violation import require
from txnparticipant.shard.commands import AddFiles, encode
from txnstatus.errors import TxnAborted
from txnstatus.status import commands as cmd
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.events import Decided, Effect, Propose
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import DECIDED, AbortCause, AbortCode, Participant, ParticipantId, Timestamp, TxnId

PARTICIPANTS = (ParticipantId("0.0"), ParticipantId("1.0"))
PREPARES_HERE = (Timestamp(16), Timestamp(13))
"""When each transaction prepares on tables that are here: clocks of leaders do not keep the order of events."""
REQUESTED = AbortCause(AbortCode.REQUESTED, "abort was called", OWNER)


class Entry(NamedTuple):
    command: Command
    own: bool
    """Whether the manager itself proposes it, not for a client."""


class State(NamedTuple):
    table: int
    manager: int
    log: tuple[Entry, ...]
    """Entries that are proposed and not applied yet."""
    applied: tuple[tuple[cmd.Command, Done | Error], ...]
    """Commands that have applied, and of which the manager has not heard yet."""
    told: tuple[tuple[TxnId, bool], ...]
    """Outcomes that were given away: committed or not."""


class Step(NamedTuple):
    after: int
    messages: tuple[tuple[object, ...], ...]
    """What it sends."""


class View(NamedTuple):
    """What others may know of a state: they behave alike in two states with the same view."""

    table: int
    told: tuple[tuple[TxnId, bool], ...]
    pending: frozenset[Command]
    """Commands on their way to an answer."""


class Coordinator:
    """Numbered states, and the steps between them. Steps are computed once."""

    def __init__(self, here: Mapping[ParticipantId, ShardCore]) -> None:
        """`here`: tables in the same log."""
        self.here = here
        self.core = StatusCore(invariants.status_step, here)
        self.states = Interned[State]()
        self.views = Interned[View]()
        self.view_of: list[int] = []
        self._steps: dict[tuple[object, ...], Step | None] = {}
        self.start = self.leader_change_of(State(self.core.start, 0, (), (), ()), 0).after

    def table(self, number: int) -> TxnStatusTable:
        return self.core.table(self.states.values[number].table)

    def shards(self, number: int) -> tuple[int, ...]:
        """The states of the tables in the same log."""
        return self.core.shards(self.states.values[number].table)

    # ---- what happens by itself. None: nothing would happen

    def apply_next(self, number: int) -> Step | None:
        def step(state: State) -> Step:
            command = state.log[0].command
            table, outcome = self.core.apply(state.table, command)
            after = state._replace(table=table, log=state.log[1:])
            if isinstance(command, cmd.Command):  # the manager does not hear of what is a shard's
                after = after._replace(applied=(*state.applied, (command, outcome)))
            return self._to(after)

        return self._once(("apply", number), step) if self.states.values[number].log else None

    def hear_of_next(self, number: int) -> Step | None:
        """The proposer of the oldest applied command hears of it, and the manager before it."""

        def step(state: State) -> Step:
            command, outcome = state.applied[0]
            manager, effects = self.core.notify(state.table, state.manager, command, outcome)
            told = self._told(state, command, outcome)
            heard = state._replace(manager=manager, applied=state.applied[1:], told=told)
            return self._after(heard, effects, _answer_to_register(command, outcome))

        return self._once(("hear", number), step) if self.states.values[number].applied else None

    def retry(self, number: int) -> Step | None:
        """All waits are over."""

        def step(state: State) -> Step:
            manager, effects = self.core.retry(state.table, state.manager)
            return self._after(state._replace(manager=manager), effects)

        found = self._once(("retry", number), step)
        return None if found == Step(number, ()) else found

    def expire(self, number: int, txn_id: TxnId) -> Step:
        """The staleness pass finds the transaction silent."""

        def step(state: State) -> Step:
            manager, effects = self.core.expire(state.table, state.manager, txn_id)
            return self._after(state._replace(manager=manager), effects)

        return self._once(("expire", number, txn_id), step)

    def may_expire(self, number: int) -> list[TxnId]:
        manager = self.core.managers.values[self.states.values[number].manager]
        return [txn_id for txn_id, expiring, _looks in manager.open if not expiring]

    def calls(self, number: int) -> list[SendOp]:
        """Calls that wait for an answer."""
        manager = self.core.managers.values[self.states.values[number].manager]
        return [
            SendOp(task.txn_id, participant, task.op, task.commit_ts)
            for task in manager.tasks
            for participant, _answered, in_flight, _waiting in task.progress
            if in_flight
        ]

    # ---- faults

    def leader_change(self, number: int, kept: int) -> Step:
        """What was in memory is gone; of the log, the first `kept` proposals survive."""
        return self._once(("leader", number, kept), lambda state: self.leader_change_of(state, kept))

    def leader_change_of(self, state: State, kept: int) -> Step:
        table = state.table
        for entry in state.log[:kept]:
            table, _outcome = self.core.apply(table, entry.command)
        manager, effects = self.core.gain(table)
        return self._after(State(table, manager, (), (), state.told), effects)

    def failing(self, number: int) -> list[tuple[int, bool]]:
        """Own proposals that may fail under a leader that stays: position in the log, and whether it applies yet.

        An Expire of unknown fate is left out: Raft tells of one only with the end of the leadership.
        """
        log = self.states.values[number].log
        return [
            (position, kept)
            for position, entry in enumerate(log)
            for kept in (False, True)
            if entry.own and not (kept and isinstance(entry.command, cmd.Expire))
        ]

    def proposal_fails(self, number: int, position: int, kept: bool) -> Step:
        def step(state: State) -> Step:
            entry = state.log[position]
            assert isinstance(entry.command, cmd.Command)  # only the manager's own
            manager, effects = self.core.proposal_failed(state.table, state.manager, entry.command)
            log = state.log if kept else state.log[:position] + state.log[position + 1 :]
            return self._after(state._replace(manager=manager, log=log), effects)

        return self._once(("fails", number, position, kept), step)

    # ---- what arrives

    def begin(self, number: int, client: int, first_writes: tuple[Participant, ...] = ()) -> Step:
        name = client_name(client)
        begin = cmd.BeginTxns(name, 1, OWNER, name, KEEPALIVE_MILLIS, 1, participants=first_writes)
        return self._propose(number, begin)

    def register(self, number: int, txn_id: TxnId, participant: int) -> Step:
        who = PARTICIPANTS[participant]
        return self._propose(number, cmd.RegisterParticipants(txn_id, OWNER, (Participant(who, f"table {who}"),)))

    def write(self, number: int, command: AddFiles) -> Step:
        """To a table that is here."""
        return self._propose(number, replace(command, begins=True, registers=True))

    def commit(self, number: int, txn_id: TxnId, last: tuple[AddFiles, ...] = ()) -> Step:
        """`last`: writes to tables that are here, with which nobody is asked to prepare early."""
        writes = tuple(
            cmd.LastWrite(ParticipantId(write.table_id), encode(replace(write, begins=True, registers=True)))
            for write in last
        )
        begin = cmd.BeginCommit(txn_id, OWNER, 1, PREPARES_HERE[txn_id], writes)

        def step(state: State) -> Step:
            if writes:
                return self._after(state, (), then=begin)
            manager, effects = self.core.request_commit(state.table, state.manager, txn_id)
            return self._after(state._replace(manager=manager), effects, then=begin)

        return self._once(("commit", number, begin), step)

    def abort(self, number: int, txn_id: TxnId) -> Step:
        return self._propose(number, cmd.BeginAbort(txn_id, OWNER, REQUESTED, 1))

    def answer(self, number: int, send: SendOp, timestamp: Timestamp, error: Error | None) -> Step:
        def step(state: State) -> Step:
            manager, effects = self.core.answer(state.table, state.manager, send, timestamp, error)
            return self._after(state._replace(manager=manager), effects)

        return self._once(("answer", number, send, timestamp, error), step)

    # ---- inside

    def _propose(self, number: int, command: Command) -> Step:
        def step(state: State) -> Step:
            return self._to(state._replace(log=(*state.log, Entry(command, own=False))))

        return self._once(("propose", number, command), step)

    def _once(self, key: tuple[object, ...], step: Callable[[State], Step]) -> Step:
        known = self._steps.get(key)
        if known is None:
            number = key[1]
            assert isinstance(number, int)
            known = self._steps[key] = step(self.states.values[number])
        return known

    def _after(
        self,
        state: State,
        effects: Iterable[Effect],
        messages: tuple[tuple[object, ...], ...] = (),
        then: Command | None = None,
    ) -> Step:
        """Performs the effects; `then` is what the shell proposes itself."""
        log, told = list(state.log), dict(state.told)
        sent: list[tuple[object, ...]] = list(messages)
        table = self.core.table(state.table)
        for effect in effects:
            match effect:
                case Propose(command):
                    log.append(Entry(command, own=True))
                case SendOp():
                    sent.append(("op", effect))
                case Decided(record):
                    told[record.txn_id] = invariants.acknowledged(table, record)
        if then is not None:
            log.append(Entry(then, own=False))
        return self._to(state._replace(log=tuple(log), told=tuple(sorted(told.items()))), tuple(sent))

    def _told(self, state: State, command: cmd.Command, outcome: Done | Error) -> tuple[tuple[TxnId, bool], ...]:
        """A client that asks for a commit is told at once where the outcome is known."""
        told = dict(state.told)
        if isinstance(command, cmd.BeginCommit):
            table = self.core.table(state.table)
            refused = isinstance(outcome, Error) and issubclass(outcome.kind, TxnAborted)
            record = table.get(command.txn_id)
            if refused or record.state in DECIDED:
                told[command.txn_id] = not refused and invariants.acknowledged(table, record)
        return tuple(sorted(told.items()))

    def _to(self, state: State, messages: tuple[tuple[object, ...], ...] = ()) -> Step:
        number = self.states(state)
        if number == len(self.view_of):
            commands = (*(entry.command for entry in state.log if not entry.own), *(c for c, _ in state.applied))
            self.view_of.append(self.views(View(state.table, state.told, frozenset(commands))))
            self._check(state)
        return Step(number, messages)

    def _check(self, state: State) -> None:
        if state.applied:
            return  # the manager is about to hear of it
        self.core.check_manager(state.table, state.manager)
        for entry in state.log:
            if isinstance(entry.command, cmd.Expire) and entry.own:
                alive = self.core.keep_alive(state.table, state.manager, entry.command.txn_id) is None
                story = f"transaction {entry.command.txn_id} is told that it lives, with its Expire in the log"
                require(not alive, invariants.EXPIRY, story)


def _answer_to_register(command: cmd.Command, outcome: Done | Error) -> tuple[tuple[object, ...], ...]:
    if not isinstance(command, cmd.RegisterParticipants):
        return ()
    kind = "refused" if isinstance(outcome, Error) else "registered"
    return ((kind, command.txn_id, PARTICIPANTS.index(command.participants[0][0])),)


def client_name(client: int) -> str:
    return f"client-{client}"
