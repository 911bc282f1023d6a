"""Everything that can happen next: clients, messages, two tables and the status leader, put together.

A state is seven small numbers. Each part's steps are computed once, by the shipped code, and looked up from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.exhaustive import clients as client_side
from tests.exhaustive import invariants
from tests.exhaustive.clients import Client, Clients, Config
from tests.exhaustive.coordinator import PARTICIPANTS, Coordinator, Step
from tests.exhaustive.messages import Mail, Message, tell
from tests.exhaustive.shards import write_of
from tests.exhaustive.tables import Tables, added
from tests.exhaustive.values import Error, Interned
from txnparticipant.shard.commands import AddFiles
from txnstatus.errors import Unavailable
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import TERMINAL, Participant, Timestamp, TxnId

Action = tuple[object, ...]
State = tuple[int, int, int, int, int, int, int]
"""Coordinator, table A, table B, clients, messages on their way; leader changes and faults that may still come."""
Moves = list[tuple[Action, Step]]

UNANSWERED = Error(Unavailable, "nobody answered", None)


class World:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.tables = Tables(config)
        self._here = frozenset(PARTICIPANTS[table] for table in config.here)
        self.coordinator = Coordinator({PARTICIPANTS[table]: self.tables.cores[table] for table in config.here})
        self.mail = Mail()
        self.clients = Interned[Clients]()
        self._own: dict[int, Moves] = {}
        self._leader_changes: dict[int, Moves] = {}
        self._failures: dict[int, Moves] = {}
        self._calls: dict[int, list[tuple[Action, SendOp, Step]]] = {}
        self._deliveries: dict[tuple[int, ...], tuple[int, int, tuple[Message, ...]]] = {}
        self._client_steps: dict[tuple[int, ...], list[tuple[Action, int, Message, frozenset[int]]]] = {}
        self._checked: set[tuple[int, int, int]] = set()
        self.attempt: Action = ()
        """What was being tried when a Violation was raised."""

    def start(self) -> State:
        clients = self.clients(tuple(Client() for _ in self.config.writes))
        a, b = self.tables.start
        state: State = (
            self.coordinator.start,
            a,
            b,
            clients,
            self.mail.empty,
            self.config.crashes,
            self.config.faults,
        )
        return self._written(state) if self.config.written else state

    def _written(self, state: State) -> State:
        while True:
            opening = (after for action, after in self._by_clients(state) if action[0] in ("begin", "open", "write"))
            step = self._calm_step(state)
            following = step[1] if step else next(opening, None)
            if following is None:
                return state
            state = self._with_own(following)

    # ---- what can happen

    def successors(self, state: State) -> Iterator[tuple[Action, State]]:
        if not self._here:
            return self._successors(state)
        return ((action, self._with_own(after)) for action, after in self._successors(state))

    def _with_own(self, state: State) -> State:
        """Tables in the log of the status record are what its entries have made of them."""
        numbers = list(state[1:3])
        for table, number in zip(self.config.here, self.coordinator.shards(state[0]), strict=True):
            numbers[table] = 2 * number
        return (state[0], *numbers, *state[3:])  # type: ignore[return-value]

    def _successors(self, state: State) -> Iterator[tuple[Action, State]]:
        co, a, b, clients, mail, crashes, faults = state
        room = self.config.in_flight - len(self.mail.bags[mail])
        put = self.mail.put
        for action, step in self._own.get(co) or self._own_moves(co):
            if len(step.messages) <= room:
                yield action, (step.after, a, b, clients, put(mail, step.messages), crashes, faults)
        if crashes:
            for action, step in self._leader_changes.get(co) or self._leader_moves(co):
                if len(step.messages) <= room:
                    yield action, (step.after, a, b, clients, put(mail, step.messages), crashes - 1, faults)
        yield from self._by_mail(state, room)
        for action, send, step in self._timeouts(co):
            late = send in self.mail.calls(mail)  # then it is a fault; else the request or its answer was lost
            if late <= faults:
                yield action, (step.after, a, b, clients, mail, crashes, faults - late)
        if room > 0:
            yield from self._by_clients(state)
        if faults:
            yield from self._by_faults(state, room)

    def _by_mail(self, state: State, room: int) -> Iterator[tuple[Action, State]]:
        co, a, b, clients, mail, crashes, faults = state
        last = -1
        for message in self.mail.bags[mail]:
            if message == last:
                continue
            last = message
            rest = self.mail.take(mail, message)
            co2, a2, b2, clients2, sent = self._deliver(message, co, a, b, clients)
            if len(sent) <= room + 1 and self._fits(co2):
                yield ("deliver", message), (co2, a2, b2, clients2, self.mail.put(rest, sent), crashes, faults)
                if faults and len(sent) <= room:
                    kept = self.mail.put(mail, sent)
                    yield ("deliver and keep", message), (co2, a2, b2, clients2, kept, crashes, faults - 1)
            if faults:
                yield ("lose", message), (co, a, b, clients, rest, crashes, faults - 1)

    def _by_clients(self, state: State) -> Iterator[tuple[Action, State]]:
        co, a, b, clients, mail, crashes, faults = state
        view = self.coordinator.view_of[co]
        key = clients, view, a, b
        steps = self._client_steps.get(key)
        if steps is None:
            seen = self.coordinator.views.values[view]
            tables = [self.tables.table(0, a), self.tables.table(1, b)]
            found = client_side.steps(
                self.config, self.clients.values[clients], seen, self.coordinator.table(co), tables
            )
            steps = self._client_steps[key] = [
                (s.action, self.clients(s.clients), s.sends, frozenset(map(self.mail.number, s.unless))) for s in found
            ]
        for action, after, message, unless in steps:
            if unless.isdisjoint(self.mail.bags[mail]):
                yield action, (co, a, b, after, self.mail.put(mail, (message,)), crashes, faults)

    def _by_faults(self, state: State, room: int) -> Iterator[tuple[Action, State]]:
        co, a, b, clients, mail, crashes, faults = state
        for action, step in self._failing(co):
            if len(step.messages) <= room:
                after = self.mail.put(mail, step.messages)
                yield action, (step.after, a, b, clients, after, crashes, faults - 1)
        for table, number in enumerate((a, b)):
            if table in self.config.here:
                continue  # it has the status record's leader
            changed = self.tables.leader_changed(table, number, self.clients.values[clients])
            if changed:
                a2, b2 = (changed.after, b) if table == 0 else (a, changed.after)
                waiting = self.clients(changed.clients)
                yield ("shard leader", table), (co, a2, b2, waiting, mail, crashes, faults - 1)

    # ---- without further faults, to the end

    def calm(self, state: State) -> tuple[Action, State] | None:
        """What happens next when nothing goes wrong any more and the clients are gone. None: nothing does."""
        step = self._calm_step(state)
        if step is not None:
            return step[0], self._with_own(step[1])
        for txn_id in self.coordinator.may_expire(state[0]):
            self.attempt = ("expire", txn_id)
            return self.attempt, self._with_own(self._moved(state, self.coordinator.expire(state[0], txn_id)))
        return None

    def _calm_step(self, state: State) -> tuple[Action, State] | None:
        co, a, b, clients, mail, crashes, faults = state
        for message in self.mail.bags[mail]:
            co2, a2, b2, clients2, sent = self._deliver(message, co, a, b, clients)
            after = self.mail.put(self.mail.take(mail, message), sent)
            return ("deliver", message), (co2, a2, b2, clients2, after, crashes, faults)
        for _action, _send, timed_out in self._timeouts(co):
            return _action, self._moved(state, timed_out)
        for kind, take in (
            ("hear", self.coordinator.hear_of_next),
            ("apply", self.coordinator.apply_next),
            ("retry", self.coordinator.retry),
        ):
            self.attempt = (kind,)
            step = take(co)
            if step is not None:
                return (kind,), self._moved(state, step)
        return None

    def _moved(self, state: State, step: Step) -> State:
        return (step.after, *state[1:4], self.mail.put(state[4], step.messages), *state[5:])

    def unsettled(self, state: State) -> str:
        """What has not ended, where nothing happens any more; empty: all has."""
        records = self.coordinator.table(state[0]).records()
        left = [f"transaction {r.txn_id} is {r.state.name}" for r in records if r.state not in TERMINAL]
        for table in (0, 1):
            held = self.tables.table(table, state[1 + table])
            left += [f"transaction {r.txn_id} is {r.state.name} on {held.table_id}" for r in held.unfinished.values()]
        return "; ".join(left)

    def outcome(self, state: State) -> tuple[str, ...]:
        """By transaction, in the order of their ids."""
        records = {record.txn_id: record for record in self.coordinator.table(state[0]).records()}
        return tuple(records[txn_id].state.name for txn_id in sorted(records))

    # ---- rules

    def check(self, state: State) -> None:
        """Raises Violation. What the rules look at was looked at before, in most states."""
        co, a, b = state[:3]
        key = self.coordinator.view_of[co], a >> 1, b >> 1
        if key in self._checked:
            return
        self._checked.add(key)
        invariants.everywhere(
            self.coordinator.table(co),
            [self.tables.shard(0, a), self.tables.shard(1, b)],
            [self.tables.accepted(0, a), self.tables.accepted(1, b)],
            dict(self.coordinator.states.values[co].told),
            self._here,
            self._must_have_written(co),
        )

    def _must_have_written(self, co: int) -> dict[TxnId, list[int]]:
        """By a transaction that is committed: its client had an answer to each write, unless it is impatient."""
        table = self.coordinator.table(co)
        writes = {record.txn_id: self._writes_of(table, record.txn_id) for record in table.records()}
        impatient, drop = self.config.impatient, client_side.DROP
        return {txn_id: [each for each in own if own[each] != drop and not impatient] for txn_id, own in writes.items()}

    @property
    def core_steps(self) -> int:
        """How many different steps the shipped code has computed."""
        return self.coordinator.core.steps + sum(core.steps for core in self.tables.cores)

    # ---- steps of the parts, computed once

    def _fits(self, co: int) -> bool:
        state = self.coordinator.states.values[co]
        return len(state.log) <= self.config.log and len(state.applied) <= self.config.log

    def _own_moves(self, co: int) -> Moves:
        found: Moves = []
        for kind, take in (
            ("apply", self.coordinator.apply_next),
            ("hear", self.coordinator.hear_of_next),
            ("retry", self.coordinator.retry),
        ):
            self.attempt = (kind,)
            step = take(co)
            if step is not None:
                found.append((self.attempt, step))
        if self.config.expires:
            for txn_id in self.coordinator.may_expire(co):
                self.attempt = ("expire", txn_id)
                found.append((self.attempt, self.coordinator.expire(co, txn_id)))
        self._own[co] = found = [(action, step) for action, step in found if self._fits(step.after)]
        return found

    def _leader_moves(self, co: int) -> Moves:
        found = self._leader_changes[co] = []
        for kept in range(len(self.coordinator.states.values[co].log) + 1):
            self.attempt = ("status leader", kept)
            found.append((self.attempt, self.coordinator.leader_change(co, kept)))
        return found

    def _failing(self, co: int) -> Moves:
        found = self._failures.get(co)
        if found is None:
            found = self._failures[co] = []
            for position, kept in self.coordinator.failing(co):
                self.attempt = ("proposal fails", position, kept)
                found.append((self.attempt, self.coordinator.proposal_fails(co, position, kept)))
        return found

    def _timeouts(self, co: int) -> list[tuple[Action, SendOp, Step]]:
        found = self._calls.get(co)
        if found is None:
            found = self._calls[co] = []
            for send in self.coordinator.calls(co):
                self.attempt = ("time out", send)
                found.append((self.attempt, send, self.coordinator.answer(co, send, Timestamp(0), UNANSWERED)))
        return found

    def _deliver(
        self, message: int, co: int, a: int, b: int, clients: int
    ) -> tuple[int, int, int, int, tuple[Message, ...]]:
        self.attempt = ("deliver", message)
        content = self.mail.message(message)
        match content:
            case "op", SendOp() as send:
                table = int(send.participant_id.split(".", maxsplit=1)[0])
            case "registered" | "refused" | "write", _, int() as table if table not in self.config.here:
                pass
            case _:
                step = self._at_status(content, co)
                return step.after, a, b, clients, step.messages
        number = b if table else a
        status = self.coordinator.states.values[co].table if self.tables.asks_status(content) else -1
        key = message, number, clients, status
        found = self._deliveries.get(key)
        if found is None:
            done = self.tables.deliver(table, number, content, self.clients.values[clients], self.coordinator.table(co))
            found = self._deliveries[key] = done.after, self.clients(done.clients), done.sends
        after, clients, sent = found
        return (co, a, after, clients, sent) if table else (co, after, b, clients, sent)

    def _at_status(self, content: Message, co: int) -> Step:
        match content:
            case "begin", int() as client:
                return self.coordinator.begin(co, client, self._first_writes(client))
            case "register", int() as txn_id, int() as table:
                return self.coordinator.register(co, TxnId(txn_id), table)
            case "commit", int() as txn_id:
                return self.coordinator.commit(co, TxnId(txn_id), self._last_writes(co, TxnId(txn_id)))
            case "write", int() as txn_id, int() as table:
                return self.coordinator.write(co, self._write_here(co, TxnId(txn_id), table))
            case "abort", int() as txn_id:
                return self.coordinator.abort(co, TxnId(txn_id))
            case "answer", SendOp() as send, int() as timestamp, (Error() | None) as error:
                return self.coordinator.answer(co, send, Timestamp(timestamp), error)
        raise AssertionError(content)

    def _first_writes(self, client: int) -> tuple[Participant, ...]:
        if not self.config.begins_there:
            return ()
        each = (PARTICIPANTS[table] for table in self.config.writes[client])
        return tuple(Participant(who, f"table {who}", write_of(TxnId(client))) for who in each)

    def _last_writes(self, co: int, txn_id: TxnId) -> tuple[AddFiles, ...]:
        writes = self._writes_of(self.coordinator.table(co), txn_id)
        carried = [table for table in writes if self.config.last and table in self.config.here]
        return tuple(self._write_here(co, txn_id, table) for table in carried)

    def _write_here(self, co: int, txn_id: TxnId, table: int) -> AddFiles:
        status = self.coordinator.table(co)
        overwrite = self._writes_of(status, txn_id)[table] == client_side.OVERWRITE
        return added(table, txn_id, status, overwrite=overwrite)

    def _writes_of(self, status: TxnStatusTable, txn_id: TxnId) -> Mapping[int, str]:
        """Writes of the client whose transaction it is, by table."""
        return self.config.writes[client_side.client_of(status, txn_id)]

    # ---- for people

    def tell(self, action: Action) -> str:
        match action:
            case ("deliver" | "deliver and keep" | "lose") as word, int() as message:
                return f"{word}: {tell(self.mail.message(message))}"
            case "time out", SendOp() as send:
                return f"the status leader waits no longer for {send.op.name} of {send.txn_id} at {send.participant_id}"
            case ("begin" | "commit" | "abort") as word, client:
                return f"client {client} asks for {word}"
            case ("open" | "write") as word, client, int() as table:
                return f"client {client} {word}s on table {'AB'[table]}"
            case "status leader", kept:
                return f"another status leader; {kept} of the proposals in the log survive"
            case "shard leader", int() as table:
                return f"another leader for the shard of table {'AB'[table]}"
            case "proposal fails", position, kept:
                return f"proposal {position} fails; it {'may yet apply' if kept else 'is lost'}"
            case "expire", txn_id:
                return f"the staleness pass finds transaction {txn_id} silent"
            case (word,):
                return WORDS[str(word)]
        return repr(action)

    def describe(self, state: State) -> list[str]:
        co = self.coordinator.states.values[state[0]]
        table = self.coordinator.table(state[0])
        records = [
            f"{r.txn_id} {r.state.name}" + (f"@{r.commit_ts}" if r.commit_ts else "") + f" on {list(r.participants)}"
            for r in table.records()
        ]
        log = [type(entry.command).__name__ + f"({getattr(entry.command, 'txn_id', '')})" for entry in co.log]
        told = [f"{txn_id} {'committed' if committed else 'aborted'}" for txn_id, committed in co.told]
        return [
            f"status table: {', '.join(records) or 'empty'}; in the log: {', '.join(log) or 'nothing'}"
            + (f"; told: {', '.join(told)}" if told else ""),
            f"table A: {self.tables.told(0, state[1])}; table B: {self.tables.told(1, state[2])}",
            f"on the way: {self.mail.told(state[4])}",
        ]


WORDS = {
    "apply": "the next entry of the status log applies",
    "hear": "the status leader hears of the oldest applied entry",
    "retry": "the status leader's waits are over: it asks again",
}
