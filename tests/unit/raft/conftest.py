"""A cluster of three members in one thread."""

from __future__ import annotations

import pytest

from tests.unit.harness.raft import Cluster


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)
