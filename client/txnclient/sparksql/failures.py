"""Errors that cross the JVM: what was raised here as Spark asked is what a program's statement raises.

Java's exception carries a ticket. PySpark makes Python's errors of Java's in one function, and there the ticket is
looked for, along the chain of causes, since Spark wraps what a write raises, and among what these suppressed. What
begins in the JVM has its code in its text instead. Spark Connect has such a function of its own: it is told of causes.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from txnstatus.errors import CLASS_BY_CODE, TxnError

KEPT = 100
"""The most errors that are kept for whom they concern."""
MAX_CAUSES = 50
_JAVA = "txnstatus.spark.PythonError"
_TICKET = re.compile(r"\[([0-9a-f]{32})\]")
_CODE = re.compile(r"\[txnstatus ([A-Z_]+)\] (.*)", re.DOTALL)

_lock = threading.Lock()
_kept: OrderedDict[str, Exception] = OrderedDict()


def keep(error: Exception) -> str:
    """The ticket by which the error is found again."""
    ticket = uuid.uuid4().hex
    with _lock:
        _kept[ticket] = error
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return ticket


class Cause(NamedTuple):
    """What is known of an exception of the JVM's."""

    is_ours: bool
    """Whether it tells of one of this process."""
    message: str


def find(causes: Iterable[Cause]) -> Exception | None:
    """The first error of this process that they tell of; if there is none, the first that the jar itself tells of."""
    found, told = None, None
    for each in islice(causes, MAX_CAUSES):
        if each.is_ours and (ticket := _TICKET.search(each.message)):
            with _lock:
                found = found or _kept.get(ticket[1])
        told = told or _told(each.message)
    return found or told


def java_causes(java: Any) -> Iterator[Cause]:
    """An exception and its causes. What each suppressed of ours comes before it: as Spark gives a write up, it is told
    why the transaction is over.
    """
    while java is not None:
        for each in (*java.getSuppressed(), java):
            is_ours = each.getClass().getName() == _JAVA
            if is_ours or each is java:
                yield Cause(is_ours, each.getMessage() or "")
        java = java.getCause()


def connect_causes(text: str, details: Any) -> Iterator[Cause]:
    """What a server of Spark Connect says of an exception and its causes, or no more than its text."""
    for each in details.errors if details is not None else ():
        yield Cause(_JAVA in each.error_type_hierarchy, each.message)
    yield Cause(_JAVA in text, text)


def _told(text: str) -> TxnError | None:
    coded = _CODE.match(text)
    return CLASS_BY_CODE[coded[1]](coded[2]) if coded and coded[1] in CLASS_BY_CODE else None


def raise_again(has_jvm: bool) -> None:
    """From now on PySpark raises them: of sessions with a JVM here, or of those of Spark Connect. Idempotent."""
    if has_jvm:
        from pyspark.errors.exceptions import captured

        _look_in(captured, lambda java, *_: java_causes(java))
    else:
        from pyspark.sql.connect.client import core

        _look_in(core, lambda _, text, details, *__: connect_causes(text, details))


def _look_in(module: Any, causes: Callable[..., Iterable[Cause]]) -> None:
    """`causes`: what its function `convert_exception` gets, with which it is called."""
    convert = module.convert_exception
    if hasattr(convert, "_txn_finds"):
        return

    def found_or_converted(*told: Any) -> Any:
        return find(causes(*told)) or convert(*told)

    found_or_converted._txn_finds = True  # type: ignore[attr-defined]
    module.convert_exception = found_or_converted
