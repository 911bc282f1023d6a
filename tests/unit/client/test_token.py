"""Tokens: what comes back, and what is refused with a sentence that helps."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txnclient.token import Token
from txnstatus.errors import InvalidArgument
from txnstatus.types import TxnId

TOKEN = Token(TxnId(42), 3000, True, "cluster-1")
DATA = TOKEN.to_bytes()


@settings(deadline=None, max_examples=100)
@given(
    st.builds(
        Token,
        st.integers(0, 2**63 - 1).map(TxnId),
        st.integers(0, 2**32 - 1),
        st.booleans(),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    )
)
def test_a_token_comes_back_as_it_was(token: Token) -> None:
    assert Token.from_bytes(token.to_bytes()) == token


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_will_do(kind: type) -> None:
    assert Token.from_bytes(kind(DATA)) == TOKEN


def test_the_same_handle_gives_the_same_bytes() -> None:
    assert TOKEN.to_bytes() == DATA


def test_the_format_stays() -> None:
    """Tokens travel between releases: the driver's, and its executors'."""
    assert DATA.hex() == "54584e31" + zlib.crc32(DATA[8:]).to_bytes(4, "little").hex() + (
        "082a10b81718012209636c75737465722d31"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("a string", "not str"),
        (None, "not NoneType"),
        (42, "not int"),
        (b"", "is empty"),
        (b"garbage that is long enough", "27 bytes are no transaction token"),
        (b"\0" * 100, "100 bytes are no transaction token"),
        (b"TXN2" + DATA[4:], "no transaction token"),
        (DATA + b"\0", "damaged"),
        (DATA + DATA, "damaged"),
    ],
)
def test_what_is_no_token_is_refused(data: object, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as refusal:
        Token.from_bytes(data)  # type: ignore[arg-type]
    assert "Transaction.token()" in refusal.value.hint


@pytest.mark.parametrize("length", range(1, len(DATA)))
def test_a_token_cut_short_is_refused(length: int) -> None:
    with pytest.raises(InvalidArgument, match="cut short") as refusal:
        Token.from_bytes(DATA[:length])
    assert f"{length} bytes" in refusal.value.message


@pytest.mark.parametrize("position", range(len(DATA)))
def test_a_token_with_a_changed_byte_is_refused(position: int) -> None:
    for bit in range(8):
        changed = DATA[:position] + bytes([DATA[position] ^ (1 << bit)]) + DATA[position + 1 :]
        with pytest.raises(InvalidArgument, match=r"no transaction token|damaged"):
            Token.from_bytes(changed)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60))
def test_garbage_is_refused_and_never_anything_worse(data: bytes) -> None:
    with pytest.raises(InvalidArgument):
        Token.from_bytes(data)
    with pytest.raises(InvalidArgument):
        Token.from_bytes(b"TXN1" + data)


def test_a_checksum_that_fits_garbage_is_refused_too() -> None:
    """Not by chance, but by a program that builds tokens itself."""
    for payload in (b"\xff", b"\x08", b"\x22\x05abc"):
        with pytest.raises(InvalidArgument):
            Token.from_bytes(b"TXN1" + zlib.crc32(payload).to_bytes(4, "little") + payload)
