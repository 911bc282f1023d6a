"""Names of tables that a shard has placed elsewhere."""

from __future__ import annotations

import pytest

from tests.unit.harness.shards import create
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import IllegalState, PlacedElsewhere, TxnError
from txnstatus.replicated import Rejected
from txnstatus.rpc.errors import from_detail, to_detail
from txnstatus.types import Timestamp


def refused(shard: ParticipantShard, command: cmd.Command) -> TxnError:
    before = shard.snapshot()
    outcome = shard.apply(command)
    assert isinstance(outcome, Rejected), outcome
    assert shard.snapshot() == before
    return outcome.error


def test_a_name_that_is_placed_elsewhere_is_told_of_and_taken_by_nobody_here() -> None:
    shard = ParticipantShard(3)
    assert isinstance(shard.apply(cmd.PlaceTable("air.flights", 9)), ShardApplied)
    shard.apply(cmd.PlaceTable("air.flights", 7))
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    for each in (shard, restored):
        error = refused(each, create("air.flights", "r1"))
        assert isinstance(error, PlacedElsewhere)
        assert error.shard == 9, "the first word holds"
        for look in (lambda: each.table("air.flights"), lambda: each.table_at("air.flights", Timestamp(5))):  # noqa: B023
            with pytest.raises(PlacedElsewhere, match="shard-9"):
                look()
        assert isinstance(each.apply(create("air.weather", "r2")), ShardApplied), "other names are as ever"


def test_a_name_that_a_table_here_has_stays() -> None:
    shard = ParticipantShard(3)
    assert isinstance(shard.apply(create("air.flights", "r1")), ShardApplied)
    assert isinstance(refused(shard, cmd.PlaceTable("air.flights", 9)), IllegalState)


def test_the_error_says_which_shard_also_when_it_has_travelled() -> None:
    error = from_detail(to_detail(PlacedElsewhere("table a.b is kept by shard-12", hint="12")))
    assert isinstance(error, PlacedElsewhere)
    assert error.shard == 12
