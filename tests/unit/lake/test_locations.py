"""Where tables may be: which URIs are in a root, and which only look so."""

from __future__ import annotations

from pathlib import Path

import pytest

from txnstatus.errors import InvalidArgument
from txnstatus.lake import locations
from txnstatus.lake.locations import Roots


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("s3://lake/a", "s3://lake/a"),
        ("s3://lake/a/", "s3://lake/a"),
        ("s3://lake/a/b/c", "s3://lake/a/"),
        ("s3://lake/a/b", "s3://lake"),
        ("S3://lake/a/b", "s3://lake/a"),
        ("s3://lake/a%20b/c", "s3://lake/a b"),
        ("hdfs://nn:8020/x/y", "hdfs://NN:8020/x"),
    ],
)
def test_in_a_root(uri: str, root: str) -> None:
    assert locations.parse(uri).is_within(locations.parse(root))


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("s3://lake/ab", "s3://lake/a"),
        ("s3://lake", "s3://lake/a"),
        ("s3://lake2/a/b", "s3://lake/a"),
        ("gs://lake/a/b", "s3://lake/a"),
        ("file://lake/a/b", "s3://lake/a"),
        ("s3://lake/A/b", "s3://lake/a"),
        ("hdfs://nn:9000/x/y", "hdfs://nn:8020/x"),
        ("s3://lake%2Fa/b", "s3://lake/a"),
    ],
)
def test_not_in_a_root(uri: str, root: str) -> None:
    assert not locations.parse(uri).is_within(locations.parse(root))
    with pytest.raises(InvalidArgument) as caught:
        locations.check(uri, ["file:///w", root])
    assert repr(uri) in caught.value.message
    assert f"file:///w, {root}" in caught.value.message
    assert "table_roots" in caught.value.hint


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("file:///data/a/../b", "empty, . or .."),
        ("file:///data/a/%2e%2e/b", "empty, . or .."),
        ("file:///data/a/%2E./b", "empty, . or .."),
        ("file:///data/a%2F..%2Fb", "empty, . or .."),
        ("s3://lake/..", "empty, . or .."),
        ("file:///data/./a", "empty, . or .."),
        ("file:///data//a", "empty, . or .."),
        ("/data/a", "no scheme"),
        ("data/a", "no scheme"),
        ("", "no scheme"),
        ("file:data/a", "not absolute"),
        ("s3://lake/a?region=x", "a query or a fragment"),
        ("s3://lake/a#b", "a query or a fragment"),
        ("file:///da\nta/a", "cannot be printed"),
        ("file:///data/a\0", "cannot be printed"),
        ("file:///data/a%00", "cannot be printed"),
        ("file://[/a", "is no location"),
    ],
)
def test_what_could_mean_two_places_is_refused(uri: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match="is no location of a table") as caught:
        locations.check(uri, ["file:///data", "s3://lake", ""])
    assert why in caught.value.message
    assert repr(uri) in caught.value.message


def test_symbolic_links_that_lead_out_of_the_roots(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (root / "inside").mkdir(parents=True)
    elsewhere.mkdir()
    (root / "out").symlink_to(elsewhere)
    (root / "in").symlink_to(root / "inside")
    roots = [root.as_uri()]
    for allowed in ("in/air/flights", "inside/new", "new"):
        locations.check(f"{roots[0]}/{allowed}", roots)
    for refused in ("out", "out/air/flights"):
        with pytest.raises(InvalidArgument, match=f"it leads to {elsewhere}"):
            locations.check(f"{roots[0]}/{refused}", roots)


def test_a_root_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    root = tmp_path / "lake"
    root.symlink_to(tmp_path / "disk")
    locations.check(f"{root.as_uri()}/air/flights", [root.as_uri()])


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(InvalidArgument, match=r"gopher.* is not a usable location"):
        locations.check("gopher://lake/a", ["gopher://lake"])


def test_a_database_with_roots_of_its_own_has_no_others_and_nobody_else_has_those() -> None:
    roots = Roots(["s3://lake/shared"], {"sales": ["s3://lake/sales"], "ops": ["s3://ops"]})
    assert roots.of("sales") == ["s3://lake/sales"]
    assert roots.of("air") == ["s3://lake/shared"]
    assert roots.others("sales") == ["s3://ops"]
    assert roots.others("air") == ["s3://lake/sales", "s3://ops"]


def test_a_location_in_another_databases_root_is_refused(tmp_path: Path) -> None:
    own, other = tmp_path / "all", tmp_path / "all" / "other"
    other.mkdir(parents=True)
    (own / "link").symlink_to(other)
    root = own.as_uri()
    for place in (other.as_uri(), f"{other.as_uri()}/below", f"{root}/link", f"{root}/link/below", root):
        with pytest.raises(InvalidArgument, match="it is another database's"):
            locations.check(place, [root], [other.as_uri()])
    locations.check(f"{root}/others", [root], [other.as_uri()])
