"""Which statement takes which locks: Hive's table, row by row, as it was written down."""

from __future__ import annotations

import re

import pytest

from tests.unit.harness.statements import OWN, ROWS
from txnparticipant.locks.locks import Lock, Mode, with_parents
from txnparticipant.locks.statements import TARGET_MODE, mode_of
from txnstatus.types import Statement


def named(short: str) -> str:
    """`T1.P.Q` as an object of database d."""
    table, *parts = short.split(".")
    return "/".join([f"d.{table}", *(f"{part.lower()}=1" for part in parts)])


def as_written(text: str) -> set[Lock]:
    """`S on T1, T1.P1 and X on T2`, with the database that every table has above it."""
    locks, mode = {Lock("d", Mode.S)}, Mode.S
    for part in re.split(r", | and ", text):
        if " on " in part:
            mode, part = Mode[part.split(" on ")[0]], part.split(" on ")[1]
        locks.add(Lock(named(part), mode))
    return locks


@pytest.mark.parametrize(("statement", "target", "reads", "written"), ROWS)
def test_a_row(statement: Statement, target: str, reads: tuple[str, ...], written: str) -> None:
    locks = with_parents([Lock(named(target), mode_of(statement)), *(Lock(named(each), Mode.S) for each in reads)])
    assert set(locks) == as_written(written)
    assert list(locks) == sorted(locks), "in the order of acquisition"


def test_every_statement_has_its_row() -> None:
    assert {row[0] for row in ROWS} | OWN.keys() == set(Statement) == set(TARGET_MODE)
    assert not {row[0] for row in ROWS} & OWN.keys()


@pytest.mark.parametrize("statement", Statement)
def test_a_mode_is_that_of_the_table_but_for_inserts_in_transactions_and_changes_anywhere(statement: Statement) -> None:
    assert mode_of(statement) == TARGET_MODE[statement] == OWN.get(statement, TARGET_MODE[statement])
    assert mode_of(statement, alone=False) == (Mode.S if statement is Statement.INSERT else TARGET_MODE[statement])
    changes = TARGET_MODE[statement] is Mode.SHARED_WRITE
    assert mode_of(statement, known=False) == (Mode.X if changes else TARGET_MODE[statement])
    assert mode_of(Statement.INSERT, alone=False, known=False) is Mode.S
