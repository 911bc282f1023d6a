"""Errors that cross the JVM: what was raised here as Spark asked is what a program's statement raises.

Java's exception carries a ticket. PySpark makes Python's errors of Java's in one function, and there the ticket is
looked for, along the chain of causes, since Spark wraps what a write raises, and among what these suppressed. What
begins in the JVM has its code in its text instead.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections import OrderedDict
from typing import Any

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


def find(java: Any) -> Exception | None:
    """The error of this process that a Java exception tells of: itself, a cause, or one that it suppressed.

    What is suppressed comes first: as Spark gives a write up, it is told why the transaction is over. If there is none,
    it is the one that the jar itself tells of; of these, what is suppressed says nothing new.
    """
    looked, found, told = 0, None, None
    while java is not None and looked < MAX_CAUSES:
        for each in (*java.getSuppressed(), java):
            looked += 1
            if each.getClass().getName() == _JAVA and (ticket := _TICKET.match(each.getMessage())):
                with _lock:
                    found = found or _kept.get(ticket[1])
        told = told or _told(java.getMessage())
        java = java.getCause()
    return found or told


def _told(text: str | None) -> TxnError | None:
    coded = _CODE.match(text or "")
    return CLASS_BY_CODE[coded[1]](coded[2]) if coded and coded[1] in CLASS_BY_CODE else None


def raise_again() -> None:
    """From now on PySpark raises them. Idempotent."""
    from pyspark.errors.exceptions import captured

    convert: Any = captured.convert_exception
    if hasattr(convert, "_txn_finds"):
        return

    def found_or_converted(java: Any) -> Any:
        return find(java) or convert(java)

    found_or_converted._txn_finds = True  # type: ignore[attr-defined]
    captured.convert_exception = found_or_converted  # type: ignore[assignment]
