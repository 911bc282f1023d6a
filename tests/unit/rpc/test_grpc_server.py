"""gRPC on a port of its own, with the same handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.unit.harness.answering import SECONDS, STATE, USERS, Manager
from tests.unit.harness.identities import Identities
from txndeploy.local.authority import Authority
from txndeploy.local.network import free_ports
from txnstatus.proto import common_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.grpc_server import CLUSTER_KEY, DETAIL_KEY, GROUP_KEY, TRACE_KEY, GrpcServer
from txnstatus.rpc.server import Registry
from txnstatus.security import tls
from txnstatus.security.access import Access
from txnstatus.security.principals import Kind
from txnstatus.security.tls import Tls
from txnstatus.tracing import otel, spans


@asynccontextmanager
async def served(shown: Tls | None = None) -> AsyncIterator[tuple[Registry, str, grpc.aio.Channel]]:
    """A manager, by itself and as the replica of a group."""
    registry, address = Registry("n1", lambda: "local.1"), f"127.0.0.1:{free_ports(1)[0]}"
    registry.access = Access(USERS)
    for group in ("", "status-0"):
        registry.add(pb.DESCRIPTOR.services_by_name["TxnManager"], Manager(), group)
    server = GrpcServer(registry, shown)
    server.bind(address)
    await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield registry, address, channel
    await server.stop()


async def test_many_calls_and_one_that_takes_many_reads() -> None:
    async with served() as (_, _, channel):
        call: Any = channel.unary_unary(
            f"/{STATE}",
            request_serializer=pb.GetTransactionStateRequest.SerializeToString,
            response_deserializer=pb.GetTransactionStateResponse.FromString,
        )
        answers = await asyncio.gather(
            *(call(pb.GetTransactionStateRequest(txn_id=2 * n), timeout=SECONDS) for n in range(1, 50))
        )
        assert [answer.txn.txn_id for answer in answers] == [2 * n for n in range(1, 50)]
        long = channel.unary_unary(f"/{STATE}")(bytes([0x7A, 0xFF, 0xFF, 0x3F]) + bytes(1_048_575), timeout=SECONDS)
        with pytest.raises(grpc.RpcError):
            await long


@pytest.mark.parametrize(
    ("method", "group", "status", "code"),
    [
        (STATE, "", grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
        (STATE, "status-0", grpc.StatusCode.NOT_FOUND, "NOT_FOUND"),
        (STATE, "status-1", grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
        ("txnstatus.Admin/GetNode", "", grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE"),
        ("txnstatus.TxnManager/Nothing", "", grpc.StatusCode.UNIMPLEMENTED, ""),
    ],
)
async def test_an_error_comes_as_a_status_and_in_the_metadata(
    method: str, group: str, status: grpc.StatusCode, code: str
) -> None:
    """The group of the call comes in the metadata, too."""

    async with served() as (_, _, channel):
        metadata = ((GROUP_KEY, group),) if group else ()
        request = pb.GetTransactionStateRequest(txn_id=1).SerializeToString()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await channel.unary_unary(f"/{method}")(request, timeout=SECONDS, metadata=metadata)
        assert raised.value.code() is status
        detail = dict(raised.value.trailing_metadata()).get(DETAIL_KEY, b"")
        assert common_pb2.ErrorDetail.FromString(detail).code == code  # type: ignore[arg-type]


async def asked(address: str, shown: Path | None, method: str = STATE, **options: Any) -> int | str:
    """What a client hears, or the status that it gets; `shown`: its credentials."""
    request = pb.GetTransactionStateRequest(txn_id=2).SerializeToString()
    if shown is None:
        made = grpc.aio.insecure_channel(address)
    else:
        authority, key, certificate = ((shown / f"{name}.pem").read_bytes() for name in ("ca", "key", "certificate"))
        made = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(authority, key, certificate))
    async with made as channel:
        try:
            answer = await channel.unary_unary(f"/{method}")(request, timeout=SECONDS, **options)
        except grpc.aio.AioRpcError as error:
            return error.code().name
    return pb.GetTransactionStateResponse.FromString(answer).txn.txn_id


async def test_who_calls_by_grpc_is_known_by_its_certificate(tmp_path: Path) -> None:
    air, again = Identities(tmp_path / "air"), Identities(tmp_path / "again")
    node, user, stranger = tmp_path / "node", air.files(Kind.USER, "alice"), again.files(Kind.USER, "alice")
    air.authority.issue(Kind.NODE, "n1", node, hosts=["127.0.0.1"])
    (stranger / "ca.pem").write_bytes(air.authority.pem)
    sea = tmp_path / "sea"
    Authority("sea", air.authority.certificate, air.authority.key).issue(Kind.USER, "alice", sea)
    async with served(tls.within(node)) as (_, address, _):
        assert await asked(address, user) == 2
        assert await asked(address, user, metadata=((GROUP_KEY, "status-0"),)) == "PERMISSION_DENIED"
        assert await asked(address, air.files(Kind.NODE, "n2"), metadata=((GROUP_KEY, "status-0"),)) == 2
        assert await asked(address, sea) == "UNAUTHENTICATED"
        assert await asked(address, stranger) == "UNAVAILABLE"
        assert await asked(address, None) == "UNAVAILABLE"
        again.authority.issue(Kind.NODE, "n1", node, hosts=["127.0.0.1"])
        assert await asked(address, again.files(Kind.USER, "bob")) == 2, "its certificate was read again"


async def test_a_port_in_use_is_an_error() -> None:
    async with served() as (registry, address, _):
        with pytest.raises(OSError, match=r".*"):
            GrpcServer(registry).bind(address)


async def test_a_call_that_means_another_cluster_is_refused_by_name() -> None:
    async with served() as (_, _, channel):
        call: Any = channel.unary_unary(f"/{STATE}")
        request = pb.GetTransactionStateRequest(txn_id=2).SerializeToString()
        assert await call(request, timeout=SECONDS, metadata=((CLUSTER_KEY, "local.1"),))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(request, timeout=SECONDS, metadata=((CLUSTER_KEY, "local.2"),))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        for named in ("local.1", "local.2"):
            assert named in (caught.value.details() or "")


async def test_a_call_is_part_of_the_trace_that_its_metadata_say(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "tracer", otel.OtelTracer(provider))
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    async with served() as (_, _, channel):
        call: Any = channel.unary_unary(f"/{STATE}")
        request = pb.GetTransactionStateRequest(txn_id=2).SerializeToString()
        for metadata in ((), (("traceparent", "garbage"),), ((TRACE_KEY, f"00-{trace}-{span}-01"),)):
            assert await call(request, timeout=SECONDS, metadata=metadata)
    (found,) = exporter.get_finished_spans()
    assert found.name == STATE
    assert found.parent is not None
    assert (f"{found.parent.trace_id:032x}", f"{found.parent.span_id:016x}") == (trace, span)
