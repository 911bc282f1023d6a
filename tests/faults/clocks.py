"""Wall clocks that jump while a node runs, by libfaketime; monotonic clocks stay what they are, as on Linux."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


class Clocks:
    """One clock for each node, set by a file. Skips the test where libfaketime is not there."""

    def __init__(self, directory: Path, ahead: Mapping[str, int]) -> None:
        """`ahead`: by how many seconds each begins."""
        if not LIBRARIES:
            pytest.skip("needs libfaketime (apt-get install faketime)")
        directory.mkdir(parents=True)
        self._files = {node: directory / f"{node}.clock" for node in ahead}
        for node, seconds in ahead.items():
            self.jump(node, seconds)

    def jump(self, node: str, seconds: int) -> None:
        """From now on the node's wall clock is this much ahead of the true one; below 0, behind it."""
        new = self._files[node].with_suffix(".new")
        new.write_text(f"{seconds:+d}s\n")
        new.rename(self._files[node])

    def environment(self, node: str) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._files[node]),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # else waits of threads for each other end at once, and all spin
        }
