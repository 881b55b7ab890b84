"""When partitions look for idle keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spdist.operators.partitions.purging import PurgeTimes


@given(st.integers(1, 50), st.lists(st.integers(0, 300), min_size=1, max_size=8), st.integers(0, 400))
def test_a_look_comes_whole_intervals_after_an_event(interval: int, events: list[int], time: int) -> None:
    looks = PurgeTimes(interval)
    for now in sorted(events):
        looks.note(now)
    every = {now + n * interval for now in events for n in range(1, 800)}
    assert looks.after(time) == min(look for look in every if look > time)
    again = PurgeTimes(interval)
    again.restore(looks.snapshot())
    assert again.after(time) == looks.after(time)
