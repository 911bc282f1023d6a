from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CLUSTERS = ("badinput", "integration", "postgres", "spark")
SHARED = ("badinput", "postgres", "spark")
"""Folders whose tests share what was started for the first of them."""
PORTS = range(10_240, 32_000)
WORKERS = 8


def pytest_configure(config: pytest.Config) -> None:
    """Each of the processes that run tests side by side has ports of its own: a dead node's are not taken meanwhile."""
    os.environ.pop("COLUMNS", None)  # some set it for their workers; the command line goes by it
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    share = len(PORTS) // WORKERS
    os.environ["TXN_LOCAL_PORTS"] = f"{PORTS[number * share]}-{PORTS[(number + 1) * share - 1]}"


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a test needs follows from its folder, and so does which others it must stay with, one after the other."""
    for item in items:
        folder, *_ = item.path.relative_to(HERE).parts
        if folder in CLUSTERS:
            item.add_marker(pytest.mark.cluster)
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group(folder if folder in SHARED else item.path.stem))
        if folder == "spark":
            item.add_marker(pytest.mark.spark)
