"""Comparing paths as bytes gives the order of depth-first processing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spdist.mapping.columns import MAX_PATH_BYTES, child, next_sibling, sort_key

numbers = st.integers(0, 300) | st.integers(0, 2**40)
steps = st.lists(numbers, max_size=5)


def path_of(numbers: list[int]) -> bytes:
    path = b""
    for number in numbers:
        path = child(path, number)
    return path


def depth_first(numbers: list[int]) -> tuple[float, ...]:
    """An event comes after all that it causes: as if its last output had the highest number there is."""
    return (*numbers, float("inf"))


@given(steps, steps)
def test_bytes_compare_as_the_tree_is_walked(left: list[int], right: list[int]) -> None:
    in_bytes = sort_key(path_of(left)) < sort_key(path_of(right))
    assert in_bytes == (depth_first(left) < depth_first(right))


@given(steps, numbers)
def test_the_next_sibling_is_the_next_output_of_the_same_cause(above: list[int], number: int) -> None:
    assert next_sibling(path_of([*above, number])) == path_of([*above, number + 1])


def test_paths_stop_growing_where_groups_form_a_circle() -> None:
    path = path_of([0] * 1000)
    assert len(path) == MAX_PATH_BYTES
    assert child(path, 5) == path
