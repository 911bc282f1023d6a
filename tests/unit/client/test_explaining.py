from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from txnclient.client.explaining import Seen, explain
from txnclient.client.participants import ParticipantSummary
from txnclient.write.locks import LockInfo
from txnstatus.lake.timeline import Past, TableChange
from txnstatus.types import NO_TIMESTAMP, ParticipantState, TxnId, TxnState, micros_at, timestamp

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def _past(txn_id: int = 7, state: str = "OPEN", **changed: Any) -> Past:
    told: dict[str, Any] = {
        "owner": "etl",
        "label": "nightly",
        "began": NOW - timedelta(minutes=12),
        "ended": NOW - timedelta(seconds=40),
        "commit_timestamp": 0,
        "tables": (TableChange("air.flights"),),
        "abort_code": "",
        "aborted_by": "",
        "abort_reason": "",
        "winner": None,
        "conflicts": (),
    }
    return Past(txn_id, state, **{**told, **changed})


def _part(name: str, state: ParticipantState | None, participant_id: str = "") -> ParticipantSummary:
    return ParticipantSummary(participant_id or f"0-{name}", name, state, NO_TIMESTAMP, NO_TIMESTAMP, ())


def _said(seen: Seen) -> str:
    return str(explain(seen, NOW))


def test_an_open_one_that_waits_says_for_whom_and_how_to_end_either() -> None:
    since = timestamp(micros_at(NOW - timedelta(seconds=90)))
    held = LockInfo("air", "S", True, TxnId(7), "etl", since, ())
    wanted = LockInfo("air.flights", "X", False, TxnId(7), "etl", since, (TxnId(5),))
    said = _said(Seen(_past(), 30.0, locks=(held, wanted), others={5: _past(5, owner="ann", label="")}))
    assert "transaction 7 is open: etl (nightly) began it 12 min ago" in said
    assert "waited for 90 s for a lock (X) on air.flights, behind transaction 5 of ann (OPEN)" in said
    assert "`txnctl txn abort 5 --reason ...`" in said
    assert "`txnctl txn abort 7 --reason ...`" in said
    assert " on air," not in said


def test_an_open_one_that_waits_for_nobody_is_its_programs() -> None:
    said = _said(Seen(_past(tables=()), 30.0))
    assert "Nothing was written in it yet" in said
    assert "whoever has its handle, or its token, commits or aborts it" in said


@pytest.mark.parametrize(
    ("state", "done"),
    [
        (TxnState.COMMIT_IN_PROGRESS, ParticipantState.COMMIT_IN_PROGRESS),
        (TxnState.FINALIZE_IN_PROGRESS, ParticipantState.COMMITTED),
        (TxnState.ABORT_IN_PROGRESS, ParticipantState.ABORTED),
    ],
)
def test_one_that_ends_names_those_that_have_not_done_their_part(state: TxnState, done: ParticipantState) -> None:
    parts = (_part("air.flights", done), _part("@billing", None, "@billing"))
    said = _said(Seen(_past(state=state.name), 30.0, parts, {"air.planes": "shard-2 has no leader"}))
    assert f"has been in {state.name} for 40 s" in said
    assert "@billing is not" in said
    assert "air.flights is not" not in said
    assert "air.planes does not answer: shard-2 has no leader" in said
    assert "txnctl participant list" in said
    assert "txnctl status" in said
    assert ("still ends it" in said) == (state is TxnState.COMMIT_IN_PROGRESS)
    assert ("can neither be aborted nor lost" in said) == (state is TxnState.FINALIZE_IN_PROGRESS)


def test_one_that_all_have_done_with_needs_nothing() -> None:
    seen = Seen(_past(state="FINALIZE_IN_PROGRESS"), 30.0, (_part("air.flights", ParticipantState.COMMITTED),))
    assert "it ends in a moment" in _said(seen)
    assert explain(seen, NOW).advice == ()


def test_a_conflict_names_who_was_first_and_in_what() -> None:
    lost = _past(
        state="ABORTED",
        abort_code="CONFLICT",
        aborted_by="air.flights",
        abort_reason="both have replaced it",
        winner=5,
        conflicts=("air.flights/month=1",),
    )
    said = _said(Seen(lost, 0.0, others={5: _past(5, "COMMITTED", label="")}))
    assert "was aborted at 2026-01-31 11:59:20 UTC, by air.flights: both have replaced it" in said
    assert "Who was first: transaction 5 of etl (COMMITTED), in air.flights/month=1" in said
    assert "begin anew" in said


def test_one_that_nobody_heard_of_may_have_lost_its_program() -> None:
    seen = Seen(_past(state="ABORTED", abort_code="EXPIRED", aborted_by="status-0", abort_reason="silent"), 0.0)
    assert "its program died" in _said(seen)


def test_a_committed_one_can_be_taken_back_if_it_did_anything() -> None:
    assert "`txnctl txn undo 7`" in _said(Seen(_past(state="COMMITTED", commit_timestamp=1), 0.0))
    assert explain(Seen(_past(state="COMMITTED", tables=()), 0.0), NOW).advice == ()


def test_a_notebook_shows_no_markup_of_others() -> None:
    shown = explain(Seen(_past(owner="<b>", label=""), 30.0), NOW)._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
