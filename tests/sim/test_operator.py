"""What the simulated operator may do, and what he must not: a majority always has its data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.campaign import scenario
from tests.sim.campaign.fault import Fault
from tests.sim.campaign.scenario import Scenario
from tests.sim.world import world
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import Process
from tests.support import rest_in_campaigns


def calm(*faults: Fault, **changes: object) -> Scenario:
    made = replace(scenario.make(1, "calm"), seconds=5.0, faults=faults, segment_bytes=4096)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_node_whose_disk_has_rotted_is_found_and_begins_anew() -> None:
    result = world.run(calm(Fault(2.0, "rot", "n1", "", 0.3)))
    assert not result.violations
    assert result.faults == {"rot": 1, "wiped": 1}


def test_a_second_disk_does_not_rot_before_the_first_is_repaired() -> None:
    result = world.run(calm(Fault(2.0, "rot", "n1", "", 0.3), Fault(2.2, "rot", "n2", "", 0.3)))
    assert not result.violations
    assert +result.faults == {"rot": 1, "wiped": 1, "kill": 1}


def test_a_rotten_group_counts_as_missed_only_where_this_life_opened_it() -> None:
    made = world.World(calm(), None)
    machine = made.cluster.machines["n1"]
    earlier, machine.process = Process("n1", machine.clock), Process("n1", machine.clock)
    for opened_in, violations in ((earlier, 0), (machine.process, 1)):
        machine.rotten = "status-1"
        made.watch.history("status-1").groups["n1"] = (opened_in, None)  # type: ignore[assignment]
        made.cluster.on_start(machine)
        assert len(made.violations) == violations


def test_a_second_node_is_not_replaced_before_the_first_is() -> None:
    result = world.run(calm(Fault(2.0, "replace", "n1", "", 0.3), Fault(2.3, "replace", "n2", "", 0.3)))
    assert not result.violations
    assert +result.faults == {"replace": 1, "kill": 1}


def test_no_disk_rots_before_a_replacement_is_over_even_if_nobody_runs() -> None:
    faults = Fault(1.1, "replace", "n1"), Fault(1.3, "kill", "n2", "", 2.2), Fault(3.4, "rot", "n3", "", 0.3)
    result = world.run(calm(*faults))
    assert not result.violations
    assert +result.faults == {"replace": 1, "kill": 2}


def test_all_founders_are_replaced_one_after_the_other() -> None:
    faults = [Fault(2.0 + 6.0 * number, "replace", f"n{number + 1}") for number in range(3)]
    result = world.run(calm(*faults, seconds=20.0))
    assert not result.violations
    assert result.faults == {"replace": 3}


def test_a_node_that_runs_gives_its_place_to_another_and_goes_on_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    kill = Cluster.kill

    def noted(self: Cluster, name: str, *, told: bool = True) -> None:
        lines.append(f"end of {name}")
        kill(self, name, told=told)

    monkeypatch.setattr(Cluster, "kill", noted)
    result = world.run(calm(Fault(2.0, "displace", "n1")), lambda _at, who, text: lines.append(f"{who}: {text}"))
    assert not result.violations
    assert result.faults == {"displace": 1}
    assert [line for line in lines if line.startswith(("end of", "operator: "))] == [
        "operator: n4 has the place of n1",
        "end of n1",
    ]


def test_a_drained_node_leads_nothing_and_costs_nothing() -> None:
    faults = [Fault(2.0 + 3.0 * number, "drain", f"n{number + 1}", "", 2.0) for number in range(3)]
    lines: list[str] = []
    result = world.run(calm(*faults, seconds=12.0), lambda _at, who, text: lines.append(f"{who}: {text}"))
    assert not result.violations
    assert result.faults == {"drain": 3}
    orders = [line for line in lines if line.startswith("operator: n")]
    assert orders == [f"operator: n{n}: {word}" for n in (1, 2, 3) for word in ("LEADS_NOTHING", "SERVES")]


@pytest.mark.parametrize("old", rest_in_campaigns(["n1", "n2", "n3"], ["n1", "n2"]))
def test_a_node_joins_gets_its_part_and_another_one_leaves(old: str) -> None:
    lines: list[str] = []
    faults = Fault(2.0, "spread", old), Fault(4.5, "kill", "n2" if old != "n2" else "n3", "", 1.0)
    result = world.run(calm(*faults, seconds=15.0), lambda _at, who, text: lines.append(f"{who}: {text}"))
    assert not result.violations
    assert +result.faults == {"spread": 1, "kill": 1}
    assert [line for line in lines if line.startswith("operator: n")] == [
        "operator: n4 has its part",
        f"operator: {old}: LEAVES",
        f"operator: {old} has left",
    ]


def test_a_process_whose_sync_failed_ends_itself_and_comes_back() -> None:
    lines: list[str] = []
    made = calm(Fault(2.0, "lost_sync", "n1", "", 0.5))
    result = world.run(made, lambda _at, who, text: lines.append(f"{who}: {text}"))
    assert not result.violations
    assert any(line.startswith("n1: ends itself") and "Input/output error" in line for line in lines)


def test_begins_at_the_cap_are_refused_and_counted() -> None:
    result = world.run(calm(max_open=3))
    assert not result.violations
    assert result.refused_begins > 0
