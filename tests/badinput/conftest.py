from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.badinput.world import World, one_node

settings.register_profile("badinput", derandomize=True, database=None, deadline=None)
settings.load_profile("badinput")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One node, on which nothing expires and nobody compacts: what changes, a request has changed."""
    with one_node(tmp_path_factory.mktemp("node"), compact_lease_ms=3_600_000) as running:
        yield running
