"""A manager that tests play, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import txnclient
from tests.unit.harness.fake_manager import FakeManager
from txnclient import Client


@pytest.fixture
def manager() -> Iterator[FakeManager]:
    with FakeManager() as running:
        yield running


@pytest.fixture
def client(manager: FakeManager) -> Iterator[Client]:
    with txnclient.connect(manager.address, owner="me", timeout=5.0) as connected:
        yield connected
