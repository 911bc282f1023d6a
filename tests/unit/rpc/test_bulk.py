"""What may be decoded in one go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from txnstatus.proto import rpc_pb2 as pb
from txnstatus.proto import table_pb2
from txnstatus.rpc.bulk import is_one_call, is_plain

LONG = b"x" * (2 << 20)
CALL = pb.Call(id=1 << 40, method="a/b", payload=LONG, timeout_millis=5, group="shard-0")


def test_one_call_with_much_in_it() -> None:
    assert is_one_call(pb.Frame(calls=[CALL]).SerializeToString())


def test_several_calls_are_not_one() -> None:
    assert not is_one_call(pb.Frame(calls=[CALL, pb.Call()]).SerializeToString())
    assert not is_one_call(pb.Frame(replies=[pb.Reply(payload=LONG)]).SerializeToString())
    assert not is_one_call(b"\x0a\x00" * 1_000)


def test_a_field_that_comes_again_and_again_is_not_plain() -> None:
    """Sixteen mebibytes of them take the decoder a tenth of a second."""
    assert not is_plain(b"\x1a\x00" * 1_000)
    assert not is_plain(b"\x50\x00" * 1_000)


def test_rows_are_plain() -> None:
    assert is_plain(table_pb2.WriteRowsRequest(txn_id=1, table="a.b", write_id="w", rows=LONG).SerializeToString())


@given(st.binary(max_size=40))
def test_any_bytes_are_plain_or_not(data: bytes) -> None:
    assert is_plain(data) in (True, False)
    assert is_one_call(data) in (True, False)
