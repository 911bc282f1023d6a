"""Reasons in a line, out of what Spark says of a stage, and PySpark of an error."""

from __future__ import annotations

import pytest

from txnclient.transaction.reasons import reason

STAGE = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: "
    "Lost task 0.0 in stage 3.0 (TID 7) (host executor driver): "
)
JAVA = (
    "org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL ==\n1 DIV x"
)
PYTHON = (
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "job.py", line 3, in f\n    raise ValueError("of no use")\nValueError: of no use\n'
)
TRACE = "\n\tat org.apache.spark.Here(Here.scala:1)\nDriver stacktrace:"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (STAGE + JAVA + TRACE, "SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"),
        (STAGE + PYTHON + TRACE, "ValueError: of no use"),
        (f"{STAGE}a.B: [TASK_WRITE_FAILED] of x{TRACE}\nCaused by: {PYTHON}{TRACE}", "ValueError: of no use"),
        (STAGE + PYTHON + "SQLSTATE: 38000" + TRACE, "ValueError: of no use"),
        ("Job 3 cancelled because SparkContext was shut down", "Job 3 cancelled because SparkContext was shut down"),
        ("", ""),
        (
            "\n  An exception was thrown from the Python worker.\n" + PYTHON[PYTHON.index("Trace") :],
            "ValueError: of no use",
        ),
        ("[CAST_INVALID_INPUT] The value 'x'\n\nJVM stacktrace:\norg", "[CAST_INVALID_INPUT] The value 'x'"),
    ],
)
def test_it_is_one_line(told: str, expected: str) -> None:
    assert reason(told) == expected
