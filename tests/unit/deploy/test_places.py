"""Where tables of a backup are to be: by the longest root, each in a place of its own; what cannot be is named."""

from __future__ import annotations

import pytest

from txndeploy.backup.moving import roots_of
from txndeploy.backup.places import Place, placed
from txnstatus.errors import InvalidArgument
from txnstatus.table_properties import Property

ONE, TWO = Place("a.one", "file:///lake/a/one"), Place("b.two", "file:///lake/b/two")
ELSEWHERE = Place("c.three", "s3://bucket/c/three")
DATABASE = Place("a", "")


def test_the_longest_root_counts_and_others_stay() -> None:
    roots = {"file:///lake": "file:///new", "file:///lake/b/": "s3://bucket/b/"}
    places = placed([ONE, TWO, ELSEWHERE, DATABASE], roots)
    assert places.moved == {ONE.location: "file:///new/a/one", TWO.location: "s3://bucket/b/two"}
    assert places.now("file:///lake/a/one") == "file:///new/a/one"
    assert places.now("file:///lake/a/one/delta_7_w/x.parquet") == "file:///new/a/one/delta_7_w/x.parquet"
    for stays in ("file:///lake/a/oneself/x", "s3://bucket/c/three/x", "file:///lake/landing/x.parquet", ""):
        assert places.now(stays) == stays


def test_tables_may_change_places() -> None:
    places = placed([ONE, TWO], {ONE.location: TWO.location, TWO.location: ONE.location})
    assert places.now(f"{ONE.location}/x") == f"{TWO.location}/x"
    assert places.now(f"{TWO.location}/x") == f"{ONE.location}/x"


def test_a_file_outside_of_its_tables_place_is_not_moved_with_a_root() -> None:
    places = placed([ONE, TWO], {"file:///lake": "file:///new"})
    with pytest.raises(InvalidArgument, match=r"file:///lake/landing/x\.parquet lies outside"):
        places.of_listed("file:///lake/landing/x.parquet")
    assert places.of_listed("file:///landing/x.parquet") == "file:///landing/x.parquet"


@pytest.mark.parametrize(
    ("roots", "said"),
    [
        ({"file:///other": "file:///new"}, "no table of the backup is in file:///other"),
        ({"file:///lak": "file:///new"}, "no table of the backup is in file:///lak"),
        ({"/lake": "file:///new"}, "no scheme"),
        ({"file:///lake": "new"}, "no scheme"),
        ({"file:///lake": "file:///a/../b"}, "a part of its path"),
        ({ONE.location: TWO.location}, "a.one and b.two would both be in file:///lake/b/two"),
        ({ONE.location: f"{TWO.location}/x"}, "a.one would be in file:///lake/b/two/x, within the place of b.two"),
    ],
)
def test_what_cannot_be_is_named(roots: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        placed([ONE, TWO, DATABASE], roots)


def test_a_published_table_stays_on_a_file_system() -> None:
    published = Place("a.one", ONE.location, (Property("publish", "delta"),))
    with pytest.raises(InvalidArgument, match=r"a\.one cannot be moved to s3://bucket/a/one: publish: "):
        placed([published], {"file:///lake": "s3://bucket"})
    placed([published], {"file:///lake": "file:///new"})


@pytest.mark.parametrize("given", ["file:///a", "=file:///a", "file:///a=", "", "file:///a=file:///b"])
def test_options_name_both(given: str) -> None:
    if given == "file:///a=file:///b":
        assert roots_of([given]) == {"file:///a": "file:///b"}
        with pytest.raises(InvalidArgument, match="twice"):
            roots_of([given, given])
        return
    with pytest.raises(InvalidArgument, match="is not OLD=NEW"):
        roots_of([given])
