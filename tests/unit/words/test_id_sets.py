"""Sets of ids, against sets of integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnstatus.id_sets import NO_IDS, IdSet, below, below_without, of_spans
from txnstatus.proto import common_pb2 as pb

IDS = range(12)
SPANS = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)), max_size=5)


def plain(spans: list[tuple[int, int]]) -> set[int]:
    return {each for first, end in spans for each in range(first, end)}


@given(SPANS, SPANS, st.sampled_from(IDS))
def test_sets_of_spans_are_sets(some: list[tuple[int, int]], others: list[tuple[int, int]], end: int) -> None:
    one, other = of_spans(some), of_spans(others)
    assert {each for each in IDS if each in one} == plain(some)
    assert plain(list(one.spans())) == plain(some)
    assert one | other == of_spans([*some, *others])
    assert (one <= other) == (plain(some) <= plain(others))
    assert (one == other) == (plain(some) == plain(others))
    assert below_without(end, some) == of_spans((each, each + 1) for each in set(range(end)) - plain(some))
    assert IdSet.from_wire(one.to_wire()) == one


def test_below_are_all_ids_from_the_first_on() -> None:
    assert below(0) == below(-1) == NO_IDS
    assert [each in below(3) for each in (-1, 0, 2, 3)] == [False, True, True, False]


@pytest.mark.parametrize("bounds", [(1,), (1, 2, 3), (2, 1), (1, 1), (1, 3, 3, 5)])
def test_what_is_no_set_is_refused(bounds: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="bounds"):
        IdSet.from_wire(pb.IdSet(bounds=bounds))
