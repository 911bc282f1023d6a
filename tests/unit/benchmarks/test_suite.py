"""The benchmark suite's frame: rounds, ratios and the report, with made-up contenders and samples."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from benchmarks.suite import machine, report
from benchmarks.suite.drive import drive
from benchmarks.suite.figures import Results, Spread, percentile, ratios, sum_up
from benchmarks.suite.machine import CpuMeter, Machine
from benchmarks.suite.model import Contender, Goal, Sample, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster
from benchmarks.suite.report import Part
from benchmarks.suite.runner import Plan, order, run, steps
from benchmarks.suite.turns.spark import Cost, Turn
from benchmarks.suite.workloads import ALL, aged, spark, table_pairs

PLAN = Plan(points=(1, 16), rounds=3, seconds=1.0, warm_up_seconds=0.0)
MACHINE = Machine(2, "a CPU", 4.0, "6.1", "3.11", "ext4", 50.0, 60.0)


class Scripted(Contender):
    """Writes down what happens to it."""

    def __init__(self, name: str, story: list[str], rate: int = 10) -> None:
        self.name = name
        self._story = story
        self._rate = rate
        self.breaks_at = ""
        self.package: str | None = None

    def missing(self) -> str | None:
        return self.package

    def version(self) -> str:
        return f"{self.name} 1.0"

    def start(self, directory: Path) -> None:
        assert directory.is_dir()
        assert not any(directory.iterdir())
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    async def run(self, point: int, seconds: float) -> Tally:
        self._note(f"run {point}")
        return Tally(seconds=seconds, latencies=[point / 1000] * (self._rate * point))

    def _note(self, what: str) -> None:
        if what == self.breaks_at:
            raise OSError("broken")
        self._story.append(f"{self.name} {what}")


def sample(rate: float, p50: float = 1.0, foreign: float = 0.0, **extra: float) -> Sample:
    return Sample(int(rate), 1.0, p50, p50, p50, 0, {"leader": 50.0, "client": 10.0}, foreign, extra=extra)


# ---- rounds


def test_every_contender_runs_once_in_each_round(tmp_path: Path) -> None:
    story: list[str] = []
    run([Scripted("a", story), Scripted("b", story)], PLAN, tmp_path)
    turns = [f"{name} {what}" for name in "abbaab" for what in ("start", "run 1", "run 16", "stop")]
    assert story == turns
    assert not list(tmp_path.iterdir()), "the data directories stay"


def test_it_is_told_how_far_one_is_whose_run_takes_long(tmp_path: Path) -> None:
    class Long(Scripted):
        async def run(self, point: int, seconds: float) -> Tally:
            self.tell(f"half of {point}")
            return await super().run(point, seconds)

    heard: list[str] = []
    run([Long("a", [])], PLAN, tmp_path, on_the_way=heard.append)
    assert heard == ["half of 1", "half of 16"] * 3


@pytest.mark.parametrize(("seconds", "turns"), [(0.0, aged.REPEATS), (aged.TURNS_SECONDS / 3, 4), (1_000.0, 2)])
def test_old_tables_are_looked_at_as_often_as_there_is_time(
    monkeypatch: pytest.MonkeyPatch, seconds: float, turns: int
) -> None:
    """On a busy machine it went on for hours, and was never over."""
    now = 0.0
    asked: list[str] = []

    class Process:
        def ask(self, what: str, point: int) -> Turn:
            nonlocal now
            now += seconds
            asked.append(what)
            return {
                name: Cost(1.0, 1.0) for name in (("compaction",) if what == "compact" else ("count", "plain count"))
            }

    monkeypatch.setattr(aged.time, "monotonic", lambda: now)
    contender = aged.APPENDED.contenders(Settings())[0]
    monkeypatch.setattr(contender, "_spark", Process())
    asyncio.run(contender.run(2_000, 1.0))
    assert asked == ["turn"] * turns + ["compact"] + ["turn"] * turns


def test_another_contender_begins_each_round() -> None:
    three = [Scripted(name, []) for name in "abc"]
    assert ["".join(c.name for c in order(three, number)) for number in range(4)] == ["abc", "bca", "cab", "abc"]


@pytest.mark.parametrize("breaks_at", ["start", "run 1", "run 16"])
def test_a_contender_that_fails_is_shown_and_the_others_run_on(breaks_at: str, tmp_path: Path) -> None:
    story: list[str] = []
    broken, whole = Scripted("a", story), Scripted("b", story)
    broken.breaks_at = breaks_at
    told: list[str] = []
    results = run([broken, whole], PLAN, tmp_path, told.append)
    assert results.problems == {"a": [f"failed in round {n}: OSError: broken" for n in (1, 2, 3)]}
    assert len(results.of("b", 16)) == 3
    assert story.count("a stop") == 3
    assert len(told) == steps(PLAN, 2)


def test_one_that_does_not_end_is_shown_and_the_others_run_on(tmp_path: Path) -> None:
    broken, whole = Scripted("a", []), Scripted("b", [])
    broken.breaks_at = "stop"
    results = run([broken, whole], PLAN, tmp_path)
    assert results.problems == {"a": ["did not end: OSError: broken"]}
    assert len(results.of("a", 16)) == len(results.of("b", 16)) == 3


def test_what_is_not_installed_is_said_with_the_command(tmp_path: Path) -> None:
    absent = Scripted("a", [])
    absent.package = "apt-get install a"
    results = run([absent, Scripted("b", [])], PLAN, tmp_path)
    assert results.problems == {"a": ["not installed: apt-get install a"]}
    assert results.contenders() == ["b"]


# ---- load


def test_so_many_operations_are_in_flight() -> None:
    at_work: set[int] = set()
    most = 0

    async def operation(number: int) -> None:
        nonlocal most
        assert number not in at_work, "one of them does two at once"
        at_work.add(number)
        most = max(most, len(at_work))
        await a_turn()
        at_work.remove(number)

    tally = asyncio.run(drive(operation, 8, 0.05))
    assert most == 8
    assert tally.count == len(tally.latencies) > 8
    assert tally.seconds >= 0.05


def test_operations_that_fail_are_counted_apart() -> None:
    async def operation(number: int) -> None:
        if number:
            raise ValueError("no")
        await a_turn()

    tally = asyncio.run(drive(operation, 2, 0.02))
    assert tally.count > 0
    assert tally.failures > 0
    assert tally.errors == ["ValueError: no"] * Tally.MOST_ERRORS


async def a_turn() -> None:
    await asyncio.sleep(0.001)


# ---- figures


def test_ratios_are_of_the_same_round() -> None:
    assert ratios({1: 10.0, 2: 30.0, 3: 5.0}, {2: 10.0, 1: 5.0, 4: 1.0}) == [2.0, 3.0]
    assert ratios({1: 10.0}, {1: 0.0}) == []


def test_the_median_of_ratios_is_not_the_ratio_of_medians() -> None:
    results = Results()
    for number, (ours, peer) in enumerate([(100, 10), (40, 20), (90, 30)]):
        results.add("ours", 64, number, sample(ours))
        results.add("peer", 64, number, sample(peer))
    assert results.ratio("ours", "peer", 64, "rate") == Spread(3.0, 2.0, 10.0)


def test_percentiles() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (51.0, 100.0, 7.0)
    assert percentile([], 0.5) == 0.0


def test_a_tally_is_summed_up() -> None:
    summed = sum_up(Tally(2.0, [0.001, 0.003, 0.002], failures=1), {"leader": 0.3}, 0.1)
    assert (summed.count, summed.rate, summed.p50_ms, summed.max_ms) == (3, 1.5, 2.0, 3.0)
    assert summed.measure("cpu leader") == pytest.approx(100_000)
    assert summed.measure("no such") is None
    nothing = sum_up(Tally(2.0), {"leader": 0.3}, 0.1)
    assert (nothing.rate, nothing.measure("p50")) == (0.0, None)


def test_one_latency_may_be_of_many_operations() -> None:
    assert sum_up(Tally(2.0, [0.001], operations=1_000), {}, 0.0).rate == 500


@pytest.mark.parametrize(
    ("goal", "measured", "reached"),
    [
        (Goal("ours", "rate", 64, 2, "peer"), 2.0, True),
        (Goal("ours", "rate", 64, 2.1, "peer"), 2.0, False),
        (Goal("ours", "p50", 64, 0.6, "peer", at_most=True), 0.5, True),
        (Goal("ours", "p50", 64, 0.4, "peer", at_most=True), 0.5, False),
        (Goal("ours", "cpu leader", 64, 80, at_most=True), 50.0, True),
        (Goal("ours", "cpu", 64, 80, at_most=True), 60.0, True),
        (Goal("ours", "pause", 64, 80, at_most=True), 9.0, True),
        (Goal("ours", "p50", 64, 1.3, "ours", peer_point=1, at_most=True), 4.0, False),
    ],
)
def test_goals(goal: Goal, measured: float, reached: bool) -> None:
    results = Results()
    results.add("ours", 64, 0, sample(200, p50=2.0, pause=9.0))
    results.add("ours", 1, 0, sample(200, p50=0.5))
    results.add("peer", 64, 0, sample(100, p50=4.0))
    spread = results.judge(goal)
    assert spread is not None
    assert spread.median == measured
    assert goal.reached(spread.median) == reached


def test_a_goal_against_somebody_who_did_not_run_is_not_measured() -> None:
    results = Results()
    results.add("ours", 64, 0, sample(200))
    assert results.judge(Goal("ours", "rate", 64, 2, "peer")) is None


# ---- the report


def test_the_report_shows_everybody(tmp_path: Path) -> None:
    results = Results()
    for number in range(3):
        for point in (1, 64):
            results.add("ours", point, number, sample(2000 + number, **{"longest pause, ms": 4.0}))
            results.add("peer", point, number, sample(1000, foreign=0.5))
    results.problem("gone", "not installed: apt-get install gone")
    results.versions["peer"] = "peer 3.4"
    goals = (Goal("ours", "rate", 64, 1.5, "peer"), Goal("ours", "rate", 64, 3, "peer"), Goal("ours", "x", 1, 1))
    contenders = [Scripted(name, []) for name in ("ours", "peer", "gone")]
    workload = Workload("w", "A workload", lambda settings: contenders, points=(1, 64), goals=goals)
    parts = [Part(workload, Settings(), PLAN, contenders, results)]
    page = report.write(parts, MACHINE, "make bench", tmp_path / "out").read_text()
    assert "| ours | 2,001 [2,000..2,002] (1 ms) | 2,001 [2,000..2,002] (1 ms) |" in page
    assert "| peer * |" in page, "others used the machine"
    assert "| ours / peer | 2.00 | 2.00 |" in page
    assert "gone: not installed: apt-get install gone" in page
    assert "| rate of ours / peer at 64 | ≥ 1.5 | 2.00 | reached |" in page
    assert "| rate of ours / peer at 64 | ≥ 3 | 2.00 | missed |" in page
    assert "| x of ours at 1 | ≥ 1 | not measured |  |" in page
    assert "| longest pause, ms |" in page
    assert "peer 3.4" in page
    (part,) = json.loads((tmp_path / "out" / "results.json").read_text())["parts"]
    assert len(part["samples"]) == 12


@pytest.mark.parametrize("fsync_ms", [0.0, 1.0])
def test_a_goal_is_for_one_disk(fsync_ms: float) -> None:
    goals = (Goal("ours", "rate", 64, 3, "peer", fsync_ms=fsync_ms),)
    workload = Workload("w", "A workload", lambda settings: [], goals=goals)
    assert [bool(Part(workload, Settings(slow), PLAN, [], Results()).goals) for slow in (0.0, 1.0)] == [
        fsync_ms == 0.0,
        fsync_ms == 1.0,
    ]


def test_every_goal_is_about_somebody_who_contends() -> None:
    for workload in ALL:
        names = {contender.name for contender in workload.contenders(Settings(rounds_of=(4, 2)))}
        asked = {goal.ours for goal in workload.goals} | {goal.peer for goal in workload.goals if goal.peer}
        assert asked <= names, workload.name
        assert {goal.point for goal in workload.goals} <= set(workload.points), workload.name


# ---- the machine


def test_cpu_is_counted_by_role() -> None:
    meter = CpuMeter({"server": [os.getpid()]})
    used, foreign = meter.stop()
    assert set(used) == {"server", "client"}
    assert 0 <= foreign <= 1


def test_a_disk_in_memory_is_refused() -> None:
    if machine.file_system(Path("/dev/shm")) != "tmpfs":
        pytest.skip("no tmpfs here")
    with pytest.raises(ValueError, match="on a disk"):
        machine.inspect(Path("/dev/shm"))


def test_a_new_round_counts_its_own_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables are empty: what earlier rounds wrote was taken for lost."""
    monkeypatch.setattr(OurCluster, "start", lambda _self, _directory: None)
    ours = table_pairs.Ours(Settings())
    ours._told = 541_000
    ours.start(tmp_path)
    assert ours._told == 0


def test_sparks_ratios_are_of_one_turn() -> None:
    """The machine became half as fast: medians of either, taken apart, would tell of that."""

    def turn(slower: float) -> dict[str, Cost]:
        names = ("plain write", "sync", "write", "plain read", "read")
        return {name: Cost(slower * (1.0 if "plain" in name else 1.2), slower) for name in names}

    found = spark.measures([turn(1.0), turn(2.0), turn(4.0)])
    assert found[spark.WRITE] == found[spark.READ] == pytest.approx(1.2)
    assert found[spark.WRITE_CPU] == found[spark.READ_CPU] == 1.0
    assert found["plain write, s"] == 2.0
