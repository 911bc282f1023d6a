"""A foreign participant for tellers: the one of docs/participants.md, as it stands there, and what it must hold."""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests import blocks
from tests.support import connect, foreign, wait_until
from txndeploy.local.cluster import READY_SECONDS, LocalCluster
from txndeploy.local.network import free_ports

NAME = "till"


class Till:
    """The directory of documents, and the process that serves it; it is killed and started again."""

    def __init__(self, directory: Path, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.directory = directory / "till"
        self.program = directory / "documents.py"
        self.program.write_text(blocks.block("docs/participants.md", "class DocumentsPart"))
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self._command = [sys.executable, str(self.program), NAME, str(self.directory), address, cluster.addresses]
        self._log = directory / "till.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        """Until nodes know it: whoever writes to it before is refused."""
        self.start()
        with connect(self._cluster) as client:
            wait_until(lambda: NAME in foreign(client), "the till is registered", READY_SECONDS)

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def prepared(self) -> list[str]:
        """What is neither published nor discarded yet."""
        return sorted(path.name for path in (self.directory / "prepared").glob("*.json"))

    def published(self) -> dict[int, list[int]]:
        """The elements of each transaction."""
        files = (self.directory / "published").glob("*.json")
        return {int(path.name.split(".")[-2]): json.loads(path.read_text()) for path in files}

    def contradictions(self, outcomes: Mapping[int, tuple[bool | None, list[int]]]) -> Iterator[str]:
        """`outcomes`: whether each transaction that took part is committed, as far as it was told, and its elements."""
        published = self.published()
        for txn_id, (committed, elements) in outcomes.items():
            found = published.get(txn_id)
            half = found is not None and found != elements
            if half or (committed is not None and (found is not None) != committed):
                yield f"foreign: {txn_id} wrote {elements}, committed: {committed}; published: {found}"
        for txn_id in published.keys() - outcomes.keys():
            yield f"foreign: {txn_id} is published, and never asked for a commit"


@functools.cache
def part_class(program: str) -> Any:
    """The part of a program's own, as the page has it."""
    spec = importlib.util.spec_from_file_location("documents", program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DocumentsPart
