"""Boxes stand in columns, do not overlap, and arrows run from left to right; whatever the graph."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spdist.planning.pictures.layout import Arrow, Box, lay_out


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[Arrow]]:
    count = draw(st.integers(1, 9))
    sizes = st.floats(10, 200)
    boxes = [Box(f"b{i}", draw(sizes), draw(sizes), draw(st.floats(0, 90))) for i in range(count)]
    names = st.sampled_from([box.id for box in boxes])
    pairs = draw(st.lists(st.tuples(names, names).filter(lambda p: p[0] != p[1]), max_size=14))
    return boxes, [Arrow(*pair) for pair in pairs]


@given(graphs())
def test_boxes_do_not_overlap_and_lie_in_the_picture(graph: tuple[list[Box], list[Arrow]]) -> None:
    boxes, edges = graph
    layout = lay_out(boxes, edges)
    areas = [(*layout.boxes[b.id], b.width, b.height) for b in boxes]
    for number, (x, y, width, height) in enumerate(areas):
        assert x >= 0 and x + width <= layout.width
        assert y >= 0 and y + height <= layout.height
        for other_x, other_y, other_width, other_height in areas[:number]:
            beside = x >= other_x + other_width or other_x >= x + width
            # what stands exactly side by side may touch by a rounding error
            above = y >= other_y + other_height - 1e-6 or other_y >= y + height - 1e-6
            assert beside or above


@given(graphs())
def test_every_arrow_starts_and_ends_at_its_boxes(graph: tuple[list[Box], list[Arrow]]) -> None:
    boxes, edges = graph
    layout = lay_out(boxes, edges)
    size = {box.id: box for box in boxes}
    drawn = {**layout.paths, **layout.loops}
    assert drawn.keys() == set(edges)
    for edge, points in drawn.items():
        (x, y), (end_x, end_y) = points[0], points[-1]
        box_x, box_y = layout.boxes[edge.source]
        assert x == box_x + size[edge.source].width
        assert box_y <= y <= box_y + size[edge.source].height
        box_x, box_y = layout.boxes[edge.target]
        assert end_x == box_x
        assert box_y <= end_y <= box_y + size[edge.target].height


@given(graphs())
def test_arrows_run_from_left_to_right_unless_they_close_a_cycle(graph: tuple[list[Box], list[Arrow]]) -> None:
    boxes, edges = graph
    layout = lay_out(boxes, edges)
    for points in layout.paths.values():
        assert [x for x, _ in points] == sorted(x for x, _ in points)
    forward = {(e.source, e.target) for e in layout.paths}
    for edge in layout.loops:
        assert _reaches(forward, edge.target, edge.source)


def _reaches(forward: set[tuple[str, str]], start: str, goal: str) -> bool:
    found, waiting = {start}, [start]
    while waiting:
        at = waiting.pop()
        new = {target for source, target in forward if source == at} - found
        found |= new
        waiting += new
    return goal in found


def test_a_chain_is_drawn_as_one_straight_line() -> None:
    boxes = [Box("a", 50, 20), Box("b", 80, 60, lead=40), Box("c", 50, 20)]
    layout = lay_out(boxes, [Arrow("a", "b"), Arrow("b", "c")], gap=30)
    heights = {round(y, 6) for points in layout.paths.values() for _, y in points}
    assert len(heights) == 1
    assert layout.boxes["b"][0] == layout.boxes["a"][0] + 50 + 30 + 40


def test_nothing_is_an_empty_picture() -> None:
    assert lay_out([], []).boxes == {}
