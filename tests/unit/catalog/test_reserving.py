"""Places that are reserved for tables that are being made: by commands of the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.harness.cluster import new_catalog
from txnstatus.catalog import commands as cmd
from txnstatus.catalog import reserving
from txnstatus.catalog.catalog import CatalogState, from_wire, to_wire
from txnstatus.catalog.changes import Catalog
from txnstatus.catalog.reserving import MAX_RESERVED, Reservation
from txnstatus.errors import InvalidArgument, LimitReached, TxnError
from txnstatus.replicated import Rejected

HERE = ("file", "", "lake", "t")
ADAS = Reservation("1", "ada", "a.t", HERE, HERE)


def after(catalog: Catalog, *commands: cmd.Command) -> CatalogState:
    for command in commands:
        assert isinstance(catalog.apply(command), CatalogState)
    return catalog.state


def refused(catalog: Catalog, command: cmd.Command) -> TxnError:
    before = catalog.state
    outcome = catalog.apply(command)
    assert isinstance(outcome, Rejected)
    assert catalog.state is before
    return outcome.error


def bobs(place: tuple[str, ...], leads_to: tuple[str, ...] = (), number: str = "2") -> Reservation:
    return Reservation(number, "bob", "b.t", place, leads_to or place)


@pytest.mark.parametrize(
    "wanted",
    [
        bobs(HERE),
        bobs((*HERE, "below")),
        bobs(HERE[:-1]),
        bobs(HERE[:2]),
        bobs(("file", "", "link"), HERE),
        bobs(HERE, ("file", "", "elsewhere")),
    ],
)
def test_who_comes_first_has_the_place_until_it_is_freed(wanted: Reservation) -> None:
    catalog = new_catalog()
    state = after(catalog, cmd.ReservePlace(ADAS))
    assert from_wire(to_wire(state)) == state
    error = refused(catalog, cmd.ReservePlace(wanted))
    assert isinstance(error, InvalidArgument)
    assert "the location of b.t is not free: somebody else makes a table there" in error.message
    assert after(catalog, cmd.FreePlace("1"), cmd.ReservePlace(wanted)).reserved == (wanted,)


@pytest.mark.parametrize("place", [("file", "", "lake", "t2"), ("s3", "", "lake", "t"), ("file", "host", "lake", "t")])
def test_another_place_is_free(place: tuple[str, ...]) -> None:
    wanted = bobs(place)
    assert after(new_catalog(), cmd.ReservePlace(ADAS), cmd.ReservePlace(wanted)).reserved == (ADAS, wanted)


def test_ones_own_reservation_is_in_nobodys_way() -> None:
    again = replace(ADAS, number="3")
    assert after(new_catalog(), cmd.ReservePlace(ADAS), cmd.ReservePlace(again)).reserved == (ADAS, again)


def test_a_command_that_comes_twice_changes_nothing_more() -> None:
    catalog = new_catalog()
    state = after(catalog, cmd.ReservePlace(ADAS))
    assert after(catalog, cmd.ReservePlace(ADAS)) is state
    assert isinstance(refused(catalog, cmd.ReservePlace(replace(ADAS, table="a.other"))), InvalidArgument)
    freed = after(catalog, cmd.FreePlace("1"))
    assert after(catalog, cmd.FreePlace("1")) is freed


def test_what_has_come_to_nothing_ends_with_the_next_one() -> None:
    catalog = new_catalog()
    after(catalog, cmd.ReservePlace(ADAS))
    assert after(catalog, cmd.ReservePlace(bobs(HERE), ended=("1",))).reserved == (bobs(HERE),)


def test_a_refused_one_ends_nothing() -> None:
    catalog = new_catalog()
    after(catalog, cmd.ReservePlace(ADAS), cmd.ReservePlace(bobs(("s3", "b"))))
    refused(catalog, cmd.ReservePlace(bobs(HERE, number="3"), ended=("2",)))


def test_so_many_and_no_more() -> None:
    catalog = new_catalog()
    many = tuple(replace(ADAS, number=str(number)) for number in range(MAX_RESERVED))
    catalog.state = replace(catalog.state, reserved=many)
    assert isinstance(refused(catalog, cmd.ReservePlace(bobs(("s3", "b"), number="x"))), LimitReached)
    assert len(after(catalog, cmd.ReservePlace(bobs(("s3", "b"), number="x"), ended=("7",))).reserved) == MAX_RESERVED


def test_who_is_shown_the_catalog_is_not_told_who_makes_what() -> None:
    catalog = new_catalog()
    shown = after(catalog, cmd.ReservePlace(ADAS)).public()
    assert (shown.reserved, shown.is_public) == ((), True)


Wanted = tuple[str, tuple[str, ...], tuple[str, ...]]
PLACES = st.lists(st.sampled_from("ab"), max_size=3).map(lambda parts: ("file", "", *parts))


@given(st.lists(st.tuples(st.sampled_from(["ada", "bob", "cleo"]), PLACES, PLACES), max_size=8))
def test_two_users_never_have_places_of_which_one_is_in_the_other(wanted: list[Wanted]) -> None:
    catalog = new_catalog()
    for number, (owner, place, leads_to) in enumerate(wanted):
        catalog.apply(cmd.ReservePlace(Reservation(str(number), owner, "d.t", place, leads_to)))
    for one in catalog.state.reserved:
        for other in catalog.state.reserved:
            if one.owner != other.owner:
                for a, b in ((one.place, other.place), (one.leads_to, other.leads_to)):
                    assert a[: len(b)] != b[: len(a)]


def test_a_place_is_no_longer_than_any_store_takes() -> None:
    long = ("file", "", "x" * reserving.MAX_PLACE)
    assert isinstance(refused(new_catalog(), cmd.ReservePlace(bobs(long))), InvalidArgument)
