"""What `txnctl up` says of nodes, and of the compactor beside them, that end by themselves."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Callable

from txndeploy.local.cluster import LocalCluster

LOOK_SECONDS = 0.2
"""Time after which it is seen that a process has ended."""


def watch(cluster: LocalCluster, stop: threading.Event, say: Callable[[str], None]) -> bool:
    """Until `stop`, or until no node runs any more; answers whether one still does."""
    gone: list[str] = []
    compacts = True
    while not stop.wait(LOOK_SECONDS):
        if compacts and cluster.compactor.exit_code is not None:
            compacts = False
            say(story_of_compactor(cluster))
        for node in cluster.configs:
            if node not in gone and not cluster.running(node):
                gone.append(node)
                say(story(cluster, node, gone))
        if len(gone) == len(cluster.configs):
            return False
    return True


def story(cluster: LocalCluster, node: str, gone: list[str]) -> str:
    """How a node has ended, where to read why, what becomes of the rest, and what to do. `gone`: it, and others."""
    count, config = len(cluster.configs), cluster.configs[node]
    left = [each for each in cluster.configs if each not in gone]
    again = f"txnctl up --dir {shlex.quote(str(cluster.directory))}"
    if not left:
        rest, todo = "No node runs any more.", f"Start them again: {again}"
    else:
        spare = (min(config.replication, count) - 1) // 2
        rest = f"{', '.join(left)} {'go' if len(left) > 1 else 'goes'} on: "
        rest += (
            "each group has a majority, so the cluster serves."
            if len(gone) <= spare
            else "groups that have lost their majority do not serve."
        )
        todo = f"Start it again: end this with Ctrl-C, then {again}"
    return "\n".join(
        [
            f"\nnode {node} has ended by itself: {ending(cluster.exit_code(node))}.",
            f"Its log: {cluster.log_path(node)}",
            rest,
            todo,
        ]
    )


def story_of_compactor(cluster: LocalCluster) -> str:
    """How it has ended, where to read why, what becomes of compactions, and what to do."""
    return "\n".join(
        [
            f"\nthe compactor has ended by itself: {ending(cluster.compactor.exit_code)}.",
            f"Its log: {cluster.compactor.log_path}",
            "The nodes go on, and nothing is lost. Compactions wait for another compactor.",
            f"Start one: txnctl compactor --cluster {cluster.addresses}",
        ]
    )


def ending(code: int | None) -> str:
    """How a process ended, for people. `code`: as subprocess has it."""
    if code is None:
        return "nobody knows how"
    if code >= 0:
        return f"exit code {code}" + (", it could not start" if code == 2 else "")
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (kill -9, or the kernel where memory ran out)" if -code == signal.SIGKILL else ""
    return f"killed by {name}{hint}"
