"""The file of a write's dead rows: what comes back, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake import dead_rows

POSITIONS = st.sets(st.integers(0, dead_rows.MAX_POSITION), max_size=50).map(BitMap)
DEAD = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30), POSITIONS)


@settings(deadline=None, max_examples=15)
@given(DEAD)
def test_they_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, dead: dict[str, BitMap]) -> None:
    ref = dead_rows.write(tmp_path_factory.mktemp("write").as_uri(), dead)
    assert dead_rows.read(ref) == dead
    assert (ref.row_count, ref.file_count) == (sum(map(len, dead.values())), len(dead))


@settings(deadline=None, max_examples=15)
@given(st.lists(DEAD, max_size=4))
def test_a_row_is_dead_if_any_has_deleted_it(parts: list[dict[str, BitMap]]) -> None:
    together = dead_rows.union(parts)
    for file in {file for part in parts for file in part}:
        assert set(together[file]) == {position for part in parts for position in part.get(file, ())}
    assert dead_rows.union([together, *parts]) == together


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    ref = dead_rows.write(tmp_path.as_uri(), {"file:///t/part-0.parquet": BitMap([1, 5, 70_000])})
    path = tmp_path / dead_rows.FILE_NAME
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]))
        with pytest.raises(DataDamaged, match=re.escape(dead_rows.FILE_NAME)):
            dead_rows.read(ref)
    path.write_bytes(whole[:-1])
    with pytest.raises(DataDamaged):
        dead_rows.read(ref)
    path.unlink()
    with pytest.raises(InternalError, match="cannot be read"):
        dead_rows.read(ref)
