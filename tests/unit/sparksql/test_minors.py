"""Which releases of Spark the tests of its SQL are asked to run with."""

from __future__ import annotations

import pytest

from tests.minors import MINORS, divided


@pytest.mark.parametrize(
    ("given", "minors", "chosen"),
    [
        ([], MINORS, []),
        (["4.0"], ["4.0"], []),
        (["4.0", "--"], ["4.0"], []),
        (["4.2", "4.0", "--", "-k", "4.0"], ["4.2", "4.0"], ["-k", "4.0"]),
        (["4.1", "-x"], ["4.1"], ["-x"]),
        (["-x", "4.1"], MINORS, ["-x", "4.1"]),
        (["--", "-x"], MINORS, ["-x"]),
    ],
)
def test_releases_come_first_and_the_rest_is_pytests(given: list[str], minors: list[str], chosen: list[str]) -> None:
    assert divided(given) == (minors, chosen)


def test_a_release_that_there_is_not() -> None:
    with pytest.raises(SystemExit, match=r"Spark 3\.5: expected some of 4\.0, 4\.1, 4\.2"):
        divided(["4.0", "3.5"])
