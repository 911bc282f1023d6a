"""Errors that cross the JVM: what was raised here as Spark asked is what a program's statement raises.

Java's exception carries a ticket. PySpark makes Python's errors of Java's in one function, and there the ticket is
looked for, along the chain of causes: Spark wraps what a write raises.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections import OrderedDict
from typing import Any

KEPT = 100
"""The most errors that are kept for whom they concern."""
MAX_CAUSES = 50
_JAVA = "txnstatus.spark.PythonError"
_TICKET = re.compile(r"\[([0-9a-f]{32})\]")

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
    """The error of this process that a Java exception tells of."""
    for _ in range(MAX_CAUSES):
        if java is None:
            return None
        if java.getClass().getName() == _JAVA and (ticket := _TICKET.match(java.getMessage())):
            with _lock:
                return _kept.get(ticket[1])
        java = java.getCause()
    return None


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
