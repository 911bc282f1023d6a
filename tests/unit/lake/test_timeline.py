"""The timeline's files: what is written is read, once, and no file is opened that cannot have it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from txnstatus.lake import timeline
from txnstatus.lake.timeline import Past, TableChange

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


def micros(at: datetime) -> int:
    return int(at.timestamp() * 1e6)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    assert timeline.files(warehouse, 0, 1 << 62) == []
    written = [timeline.write(warehouse, 0, [each]) for each in (DONE, LOST)]
    assert timeline.files(warehouse, 0, 1 << 62) == written
    assert timeline.read(written) == [DONE, LOST]


def test_only_files_of_the_time_are_listed(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    first, second = (timeline.write(warehouse, 0, [each]) for each in (DONE, LOST))
    both = timeline.write(warehouse, 1, [DONE, LOST])
    for since, until, expected in (
        (NOON, NOON + timedelta(hours=1), {first, both}),
        (NOON + timedelta(seconds=2), NOON + timedelta(days=2), {second, both}),
        (NOON + timedelta(days=2), NOON + timedelta(days=9), set()),
        (NOON - timedelta(days=2), NOON, set()),
    ):
        assert set(timeline.files(warehouse, micros(since), micros(until))) == expected


def test_of_two_the_one_that_knows_more_is_told(tmp_path: Path) -> None:
    warehouse, less = tmp_path.as_uri(), replace(DONE, tables=(TableChange("air.flights"), TableChange("air")))
    written = [timeline.write(warehouse, 0, [each]) for each in (less, DONE, less)]
    assert timeline.read(written) == timeline.read(reversed(written)) == [DONE]


def test_what_was_not_finished_is_not_listed(tmp_path: Path) -> None:
    warehouse = tmp_path.as_uri()
    uri = timeline.write(warehouse, 0, [DONE])
    path = Path(uri.removeprefix("file://"))
    path.rename(path.with_name(f".{path.name}"))
    path.with_name("something else").write_text("x")
    assert timeline.files(warehouse, 0, 1 << 62) == []
