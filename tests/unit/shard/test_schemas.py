"""The columns of a table in the state of its shard: of which time they are, and what a log may bring twice."""

from __future__ import annotations

from dataclasses import replace

from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.schemas import MAX_EARLIER, NewSchema
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import NotFound, Unavailable
from txnstatus.replicated import Rejected
from txnstatus.schema import Column, Schema
from txnstatus.schema_changes import ColumnChange, changed
from txnstatus.types import Timestamp

TABLE = "3.0"
FIRST = Schema((Column("id", "bigint"),))


def with_columns(count: int) -> Schema:
    return replace(FIRST, columns=(*FIRST.columns, *(Column(f"c{n}", "int", added=True) for n in range(count))))


def made() -> ParticipantShard:
    shard = ParticipantShard(3)
    shard.apply(cmd.CreateTable("air.t", FIRST, "file:///w/t", "request"))
    return shard


def change(shard: ParticipantShard, number: int, at: int, request_id: str = "") -> ShardApplied | Rejected:
    """The change by which there are so many added columns."""
    new = NewSchema(with_columns(number), Timestamp(at), number - 1, request_id or f"r{number}")
    return shard.apply(cmd.AlterTable(TABLE, (), new))


def test_a_reader_sees_the_columns_of_its_time() -> None:
    shard = made()
    for number in (1, 2):
        assert isinstance(change(shard, number, 10 * number), ShardApplied)
    again = ParticipantShard(3)
    again.restore(shard.snapshot())
    for each in (shard, again):
        each.check_invariants()
        table = each.table("air.t")
        assert table.schema == with_columns(2)
        seen = {at: table.schemas.at(Timestamp(at)) for at in (0, 9, 10, 19, 20, 99)}
        assert seen == {0: FIRST, 9: FIRST, 10: with_columns(1), 19: with_columns(1), 20: None, 99: None}
        assert [column.name for column in table.info().schema.columns] == ["id", "c0", "c1"]


def test_a_change_is_made_once_and_of_what_there_is() -> None:
    shard = made()
    change(shard, 1, 10, "one")
    state = shard.snapshot()
    assert isinstance(change(shard, 1, 11, "one"), ShardApplied), "it came twice"
    for late in (change(shard, 1, 11, "other"), change(shard, 2, 10, "other"), change(shard, 3, 30, "other")):
        assert isinstance(late, Rejected)
        assert isinstance(late.error, Unavailable), "made of other columns, or at a time that has been read"
    assert shard.snapshot() == state
    missing = shard.apply(cmd.AlterTable("3.7", (), NewSchema(FIRST, Timestamp(1), 0, "r")))
    assert isinstance(missing, Rejected)
    assert isinstance(missing.error, NotFound)


def test_what_was_dropped_is_known_by_who_knew_it_and_kept_for_readers_of_before() -> None:
    shard = made()
    schema, seen = FIRST, [FIRST]
    for number, changes in enumerate(
        (
            [ColumnChange("a", "int")],
            [ColumnChange("a", rename="b")],
            [ColumnChange("b", drop=True), ColumnChange("a", "string")],
        )
    ):
        schema = changed(schema, changes, "t")
        seen.append(schema)
        new = NewSchema(schema, Timestamp(10 + number), number, f"r{number}")
        assert isinstance(shard.apply(cmd.AlterTable(TABLE, (), new)), ShardApplied)
    table = shard.table("air.t")
    lost = [table.schemas.dropped_since(version, table.schema) for version in range(4)]
    assert lost == [[], ["a"], ["b"], []], "by the name that it had then"
    kept = table.schemas.columns_of_all_times(table.schema)
    assert [(column.name, column.type) for column in kept.columns] == [
        ("id", "bigint"),
        ("a~2", "string"),
        ("a", "int"),
    ]


def test_the_past_is_bounded() -> None:
    shard = made()
    for number in range(1, MAX_EARLIER + 3):
        change(shard, number, 10 * number)
    shard.check_invariants()
    schemas = shard.table("air.t").schemas
    assert len(schemas.earlier) == MAX_EARLIER
    assert schemas.at(Timestamp(0)) == with_columns(2), "the columns of the oldest that is kept"
