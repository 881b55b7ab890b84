"""Reserved arrays: where they begin, and how large they may become."""

from __future__ import annotations

import pytest

from spdist.program.running.reserve import Reserve

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
