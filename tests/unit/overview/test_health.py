"""Whether a cluster is well, by what its nodes say of their replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from txndeploy.overview.health import BEHIND_ENTRIES, ExitCode, exit_code, troubles
from txndeploy.terminal.listings import NOT_TOLD, REFUSED, SILENT
from txnstatus.catalog.catalog import CATALOG, CatalogState, shard_group
from txnstatus.catalog.founding import initial
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.options import Options
from txnstatus.catalog.placement import Migration

NODES = ("n1", "n2", "n3")
ROLES = ("status", "participant", "manager")
STATE = initial(
    {node: NodeInfo(f"127.0.0.1:{7050 + number}", ROLES) for number, node in enumerate(NODES)},
    participant_shards=2,
    replication=3,
    range_span=1_000,
    groups=1,
    options=Options(),
)
Rows = list[dict[str, Any]]


def healthy() -> Rows:
    return [
        {"node": node, "group": group, "role": "leader" if node == "n1" else "follower", "committed": 9, "applied": 9}
        for group in STATE.groups
        for node in STATE.replicas(group)
    ]


def told(rows: Rows, state: CatalogState = STATE) -> tuple[list[str], ExitCode]:
    found = troubles(state, rows)
    return [trouble.what for trouble in found], exit_code(found)


def silenced(rows: Rows, *nodes: str, role: str = SILENT) -> Rows:
    left = [row for row in rows if row["node"] not in nodes]
    return left + [dict.fromkeys(("group", "committed", "applied")) | {"node": each, "role": role} for each in nodes]


def test_all_is_well_where_all_are_there_and_led() -> None:
    assert told(healthy()) == ([], ExitCode.HEALTHY)


def test_a_silent_node_is_amiss_and_named_once() -> None:
    assert told(silenced(healthy(), "n3")) == (["node n3 does not answer"], ExitCode.AMISS)


def test_a_node_that_refuses_is_amiss_and_may_well_lead() -> None:
    """Where an authority follows another one, some know it earlier: its groups were said to have no leader."""
    what, code = told(silenced(healthy(), "n1", role=REFUSED))
    assert what == ["node n1 refuses who asks, or shows a certificate that does not hold"]
    assert code is ExitCode.AMISS


def test_a_group_that_nobody_leads_is_down_and_comes_first() -> None:
    what, code = told(silenced(healthy(), "n1"))
    assert what[-1] == "node n1 does not answer"
    assert set(what[:-1]) == {f"{group} has no leader" for group in {CATALOG, *STATE.groups}}
    assert code is ExitCode.DOWN


def test_a_replica_that_is_not_there_is_amiss() -> None:
    group = next(iter(set(STATE.groups) - {CATALOG}))
    rows = [row for row in healthy() if (row["node"], row["group"]) != ("n2", group)]
    assert told(rows) == ([f"node n2 has no replica of {group}"], ExitCode.AMISS)


def test_a_replica_that_is_far_behind_is_amiss() -> None:
    rows = healthy()
    for row in rows:
        row["committed"] = row["applied"] = BEHIND_ENTRIES + 9
    rows[-1]["applied"] = 8
    assert told(rows) == ([f"node {rows[-1]['node']} is 10,001 entries behind in {rows[-1]['group']}"], ExitCode.AMISS)
    rows[-1]["applied"] = 9
    assert told(rows) == ([], ExitCode.HEALTHY)


def test_what_one_is_not_told_is_no_trouble_of_the_cluster() -> None:
    rows = [{"node": node, "group": None, "role": NOT_TOLD, "committed": None, "applied": None} for node in NODES]
    found, code = told(rows)
    assert code is ExitCode.AMISS
    assert found == ["nodes tell their replicas to operators of the cluster only: see txnctl grants"]


def test_tables_that_wait_while_their_shard_is_on_its_way_are_amiss() -> None:
    """Nothing said so, however long it was."""
    moving = replace(STATE, migrations={shard_group(1): Migration("group-1", 7)})
    assert told(healthy(), moving) == (["shard-1 is on its way to group-1: its tables wait"], ExitCode.AMISS)
