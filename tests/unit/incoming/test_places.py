"""Values that names of directories tell."""

from __future__ import annotations

import pytest

from txnclient import InvalidArgument
from txnclient.incoming.places import is_hidden, require_alike, type_of, values_of


def test_names_tell_values() -> None:
    assert values_of("part-0.parquet") == {}
    assert values_of("month=1/carrier=U%2FA b/part-0.parquet") == {"month": "1", "carrier": "U/A b"}
    assert values_of("below/day=__HIVE_DEFAULT_PARTITION__/x=1.parquet") == {"day": None}
    assert values_of("note=a=b/part-0.parquet") == {"note": "a=b"}


def test_a_column_comes_once() -> None:
    with pytest.raises(InvalidArgument, match="'month' comes twice"):
        values_of("month=1/month=2/part-0.parquet")


def test_directories_are_laid_out_alike() -> None:
    require_alike([("month=1/a", {"month": "1"}), ("month=2/b", {"month": "2"})])
    with pytest.raises(InvalidArgument, match=r"\['month'\] for 'month=1/a', and of \[\] for 'b'"):
        require_alike([("month=1/a", {"month": "1"}), ("b", {})])


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2", None], "int"),
        ([str(2**31 - 1), str(-(2**31))], "int"),
        ([str(2**31)], "bigint"),
        ([str(2**63 - 1), str(-(2**63))], "bigint"),
        ([str(2**63)], "string"),
        (["01"], "string"),
        (["2013-01-31", None], "date"),
        (["2013-02-31"], "string"),
        (["2013-01-31", "1"], "string"),
        ([None], "string"),
        ([], "string"),
    ],
)
def test_a_column_has_the_type_of_all_its_values(texts: list[str | None], kind: str) -> None:
    assert type_of(texts) == kind


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("part-0.parquet", False),
        ("000000_0", False),
        ("_SUCCESS", True),
        (".part-0.parquet.crc", True),
        ("_temporary/0/part-0.parquet", True),
        ("_day=1/part-0.parquet", False),
        ("month=1/.hive-staging/x", True),
    ],
)
def test_what_is_no_part_of_the_table_is_hidden(path: str, hidden: bool) -> None:
    assert is_hidden(path) is hidden
