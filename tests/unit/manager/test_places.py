"""Two users make tables in one place: one of them gets it, whichever managers they ask, whatever becomes of those."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.harness.cluster import new_catalog
from txnmanager.granting import Granting
from txnmanager.keepers import Keepers
from txnmanager.places import RESERVED_SECONDS
from txnstatus import features
from txnstatus.catalog import commands as cmd
from txnstatus.catalog.catalog import CATALOG, shard_group
from txnstatus.catalog.client import access_by
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import IllegalState, InvalidArgument, OutcomeUnknown, TxnError
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as pb
from txnstatus.replicated import Rejected
from txnstatus.status.ranges import StatusRanges

PLACE = "file:///elsewhere/lake/t"


class World:
    """A catalog, and shards that make every table that they are asked for."""

    def __init__(self, level: int = features.OWN.newest) -> None:
        self.catalog = new_catalog(shards=2)
        self.catalog.state = replace(self.catalog.state, level=level)
        for user in ("ada", "bob"):
            self.catalog.apply(cmd.Grant(user, "", user, "writer"))
        self.tables: dict[str, common.TableInfo] = {}
        self.seconds = 0.0
        self.makes = asyncio.Event()
        """Shards make tables while it is set."""
        self.makes.set()
        self.changed = asyncio.Event()
        self.fails: TxnError | None = None
        """What becomes of creates."""

    def create(self, request: pb.CreateTableRequest) -> pb.CreateTableResponse:
        if self.fails is not None:
            raise self.fails
        info = common.TableInfo(table_id=f"0.{len(self.tables)}", name=request.name, location=request.location)
        self.tables[request.name] = info
        return pb.CreateTableResponse(table=info)

    def reserved(self) -> list[str]:
        return [each.owner for each in self.catalog.state.reserved]

    def change(self, command: cmd.Command) -> None:
        outcome = self.catalog.apply(command)
        if isinstance(outcome, Rejected):
            raise outcome.error
        self.changed.set()

    async def until(self, owners: list[str]) -> None:
        """Until these have reserved places."""
        async with asyncio.timeout(10):
            while self.reserved() != owners:
                self.changed.clear()
                await self.changed.wait()


class Manager:
    """One manager: what it has heard of the catalog is its own."""

    def __init__(self, world: World, blocking: ThreadPoolExecutor) -> None:
        self.world, self.cluster = world, ClusterMap(world.catalog.state)
        client = cast(TxnSystemClient, self)
        self.ranges = StatusRanges(client)
        self.granting = Granting(
            client, cast(Keepers, self), access_by(self.cluster, ()), "file:///w", blocking, lambda: world.seconds
        )

    async def call_leader(self, group: str, method: str, request: Any, _response: Any, _timeout: float) -> Any:
        await asyncio.sleep(0)
        if method.endswith("/ListTables"):
            here = [each for number, each in enumerate(self.world.tables.values()) if shard_group(number % 2) == group]
            return pb.ListTablesResponse(tables=here)
        assert group == CATALOG
        if method.endswith("/ChangeCatalog"):
            self.world.change(cmd.from_wire(request))
        return self.world.catalog.state.to_wire()

    async def call(self, _name: str, _method: str, request: pb.CreateTableRequest, _response: Any) -> Any:
        """A create, as the shard's leader does it: it looks whether the place is still reserved."""
        await self.world.makes.wait()
        if request.reservation:
            await self.ranges.check_reserved(request.reservation)
        return self.world.create(request)

    def hears(self) -> None:
        self.cluster.update(self.world.catalog.state)

    async def make(self, user: str, location: str = PLACE, name: str = "t") -> pb.CreateTableResponse:
        request = pb.CreateTableRequest(name=f"{user}.{name}", location=location, owner=user, request_id="r")
        return await self.granting.create_table(request)

    async def fail(self, user: str, error: TxnError) -> None:
        """A create that ends with the error; the next ones do not."""
        self.world.fails = error
        with pytest.raises(type(error), match=error.message):
            await self.make(user)
        self.world.fails = None


