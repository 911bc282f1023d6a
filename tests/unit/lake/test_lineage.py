"""Lineage: rows are where a model that writes every row out says they are, and a file that is damaged is refused."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake import lineage
from txnstatus.lake.lineage import NOWHERE, Lineage, Segment

Place = tuple[str, int]


@dataclass(frozen=True)
class Compaction:
    """A compaction, and the naive model of it: every row by itself."""

    lineage: Lineage
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]
    moved: Mapping[Place, Place]
    """Where a row is now; those that were dead are not in it."""


@st.composite
def compactions(draw: st.DrawFn, inputs: Mapping[str, int] | None = None, name: str = "out") -> Compaction:
    """Inputs with dead rows, cut anywhere, into outputs that end anywhere and may have rows of their own behind."""
    if inputs is None:
        inputs = {f"in-{number}": draw(st.integers(0, 12)) for number in range(draw(st.integers(1, 4)))}
    taken = {file: count for file, count in inputs.items() if draw(st.booleans())}
    segments, moved, outputs = [], {}, defaultdict[str, int](int)
    number = 0
    for file, count in taken.items():
        cuts = sorted({0, count, *draw(st.lists(st.integers(0, count), max_size=2))})
        dead = draw(st.sets(st.integers(0, count - 1))) if count else set[int]()
        for first, end in pairwise(cuts):
            number += draw(st.integers(0, 1))
            output, gone = f"{name}-{number}", dead & set(range(first, end))
            alive = [row for row in range(first, end) if row not in gone]
            offset = outputs[output] if alive else 0
            segments.append(Segment(file, first, end, output if alive else NOWHERE, offset, BitMap(gone)))
            for row in alive:
                moved[file, row] = output, outputs[output]
                outputs[output] += 1
    for output in list(outputs):
        outputs[output] += draw(st.integers(0, 2))
    stay = {file: count for file, count in inputs.items() if file not in taken}
    return Compaction(Lineage(segments), {file: count for file, count in taken.items() if count}, stay | outputs, moved)


@st.composite
def rows_of(draw: st.DrawFn, files: Mapping[str, int]) -> dict[str, BitMap]:
    """Some rows of some files."""
    return {
        file: BitMap(draw(st.sets(st.integers(0, count - 1), min_size=1)))
        for file, count in files.items()
        if count and draw(st.booleans())
    }


def places(rows: Mapping[str, BitMap]) -> set[Place]:
    return {(file, row) for file, positions in rows.items() for row in positions}


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_rows_are_where_the_model_has_them(data: st.DataObject) -> None:
    one = data.draw(compactions())
    asked = data.draw(rows_of(one.inputs))
    moved = one.lineage.forward(asked | {"another": BitMap([3])})
    assert places(moved) == {one.moved[place] for place in places(asked) if place in one.moved} | {("another", 3)}
    from_where = {now: before for before, now in one.moved.items()}
    outputs = data.draw(rows_of(one.outputs))
    assert places(one.lineage.back(outputs)) == {from_where.get(place, place) for place in places(outputs)}
    for file in one.inputs:
        expected = {now for (before, _), now in one.moved.items() if before == file}
        assert places(one.lineage.range_of(file)) == expected
    assert not one.lineage.fault(one.inputs, one.outputs)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_several_compactions_are_followed_one_after_the_other(data: st.DataObject) -> None:
    files: Mapping[str, int] = {f"in-{number}": data.draw(st.integers(1, 9)) for number in range(3)}
    asked = data.draw(rows_of(files))
    chain, now = [], {place: place for place in places({file: BitMap(range(rows)) for file, rows in files.items()})}
    for number in range(data.draw(st.integers(1, 4))):
        one = data.draw(compactions(files, f"out{number}"))
        now = {
            first: one.moved.get(last, last)
            for first, last in now.items()
            if last in one.moved or last[0] not in one.inputs
        }
        chain.append(one.lineage)
        files = one.outputs
    moved = lineage.forward(chain, asked)
    assert places(moved) == {now[place] for place in places(asked) if place in now}
    assert places(lineage.back(chain, moved)) == {place for place in places(asked) if place in now}


def test_many_rows_take_no_loop_over_them() -> None:
    """Far from the beginning of a file, and in numbers, the arithmetic is the same."""
    dead = BitMap(range(0, 3_000_000, 7))
    one = Lineage([Segment("in", 0, 3_000_000, "out", 4_000_000_000, dead)])
    asked = BitMap(range(3, 3_000_000, 10))
    moved = one.forward({"in": asked})
    assert len(moved["out"]) == len(asked - dead)
    assert one.back(moved) == {"in": asked - dead}
    last = asked.max()
    assert moved["out"].max() == 4_000_000_000 + last - dead.rank(last)


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_a_file_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    one = data.draw(compactions()).lineage
    ref = lineage.write(tmp_path_factory.mktemp("base").as_uri(), one)
    assert lineage.read(ref).segments == one.segments


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    one = Lineage([Segment("file:///t/a.parquet", 0, 9, "file:///t/b.parquet", 0, BitMap([1, 5]))])
    ref = lineage.write(tmp_path.as_uri(), one)
    path = tmp_path / lineage.FILE_NAME
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]))
        with pytest.raises(DataDamaged, match=re.escape(lineage.FILE_NAME)):
            lineage.read(ref)
    path.write_bytes(whole[:-1])
    with pytest.raises(DataDamaged):
        lineage.read(ref)
    path.unlink()
    with pytest.raises(InternalError, match="cannot be read"):
        lineage.read(ref)


@pytest.mark.parametrize(
    ("segments", "fault"),
    [
        ([("a", 0, 4, "o", 0, [1]), ("b", 0, 2, "o", 3, [])], ""),
        ([("a", 0, 4, "o", 0, [1])], "b is not in it"),
        ([("a", 0, 4, "o", 0, [1]), ("b", 0, 2, "o", 3, []), ("c", 0, 1, "o", 5, [])], "c is no input"),
        ([("a", 0, 3, "o", 0, [1]), ("b", 0, 2, "o", 3, [])], "its segments of a are not its 4 rows"),
        ([("a", 0, 4, "o", 0, [1]), ("b", 1, 2, "o", 3, [])], "its segments of b are not its 2 rows"),
        ([("a", 0, 4, "o", 0, [4]), ("b", 0, 2, "o", 3, [])], "a segment of a has dead rows that are not in it"),
        ([("a", 0, 4, "o", 0, [1]), ("b", 0, 2, "o", 4, [])], "o does not have row 5"),
        ([("a", 0, 4, "o", 0, []), ("b", 0, 2, "o", 3, [])], "two segments have a row of o"),
        ([("a", 0, 4, "p", 0, []), ("b", 0, 2, "o", 3, [])], "p does not have row 3"),
    ],
)
def test_a_lineage_that_loses_or_doubles_rows_is_seen(
    segments: list[tuple[str, int, int, str, int, list[int]]], fault: str
) -> None:
    one = Lineage(Segment(*rest, BitMap(dead)) for *rest, dead in segments)  # type: ignore[arg-type]
    assert one.fault({"a": 4, "b": 2}, {"o": 5}) == fault
