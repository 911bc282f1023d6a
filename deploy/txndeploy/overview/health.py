"""Whether a cluster serves, and whether all is well with it: by what its nodes say of their replicas. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from txndeploy.terminal.listings import NOT_TOLD, REFUSED, SILENT
from txnstatus.catalog.catalog import CATALOG, CatalogState
from txnstatus.catalog.nodes import Drain

BEHIND_ENTRIES = 10_000
"""Entries that a replica may not have applied yet."""


class ExitCode(IntEnum):
    HEALTHY = 0
    AMISS = 1
    """The cluster serves, and stands less than it should."""
    DOWN = 3
    """Some of it does not serve, or nobody answers. 2 is for what txnctl does not understand."""
    REFUSED = 4
    """Whoever asks is not let in by any node, or has nothing to show that holds: nothing is known of the cluster."""


@dataclass(frozen=True, slots=True)
class Trouble:
    what: str
    is_down: bool
    """Whether something does not serve because of it."""


def troubles(state: CatalogState, rows: Sequence[Mapping[str, Any]]) -> list[Trouble]:
    """What is wrong, the worst first. `rows`: the replicas of each node, as `listings.groups` has them."""
    return sorted(_troubles(state, rows), key=lambda trouble: not trouble.is_down)


def exit_code(found: Sequence[Trouble]) -> ExitCode:
    if not found:
        return ExitCode.HEALTHY
    return ExitCode.DOWN if any(trouble.is_down for trouble in found) else ExitCode.AMISS


def _troubles(state: CatalogState, rows: Sequence[Mapping[str, Any]]) -> Iterator[Trouble]:
    if any(row["role"] == NOT_TOLD for row in rows):
        yield Trouble("nodes tell their replicas to operators of the cluster only: see txnctl grants", is_down=False)
        return
    silent, refuse = ({row["node"] for row in rows if row["role"] == role} for role in (SILENT, REFUSED))
    replicas: defaultdict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        if row["group"] is not None:
            replicas[row["group"]][row["node"]] = row
    for node in sorted(silent):
        yield Trouble(f"node {node} does not answer", is_down=False)
    for node in sorted(refuse):
        yield Trouble(f"node {node} refuses who asks, or shows a certificate that does not hold", is_down=False)
    for node, info in sorted(state.nodes.items()):
        if info.drain == Drain.LEADS_NOTHING:
            yield Trouble(f"node {node} is drained: it leads nothing until txnctl node undrain {node}", is_down=False)
        elif info.drain == Drain.LEAVES:
            yield Trouble(f"node {node} leaves: txnctl node remove {node} once it holds nothing", is_down=False)
    for part, migration in sorted(state.migrations.items()):
        yield Trouble(f"{part} is {migration}: its tables wait", is_down=False)
    for group in sorted({CATALOG, *state.groups}):
        found = replicas[group]
        if not refuse and not any(row["role"] == "leader" for row in found.values()):
            yield Trouble(f"{group} has no leader", is_down=True)
        for node in state.replicas(group):
            if node not in found and node not in silent | refuse:
                yield Trouble(f"node {node} has no replica of {group}", is_down=False)
        committed = max((row["committed"] for row in found.values()), default=0)
        for node, row in found.items():
            if (left := committed - row["applied"]) > BEHIND_ENTRIES:
                yield Trouble(f"node {node} is {left:,} entries behind in {group}", is_down=False)
