"""Bulk changes by key against a model of a few lines: files and rows of one table mix, and a key stays unique."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import rest_in_campaigns
from tests.unit.harness.leader.bulk_model import Model
from tests.unit.harness.leader.rows import Shard
from txnclient.change import laid_out
from txnclient.write import keyed
from txnparticipant.leader import row_presence
from txnparticipant.rows.key_places import Changed
from txnparticipant.shard import records
from txnstatus.errors import TxnError
from txnstatus.lake.rows import changes_table


def run(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as directory, Shard(Path(directory)) as shard:
        model = Model(shard, random.Random(seed))
        for _ in range(steps):
            model.step()
            model.check_all()
        for number, (ts, _) in enumerate(model.versions):
            model.check(ts)
            model.check_diff(model.rng.choice(model.versions[: number + 1])[0], ts)


@settings(deadline=None, max_examples=6)
@given(st.integers(0, 2**32), st.integers(10, 40))
def test_bulk_changes_by_key_are_snapshot_isolation_over_a_dictionary(seed: int, steps: int) -> None:
    run(seed, steps)


def run_many(seeds: int) -> None:
    for seed in range(seeds):
        run(seed, 40)


# ---- faults, put in on purpose: the model finds them


FAULTS: Mapping[str, tuple[object, str, object]] = {
    "new versions come before what was changed by key": (
        keyed,
        "changed_by_itself",
        lambda there, _at: changes_table((), there.schema).select(["id"]),
    ),
    "row changes hide no rows of files": (laid_out, "_hidden", lambda _there, _latest: {}),
    "deletes by position claim no keys": (records, "added_by", lambda *_: Changed()),
    "the leader sees deleted rows": (row_presence.kept_dead_rows, "read", lambda _refs: {}),
    "keys that stay are not looked at": (keyed.KeyedFiles, "beside", lambda *_: None),
}


LATE = (
    "the leader sees deleted rows",
    "deletes by position claim no keys",
    "keys that stay are not looked at",
)
"""Faults that only many programs find."""


@pytest.mark.parametrize("fault", rest_in_campaigns(FAULTS, FAULTS.keys() - LATE))
def test_a_planted_fault_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, broken = FAULTS[fault]
    if fault == "the leader sees deleted rows":
        where = SimpleNamespace(**vars(row_presence.kept_dead_rows))
        monkeypatch.setattr(row_presence, "kept_dead_rows", where)
    monkeypatch.setattr(where, name, broken)
    with pytest.raises((AssertionError, TxnError, pytest.fail.Exception)):
        run_many(20)
