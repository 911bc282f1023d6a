"""The builder of a MERGE: clauses in their order, and what is refused at once."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from txnclient.change.merge import Merge, checked_values
from txnclient.change.plan import Act, Clause, MergePlan, Rows
from txnstatus.errors import InvalidArgument
from txnstatus.schema import Column, Schema

SCHEMA = Schema((Column("id", "bigint"), Column("Val", "string")))


def merge(on: Any = "target.id = source.id") -> Merge[MergePlan]:
    return Merge("db.t", SCHEMA, on, lambda plan: plan)


def test_clauses_keep_their_order_and_columns_get_the_names_of_the_table() -> None:
    plan = (
        merge()
        .when_matched_delete(condition="source.gone")
        .when_matched_update({"VAL": "source.val"})
        .when_not_matched_insert({"ID": "source.id"}, condition="source.id > 0")
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"val": "'old'"}, condition="target.id > 9")
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert plan == MergePlan(
        "target.id = source.id",
        (
            Clause(Rows.MATCHED, Act.DELETE, None, "source.gone"),
            Clause(Rows.MATCHED, Act.UPDATE, {"Val": "source.val"}),
            Clause(Rows.NOT_MATCHED, Act.INSERT, {"id": "source.id"}, "source.id > 0"),
            Clause(Rows.NOT_MATCHED, Act.INSERT),
            Clause(Rows.NOT_MATCHED_BY_SOURCE, Act.UPDATE, {"Val": "'old'"}, "target.id > 9"),
            Clause(Rows.NOT_MATCHED_BY_SOURCE, Act.DELETE),
        ),
    )
    assert plan.inserts
    assert plan.needs_all_of_target


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_stays_where_it_was_begun(copied: Callable[[object], object]) -> None:
    """It was "cannot pickle '_thread.lock' object", from deep inside of Spark."""
    with pytest.raises(InvalidArgument, match=r"<Merge into db\.t> cannot be pickled or copied") as refused:
        copied(merge())
    assert "run it where it was begun" in str(refused.value)


def test_all_columns_may_be_taken_from_the_source() -> None:
    plan = merge().when_matched_update_all().execute()
    assert plan.clauses == (Clause(Rows.MATCHED, Act.UPDATE),)
    assert not plan.inserts
    assert not plan.needs_all_of_target


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: merge("  "), "ON of a MERGE into db.t"),
        (lambda: merge(None), "not None"),
        (lambda: merge().execute(), "has no clause"),
        (lambda: merge().when_matched_update({"nope": "1"}), "'nope' is set, and is not a column of table db.t"),
        (lambda: merge().when_matched_update({"val": "1", "VAL": "2"}), "'Val' of table db.t is set twice"),
        (lambda: merge().when_matched_update({}), "a mapping of columns to SQL expressions"),
        (lambda: merge().when_matched_update({"val": 5}), "SQL expression as text, not 5"),  # type: ignore[dict-item]
        (lambda: merge().when_matched_update({5: "1"}), "column 5 is set"),  # type: ignore[dict-item]
        (lambda: merge().when_matched_delete(condition=""), "the condition of delete WHEN MATCHED"),
        (lambda: merge().when_matched_delete().when_matched_update_all(), "update can never act, since delete"),
        (
            lambda: merge().when_not_matched_insert_all().when_not_matched_insert({"id": "1"}),
            "WHEN NOT MATCHED of a MERGE into db.t: insert can never act",
        ),
    ],
)
def test_bad_input_is_named(build: Any, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build()
    assert said in str(caught.value)


def test_who_sets_a_field_of_a_struct_is_told_to_set_the_struct() -> None:
    table = Schema((Column("id", "bigint"), Column("St", "struct<a:int>")))
    for given, told in (("st.a", True), ("st.b.c", True), ("id.a", False), ("sta", False)):
        with pytest.raises(InvalidArgument, match="is set, and is not a column") as refused:
            checked_values({given: "1"}, table, "db.t")
        assert ("set the whole struct: {'St': " in refused.value.hint) is told


def test_a_clause_that_is_refused_leaves_the_merge_as_it_was() -> None:
    building = merge().when_matched_delete()
    with pytest.raises(InvalidArgument):
        building.when_matched_update_all()
    assert building.execute().clauses == (Clause(Rows.MATCHED, Act.DELETE),)
