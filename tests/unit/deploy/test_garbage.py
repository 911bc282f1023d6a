"""How a node looks for cyclic garbage: never among many at once, however many records it keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from txndeploy.node import garbage
from txnstatus.status import commands as cmd
from txnstatus.status.keep_alives import KeepAlives
from txnstatus.status.table import TxnStatusTable

FEW = 3 * garbage.YOUNG + 1_000


@pytest.fixture
def looked_through() -> Iterator[list[int]]:
    """How many objects each collection went through."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    before = gc.get_threshold()
    gc.collect()
    garbage.tune()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.set_threshold(*before)


def test_a_collection_goes_through_few_objects_beside_many_records(looked_through: list[int]) -> None:
    table, kept = TxnStatusTable(0, 1_000_000), KeepAlives()
    for number in range(200):
        table.apply(cmd.BeginTxns(f"request-{number}", 1_000, "ada", "", 30_000, 1))
    for record in table.unfinished:
        kept.add(record, 0.0)
    assert len(table.unfinished) == 200_000
    assert not any(map(gc.is_tracked, table.unfinished)), "records are nothing that a collection goes through"
    others = [[number] for number in range(200_000)]
    assert len(others) == 200_000
    assert len(looked_through) >= 10
    assert max(looked_through) <= FEW
