"""What a process answers to a method that it does not serve."""

from __future__ import annotations

import asyncio

import pytest

from txnstatus.errors import InvalidArgument, TxnError, Unavailable
from txnstatus.proto import catalog_pb2  # noqa: F401  (its services are known to the process)
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
