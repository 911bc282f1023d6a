"""What is on its way: a bag of messages that may be delivered in any order, late, twice or never."""

from __future__ import annotations

from tests.exhaustive.values import Interned
from txnstatus.status.commit.tasks import SendOp

Message = tuple[object, ...]
"""A word, and what it says: ("begin", client), ("register" | "registered" | "refused" | "write", transaction, table),
("commit" | "abort", transaction), ("op", SendOp), ("answer", SendOp, timestamp, error)."""


class Mail:
    """Bags of messages by numbers. A bag is a sorted tuple of the numbers of its messages."""

    def __init__(self) -> None:
        self._messages = Interned[Message]()
        self._bags = Interned[tuple[int, ...]]()
        self._with: dict[tuple[int, tuple[Message, ...]], int] = {}
        self._without: dict[tuple[int, int], int] = {}
        self._calls: dict[int, frozenset[SendOp]] = {}
        self.empty = self._bags(())
        self.bags = self._bags.values

    def number(self, message: Message) -> int:
        return self._messages(message)

    def message(self, number: int) -> Message:
        return self._messages.values[number]

    def put(self, bag: int, messages: tuple[Message, ...]) -> int:
        if not messages:
            return bag
        key = bag, messages
        found = self._with.get(key)
        if found is None:
            numbers = (*self.bags[bag], *(self.number(message) for message in messages))
            found = self._with[key] = self._bags(tuple(sorted(numbers)))
        return found

    def take(self, bag: int, message: int) -> int:
        key = bag, message
        found = self._without.get(key)
        if found is None:
            left = list(self.bags[bag])
            left.remove(message)
            found = self._without[key] = self._bags(tuple(left))
        return found

    def calls(self, bag: int) -> frozenset[SendOp]:
        """The calls of participants whose request or answer is on its way."""
        found = self._calls.get(bag)
        if found is None:
            contents = (self.message(number) for number in self.bags[bag])
            sends = (content[1] for content in contents if content[0] in ("op", "answer"))
            found = self._calls[bag] = frozenset(send for send in sends if isinstance(send, SendOp))
        return found

    def told(self, bag: int) -> str:
        return ", ".join(tell(self.message(number)) for number in self.bags[bag]) or "nothing"


def tell(message: Message) -> str:
    match message:
        case "begin", client:
            return f"begin of client {client}"
        case ("register" | "registered" | "refused") as word, txn_id, table:
            what = {"register": "register", "registered": "registered:", "refused": "registration refused:"}[word]
            return f"{what} transaction {txn_id} on table {'AB'[int(str(table))]}"
        case "write", txn_id, table:
            return f"write of transaction {txn_id} to table {'AB'[int(str(table))]}"
        case ("commit" | "abort") as word, txn_id:
            return f"{word} of transaction {txn_id}"
        case "op", SendOp() as send:
            at = f" at {send.commit_ts}" if send.commit_ts else ""
            return f"{send.op.name} of transaction {send.txn_id} to {send.participant_id}{at}"
        case "answer", SendOp() as send, timestamp, error:
            said = f"refused ({error})" if error else f"done at {timestamp}" if timestamp else "done"
            return f"answer of {send.participant_id} to {send.op.name} of transaction {send.txn_id}: {said}"
    return repr(message)