@pytest.fixture
def blocking() -> Any:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def managers(world: World, blocking: ThreadPoolExecutor) -> tuple[Manager, Manager]:
    return Manager(world, blocking), Manager(world, blocking)


Managers = tuple[Manager, Manager]


@pytest.mark.parametrize("others", [PLACE, f"{PLACE}/below", "file:///elsewhere/lake", "FILE:///elsewhere/lake/t/"])
async def test_of_two_at_the_same_moment_one_gets_the_place(managers: Managers, others: str) -> None:
    one, two = managers
    outcomes = await asyncio.gather(one.make("ada"), two.make("bob", others), return_exceptions=True)
    made = [each for each in outcomes if not isinstance(each, BaseException)]
    refused = [each for each in outcomes if isinstance(each, BaseException)]
    assert len(made) == 1, outcomes
    assert isinstance(refused[0], InvalidArgument)
    assert "is not free: somebody else" in refused[0].message
    assert not one.world.reserved(), "what is there needs no reservation"


async def test_places_beside_each_other_and_ones_own_are_free(managers: Managers) -> None:
    one, two = managers
    await asyncio.gather(
        one.make("ada"), two.make("bob", "file:///elsewhere/lake/t2"), two.make("ada", f"{PLACE}/below", "below")
    )
    assert len(one.world.tables) == 3


async def test_a_link_leads_to_a_place_that_is_reserved(managers: Managers, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    one, two = managers
    one.world.makes.clear()
    making = asyncio.ensure_future(one.make("ada", f"file://{tmp_path}/there/t"))
    await one.world.until(["ada"])
    with pytest.raises(InvalidArgument, match="somebody else makes a table there"):
        await two.make("bob", f"file://{tmp_path}/link/t")
    one.world.makes.set()
    await making


async def test_a_create_that_is_refused_leaves_the_place_free(managers: Managers) -> None:
    one, two = managers
    await one.fail("ada", InvalidArgument("it has no columns"))
    await two.make("bob")
    assert list(one.world.tables) == ["bob.t"]


async def test_a_create_that_may_have_come_to_pass_keeps_the_place_for_a_while(managers: Managers) -> None:
    """So does one whose manager has died."""
    one, two = managers
    await one.fail("ada", OutcomeUnknown("no answer"))
    two.hears()
    one.world.seconds += RESERVED_SECONDS - 1
    with pytest.raises(InvalidArgument, match="somebody else makes a table there"):
        await two.make("bob")
    assert one.world.reserved() == ["ada"]
    one.world.seconds += 2
    await two.make("bob")
    assert not one.world.reserved()


async def test_whose_reservation_another_has_ended_makes_no_table_any_more(managers: Managers) -> None:
    one, two = managers
    one.world.makes.clear()
    late = asyncio.ensure_future(one.make("ada"))
    await one.world.until(["ada"])
    two.hears()
    one.world.seconds += RESERVED_SECONDS + 1
    taken = asyncio.ensure_future(two.make("bob"))
    await one.world.until(["bob"])
    one.world.makes.set()
    await taken
    with pytest.raises(IllegalState, match="nobody keeps the place for it any more"):
        await late
    assert list(one.world.tables) == ["bob.t"]


async def test_who_retries_does_not_wait_for_what_he_has_reserved_himself(managers: Managers) -> None:
    one, two = managers
    await one.fail("ada", OutcomeUnknown("no answer"))
    await two.make("ada")


async def test_below_its_level_nothing_is_reserved(blocking: ThreadPoolExecutor) -> None:
    world = World(features.PLACES - 1)
    one, two = Manager(world, blocking), Manager(world, blocking)
    await one.make("ada")
    with pytest.raises(InvalidArgument, match="somebody else has a table there"):
        await two.make("bob")


async def test_a_reservation_that_somebody_names_himself_counts_for_nothing(managers: Managers) -> None:
    one, _ = managers
    request = pb.CreateTableRequest(name="ada.t", owner="ada", request_id="r", reservation="made up")
    await one.granting.create_table(request)
    assert list(one.world.tables) == ["ada.t"]
