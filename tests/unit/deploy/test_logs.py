"""What a process logs: each thing is one line, whatever somebody wrote into it, and JSON says what it is about."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from txndeploy import logs
from txndeploy.logs import JsonLines, Level, TextLines

FORGED = "ada's\n2026-01-01 00:00:00,000 CRITICAL n1 root: all is lost\x1b[2J"
LOGGER = "txnstatus.somewhere"


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.getLogger(LOGGER).makeRecord(LOGGER, logging.WARNING, "f", 1, message, args, None, extra=extra)
    made.created = datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()
    return made


def failed() -> logging.LogRecord:
    try:
        raise ValueError("no such thing")
    except ValueError:
        return logging.LogRecord(LOGGER, logging.ERROR, "f", 1, "it failed", None, sys.exc_info())


def test_a_json_line_says_when_who_and_about_what() -> None:
    line = JsonLines("n1").format(record("transaction %s is lost", 17, txn_id=17))
    assert json.loads(line) == {
        "time": "2026-01-31T12:00:00.000000Z",
        "level": "WARNING",
        "process": "n1",
        "logger": LOGGER,
        "message": "transaction 17 is lost",
        "txn_id": 17,
    }


def test_a_json_line_is_one_line_with_an_error_too() -> None:
    line = JsonLines("n1").format(failed())
    assert "\n" not in line
    assert json.loads(line)["error"].endswith("ValueError: no such thing")
    assert "\n" not in JsonLines("n1").format(record("of %s", FORGED))
    assert json.loads(JsonLines("n1").format(record("of %s", FORGED)))["message"] == f"of {FORGED}"


def test_what_is_about_no_transaction_names_none() -> None:
    assert "txn_id" not in json.loads(JsonLines("n1").format(record("a node starts", txn_id=None)))


def test_a_line_for_people_cannot_be_forged() -> None:
    line = TextLines("n1").format(record("transaction of %s", FORGED))
    assert line.count("\n") == 0
    assert "\x1b" not in line
    assert " WARNING n1 txnstatus.somewhere: transaction of ada's\\n2026-01-01" in line


def test_a_line_for_people_has_the_traceback_after_it() -> None:
    first, *rest = TextLines("n1").format(failed()).split("\n")
    assert first.endswith("it failed")
    assert rest[-1] == "ValueError: no such thing"


@pytest.fixture
def levels() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in ("", "txnstatus", LOGGER)}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("levels")
def test_levels_change_and_what_is_not_said_any_more_is_as_all_others() -> None:
    logger = logging.getLogger(LOGGER)
    logs.set_levels({"": Level.WARNING})
    assert not logger.isEnabledFor(logging.INFO)
    first = {"": Level.WARNING, "txnstatus": Level.DEBUG}
    logs.set_levels(first)
    assert logger.isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("other").isEnabledFor(logging.INFO)
    logs.set_levels({"": Level.ERROR}, first)
    assert not logger.isEnabledFor(logging.WARNING)
