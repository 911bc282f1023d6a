"""Tickets: what holds, and everything else, which is refused in one sentence and with the same work."""

from __future__ import annotations

import contextlib
import hmac
import os
import random
from dataclasses import replace

import pytest

from tests.unit.harness.tickets import CLUSTER_ID, KEY, KEYS, NOW, SCOPE, TICKET
from txnclient.token import Token
from txnstatus.errors import InvalidArgument, TxnError, Unauthenticated, Unavailable
from txnstatus.limits import TICKET_KEY_BYTES
from txnstatus.security import tickets
from txnstatus.security.principals import Kind, Principal, Scope
from txnstatus.security.refusals import TOLD
from txnstatus.security.showing import ShownTicket
from txnstatus.security.tickets import Ticket, check, read, sign
from txnstatus.types import TxnId

INPUTS = int(os.environ.get("TXN_TLS_INPUTS", "300"))
SIGNED = sign(TICKET, 2, KEY)


def refusal(shown: bytes, now: float = NOW, keys: dict[int, bytes] = KEYS, cluster: str = CLUSTER_ID) -> TxnError:
    with pytest.raises(TxnError) as caught:
        check(shown, keys, cluster, now)
    return caught.value


@pytest.mark.parametrize("scope", [SCOPE, Scope(TxnId(0)), Scope(TxnId(2**62), may_commit=True)])
def test_a_ticket_comes_back_as_it_was_signed(scope: Scope) -> None:
    ticket = replace(TICKET, scope=scope)
    assert check(sign(ticket, 2, KEY), KEYS, CLUSTER_ID, NOW) == ticket
    assert ticket.principal == Principal("air", Kind.USER, "alice", scope)
    assert ticket.principal.owner == "alice"


def test_nobody_is_taken_for_a_process_by_a_ticket() -> None:
    """Whoever the owner is."""
    principal = replace(TICKET, owner="node/n1").principal
    assert not principal.is_process
    assert principal.owner == "node/n1"


def test_a_ticket_of_the_key_before_holds_and_of_one_before_that_does_not() -> None:
    assert check(sign(TICKET, 1, b"1" * TICKET_KEY_BYTES), KEYS, CLUSTER_ID, NOW) == TICKET
    assert isinstance(refusal(sign(TICKET, 1, KEY)), Unauthenticated)
    assert isinstance(refusal(SIGNED, keys={3: b"3" * TICKET_KEY_BYTES, 4: b"4" * TICKET_KEY_BYTES}), Unauthenticated)
    assert isinstance(refusal(SIGNED, keys={}), Unauthenticated)


def test_a_key_that_was_not_heard_of_yet_may_be_known_elsewhere() -> None:
    error = refusal(sign(TICKET, 3, KEY))
    assert isinstance(error, Unavailable)
    assert error.retriable


def test_a_ticket_that_expired_or_is_of_another_cluster_is_told_no_more_than_a_forged_one() -> None:
    told = {
        str(refusal(SIGNED, now=TICKET.expires)),
        str(refusal(SIGNED, cluster="air.2")),
        str(refusal(sign(TICKET, 2, bytes(TICKET_KEY_BYTES)))),
        str(refusal(b"")),
        str(refusal(b"\xff" * 40)),
    }
    assert told == {TOLD}
    assert check(SIGNED, KEYS, CLUSTER_ID, TICKET.expires - 1) == TICKET


@pytest.mark.parametrize("hours", [-24.0, 24.0])
def test_a_clock_that_is_wrong_refuses_or_lets_in_what_it_says_is_its_time(hours: float) -> None:
    now = NOW + hours * 3600
    if now < TICKET.expires:
        assert check(SIGNED, KEYS, CLUSTER_ID, now) == TICKET
    else:
        assert isinstance(refusal(SIGNED, now=now), Unauthenticated)


def test_a_ticket_with_a_changed_bit_is_refused() -> None:
    for position in range(len(SIGNED)):
        for bit in range(8):
            changed = bytearray(SIGNED)
            changed[position] ^= 1 << bit
            assert isinstance(refusal(bytes(changed)), Unauthenticated | Unavailable)


def test_whatever_is_shown_takes_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: one hash of what was shown, and one comparison, which takes as long wherever they differ."""
    done: list[str] = []
    digest, compare = hmac.digest, hmac.compare_digest
    monkeypatch.setattr(hmac, "digest", lambda *given: (done.append("digest"), digest(*given))[1])
    monkeypatch.setattr(hmac, "compare_digest", lambda *given: (done.append("compare"), compare(*given))[1])
    for shown in (SIGNED, sign(TICKET, 1, KEY), sign(TICKET, 2, bytes(TICKET_KEY_BYTES)), SIGNED[:-1], b"", b"\xff"):
        done.clear()
        with contextlib.suppress(Unauthenticated):
            check(shown, KEYS, CLUSTER_ID, NOW)
        assert done == ["digest", "compare"]


def test_whatever_bytes_are_shown_nothing_holds_and_nothing_else_is_raised() -> None:
    """TXN_TLS_INPUTS says how many are tried."""
    rng = random.Random(3)
    for _ in range(INPUTS):
        made = bytearray(SIGNED) if rng.random() < 0.9 else bytearray(rng.randbytes(rng.randrange(300)))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(made) + 1)
            made[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        shown = bytes(made)
        try:
            found = check(shown, KEYS, CLUSTER_ID, NOW)
        except (Unauthenticated, Unavailable):
            continue
        assert found == TICKET, "what was added says nothing"


def test_no_repr_and_no_error_has_what_is_secret() -> None:
    token = Token(TxnId(7), 1, False, CLUSTER_ID, SIGNED, b"")
    mac = tickets._signed(SIGNED).mac
    shown = ShownTicket(SIGNED, b"")
    for said in (repr(token), repr(shown), str(shown.own), repr(TICKET), repr(refusal(SIGNED[:-1]))):
        assert repr(mac)[2:-1] not in said
        assert mac.hex() not in said


def test_what_is_no_ticket_is_refused_where_it_would_be_shown() -> None:
    assert Token(TxnId(7), 1, False, CLUSTER_ID).shown() is None, "of a cluster without TLS"
    with pytest.raises(InvalidArgument, match="no ticket"):
        Token(TxnId(7), 1, False, CLUSTER_ID, b"\xff").shown()
    with pytest.raises(InvalidArgument, match="names no authority"):
        ShownTicket(SIGNED, b"no certificate")
    assert read(SIGNED) == TICKET
    assert isinstance(TICKET, Ticket)
