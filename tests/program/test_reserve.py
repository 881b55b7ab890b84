"""Reserved arrays: where they begin, and how large they may become."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spdist import check
from spdist.program.machine.compiler import interpreted
from spdist.program.running.reserve import Reserve
from spdist.program.running.rooms import Rooms
from spdist.program.shape import shape_of
from spdist.program.text import written

LINE, PAGE = 64, 4096


def test_arrays_that_are_written_at_the_same_place_do_not_compete_for_one_line_of_a_cache() -> None:
    reserve = Reserve(128)
    begins = [reserve.array(dtype).ctypes.data for dtype in ("int64", "uint8", "float64", "int64") * 32]
    for several in (begins[:64], begins[64:]):
        assert len({begin % PAGE // LINE for begin in several}) == 64
    assert len({begin // PAGE % 256 for begin in begins}) == 128


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_each_array_has_its_own_memory_of_zeros(dtype: str) -> None:
    reserve = Reserve(3)
    first, second, third = (reserve.array(dtype) for _ in range(3))
    for array in (first, second, third):
        assert not array[0] and not array[-1]
    second[:10], second[-10:] = 1, 1
    assert not first[:10].any() and not first[-10:].any()
    assert not third[:10].any() and not third[-10:].any()
    assert second.nbytes > 1_000_000_000


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_room_for_events_takes_no_memory_before_they_come() -> None:
    text = "define stream S (a long, b double, c long); from S#window.time(1 sec) select * insert all events into Out;"
    program = written(shape_of(check(text)), ("Out",))
    rooms, count = Rooms(program, interpreted(program), steady=True), 1 << 20
    before = resident()
    rooms.make_room(count)
    zeros = [array for array in rooms.arrays.values() if len(array) >= count and not array[-1]]
    assert len(zeros) > 5
    assert not any(array[place] for array in zeros for place in (0, count // 2))
    written_to = sum(array.nbytes for array in rooms.arrays.values()) - sum(array.nbytes for array in zeros)
    assert resident() - before < written_to + (1 << 22)
