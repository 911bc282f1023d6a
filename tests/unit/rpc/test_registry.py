"""What a process answers to a method that it does not serve."""

from __future__ import annotations

import asyncio

import pytest

from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.proto import catalog_pb2
from txnstatus.rpc.server import Registry


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("txnstatus.Catalog/GetCatalog", Unavailable),
        ("txnstatus.Catalog/Nothing", InvalidArgument),
        ("txnstatus.Nobody/GetCatalog", InvalidArgument),
        ("GetCatalog", InvalidArgument),
        ("", InvalidArgument),
    ],
)
def test_a_service_may_yet_come_to_a_node_and_an_unknown_method_never_does(method: str, error: type[TxnError]) -> None:
    with pytest.raises(error):
        asyncio.run(Registry().call(method, b""))


class Replica:
    """A replica of a catalog; it answers one of the two methods."""

    async def get_catalog(self, request: catalog_pb2.GetCatalogRequest) -> catalog_pb2.CatalogState:
        return catalog_pb2.CatalogState(version=request.known_version + 1)


def test_a_call_goes_to_the_replica_of_its_group_while_there_is_one() -> None:
    registry, asked = Registry("n1"), catalog_pb2.GetCatalogRequest(known_version=6)
    registry.add(catalog_pb2.DESCRIPTOR.services_by_name["Catalog"], Replica(), "catalog")

    async def ask(method: str, group: str) -> int:
        answer = await registry.call(f"txnstatus.Catalog/{method}", asked.SerializeToString(), group)
        assert isinstance(answer, catalog_pb2.CatalogState)
        return answer.version

    assert asyncio.run(ask("GetCatalog", "catalog")) == 7
    with pytest.raises(InvalidArgument, match="nothing that catalog answers"):
        asyncio.run(ask("ChangeCatalog", "catalog"))
    with pytest.raises(Unavailable, match="n1 has no replica of shard-3"):
        asyncio.run(ask("GetCatalog", "shard-3"))
    with pytest.raises(InvalidArgument, match="the leader of a group, which the call has to name"):
        asyncio.run(ask("GetCatalog", ""))
    registry.remove("catalog")
    with pytest.raises(Unavailable, match="does not serve"):
        asyncio.run(ask("GetCatalog", ""))
    with pytest.raises(Unavailable, match="n1 has no replica of catalog"):
        asyncio.run(ask("GetCatalog", "catalog"))
