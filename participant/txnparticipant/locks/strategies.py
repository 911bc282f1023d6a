"""How conflicts over locks are settled: the protocol for a strategy, and those that come with the service.

A strategy is asked when a transaction wants locks that others hold, or have asked for before. It says what becomes of
the request, and nothing else: granting, queueing and freeing locks are the service's.

To bring your own, write a class with `settle`, make an instance of it in a module, and name both in the configuration
of every node, under the name by which tables choose it:

    [conflict_strategies]
    priority = "my_package.my_module:PRIORITY"

The rules:

- **Pure.** The answer depends on the arguments and on nothing else: no clock, no chance, no files, no state.
- **Total.** Every call returns one of the three answers, and at once: the node does nothing else meanwhile.
- **Asked again.** A request that waits is judged anew whenever its transaction asks again or somebody leaves, with
  what is in its way then. Only the leader of a table's shard asks; what is replicated is the answer, so replicas agree
  whatever a strategy does. One that raises, or answers something else, fails that request with its story.

With WAIT the requests wait in the order in which they came. Waits that close a circle over several tables end only
with patience, unless the strategy lets wait in one direction only, as by age: then none can close. Source of the two by
age: Kudu's LockManager; Rosenkrantz and others, TODS 1978. A transaction's id is its age.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from txnparticipant.locks.locks import Mode
from txnstatus.errors import InternalError
from txnstatus.types import ConflictStrategy, TxnId


@dataclass(frozen=True, slots=True)
class Contender:
    """A transaction, and a lock that it wants or is in the way with."""

    txn_id: TxnId
    """Lower is older."""
    owner: str
    label: str
    """The label it was begun with. Empty for the strategies that come with the service: they do not look at it."""
    object: str
    """`database`, `database.table`, or `database.table/column=value/...`"""
    mode: Mode
    holds: bool
    """Whether the transaction holds the lock; else it asked for it before, and waits."""
    prepared: bool
    """Whether the transaction is being committed: it can neither be aborted nor wait, and ends soon."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The request waits its turn."""

    abort: tuple[TxnId, ...] = ()
    """Transactions in its way that are aborted for it; those that are prepared stay."""
    in_circles: bool = False
    """True: the strategy itself keeps circles of waits from lasting. Else a request that would close one is refused."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The request is told Locked; its transaction goes on."""


@dataclass(frozen=True, slots=True)
class Die:
    """The transaction that asks is aborted."""

    reason: str


Settlement = Wait | Refuse | Die


class Strategy(Protocol):
    def settle(self, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
        """`asking`: one transaction, and each lock that it wants; `in_the_way`: others, at least one, holders first."""


class FirstCommitterWins:
    """Writes to a table ask for nothing: the first to prepare wins. Whoever asks all the same does not wait."""

    def settle(self, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
        return Refuse()


class InTurn:
    def settle(self, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
        return Wait()


class WaitDie:
    """Only an older transaction waits for a younger one."""

    def settle(self, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
        oldest = min(in_the_way, key=lambda other: other.txn_id)
        if oldest.txn_id > asking[0].txn_id:
            return Wait()
        does = "holds" if oldest.holds else "waits for"
        return Die(
            f"transaction {oldest.txn_id} {does} {oldest.mode.name} on {oldest.object}, and is older: "
            f"{ConflictStrategy.WAIT_DIE}"
        )


class WoundWait:
    """Only a younger transaction waits for an older one; of a circle the wounded are a part, so it opens."""

    def settle(self, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
        younger = (other.txn_id for other in in_the_way if other.txn_id > asking[0].txn_id)
        return Wait(tuple(dict.fromkeys(younger)), in_circles=True)


class NoWait:
    def settle(self, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
        return Refuse()


BUILT_IN: Mapping[str, Strategy] = {
    ConflictStrategy.FIRST_COMMITTER_WINS: FirstCommitterWins(),
    ConflictStrategy.WAIT: InTurn(),
    ConflictStrategy.WAIT_DIE: WaitDie(),
    ConflictStrategy.WOUND_WAIT: WoundWait(),
    ConflictStrategy.NO_WAIT: NoWait(),
}


def judged(name: str, strategy: Strategy, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
    """What the strategy says. Raises InternalError when it says nothing that is an answer."""
    try:
        match strategy.settle(asking, in_the_way):
            case Wait(abort=tuple(victims), in_circles=bool()) as settlement if _are_among(victims, in_the_way):
                return settlement
            case Refuse() | Die(reason=str()) as settlement:
                return settlement
            case other:
                what = f"answered with a {type(other).__name__} that is no answer"
    except (Exception, SystemExit) as error:
        raise _broken(name, asking[0], f"raised {type(error).__name__}: {error}") from error
    raise _broken(name, asking[0], what)


def _are_among(victims: Sequence[object], contenders: Sequence[Contender]) -> bool:
    known = {contender.txn_id for contender in contenders}
    return all(type(victim) is int and victim in known for victim in victims)


def _broken(name: str, asking: Contender, what: str) -> InternalError:
    return InternalError(
        f"the conflict strategy {name!r} {what}; it was asked about transaction {asking.txn_id} and {asking.object}",
        txn_id=asking.txn_id,
        hint="the strategy is to be mended, on every node; the transaction goes on, without the lock",
    )
