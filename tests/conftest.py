from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What a test needs follows from its folder: `-m "not cluster"` and `-m "not spark"` leave it out."""
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        if folder in ("badinput", "integration", "postgres", "spark"):
            item.add_marker(pytest.mark.cluster)
        if folder == "spark":
            item.add_marker(pytest.mark.spark)
