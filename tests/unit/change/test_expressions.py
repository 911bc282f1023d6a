"""SQL expressions mean what they mean in Spark, value by value."""

from __future__ import annotations

from tests.unit.harness import expressions


def test_expressions_have_the_values_that_spark_gives_them() -> None:
    assert expressions.lines(expressions.values_here()) == expressions.VALUES.read_text().splitlines()
