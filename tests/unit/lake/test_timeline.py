"""The timeline's files: what is written is read, once, and no file is opened that cannot have it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from txnstatus.lake import timeline
from txnstatus.lake.timeline import Chapter, Past, TableChange
from txnstatus.types import AbortCause, AbortCode, TxnId

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
DONE = Past(
    7,
    "COMMITTED",
    "ada",
    "nightly",
    NOON,
    NOON + timedelta(seconds=1),
    1 << 63,
    (TableChange("air.flights", 3, 1, 0, 2), TableChange("air")),
    "",
    "",
    "",
    None,
    (),
)
LOST = replace(
    DONE,
    txn_id=8,
    state="ABORTED",
    ended=NOON + timedelta(days=1),
    commit_timestamp=0,
    tables=(),
    abort_code="CONFLICT",
    aborted_by="air.flights",
    abort_reason="7 was first",
    winner=7,
    conflicts=("air.flights",),
)
OTHER = replace(DONE, txn_id=9, tables=(TableChange("air.flights", 1, 1, 0, 0),), undoes=7)


def micros(at: datetime) -> int:
    return int(at.timestamp() * 1e6)


def write(warehouse: str, past: Sequence[Past], range_number: int = 0) -> str:
    chapter = Chapter()
    for each in past:
        for change in each.tables:
            chapter.tables.add(*astuple(change))
        cause = None
        if each.abort_code:
            winner = None if each.winner is None else TxnId(each.winner)
            code = AbortCode[each.abort_code]
            cause = AbortCause(code, each.abort_reason, each.aborted_by, winner, each.conflicts)
        chapter.add(
            each.txn_id,
            each.state,
            each.owner,
            each.label,
            micros(each.began),
            micros(each.ended),
            each.commit_timestamp,
            cause,
            each.undoes,
        )
    return timeline.write(warehouse, range_number, chapter)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    assert timeline.files(warehouse, 0, 1 << 62) == []
    written = [write(warehouse, [each]) for each in (DONE, LOST)]
    assert timeline.files(warehouse, 0, 1 << 62) == written
    assert timeline.read(written) == [DONE, LOST]


def test_each_of_a_file_has_what_it_did_itself(tmp_path: Path) -> None:
    assert timeline.read([write(tmp_path.as_uri(), [DONE, OTHER, LOST])]) == [DONE, LOST, OTHER]


def test_only_files_of_the_time_are_listed(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    first, second = (write(warehouse, [each]) for each in (DONE, LOST))
    both = write(warehouse, [DONE, LOST], 1)
    for since, until, expected in (
        (NOON, NOON + timedelta(hours=1), {first, both}),
        (NOON + timedelta(seconds=2), NOON + timedelta(days=2), {second, both}),
        (NOON + timedelta(days=2), NOON + timedelta(days=9), set()),
        (NOON - timedelta(days=2), NOON, set()),
    ):
        assert set(timeline.files(warehouse, micros(since), micros(until))) == expected


def test_of_two_the_one_that_knows_more_is_told(tmp_path: Path) -> None:
    warehouse, less = tmp_path.as_uri(), replace(DONE, tables=(TableChange("air.flights"), TableChange("air")))
    written = [write(warehouse, [each]) for each in (less, DONE, less)]
    assert timeline.read(written) == timeline.read(reversed(written)) == [DONE]


def test_what_was_not_finished_is_not_listed(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    uri = write(warehouse, [DONE])
    path = Path(uri.removeprefix("file://"))
    path.rename(path.with_name(f".{path.name}"))
    path.with_name("something else").write_text("x")
    assert timeline.files(warehouse, 0, 1 << 62) == []


def test_what_a_transaction_takes_for_good(tmp_path: Path) -> None:
    """The figure of docs/operations.md, "Years": the timeline is what grows with every transaction."""
    chance, at, past = random.Random(1), NOON, []
    for number in range(5_000):
        at += timedelta(microseconds=chance.randrange(2 * 8_640))  # ten million a day
        flights, weather = (
            TableChange(name, chance.randrange(1_000), 1, 0, 0) for name in ("air.flights", "air.weather")
        )
        took = timedelta(microseconds=chance.randrange(2_000, 20_000))
        past.append(
            replace(
                DONE,
                txn_id=1_000_000 + number,
                began=at,
                ended=at + took,
                commit_timestamp=(micros(at + took) << 12) + chance.randrange(16),
                tables=(flights, weather),
            )
        )
    size = Path(write(tmp_path.as_uri(), past).removeprefix("file://")).stat().st_size
    assert 15 < size / len(past) < 30
