"""Lines over time as SVG."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from spdist.panels.plots import Curve, chart, sparkline


def corners(svg: str) -> list[list[tuple[float, float]]]:
    """The corners of each line."""
    found = re.findall(r'<polyline points="([^"]*)"', svg)
    return [[(float(x), float(y)) for x, _, y in (corner.partition(",") for corner in line.split())] for line in found]


def test_a_line_ends_now_and_stands_between_nothing_and_its_greatest_value() -> None:
    (line,) = corners(sparkline(Curve([(940.0, 0.0), (970.0, 50.0), (1_000.0, 25.0)], "red", "lag"), 1_000.0))
    assert line == [(0.0, 22.0), (48.0, 0.0), (96.0, 11.0)]


def test_a_gap_breaks_the_line() -> None:
    samples = [(10.0, 1.0), (20.0, 2.0), (30.0, None), (40.0, None), (50.0, 3.0), (60.0, 1.0)]
    assert [len(line) for line in corners(sparkline(Curve(samples, "red", "lag"), 60.0))] == [2, 2]


def test_many_points_become_as_many_as_can_be_seen_and_no_peak_is_lost() -> None:
    samples = [(float(s), 1_000.0 if s == 317 else 1.0) for s in range(600)]
    svg = sparkline(Curve(samples, "red", "lag"), 599.0)
    assert len(corners(svg)[0]) < 80
    assert min(y for _, y in corners(svg)[0]) == 0.0
    assert "at most 1,000 in the last 10 min" in svg


def test_nothing_is_drawn_of_nothing() -> None:
    for svg in (sparkline(Curve([], "red", "lag"), 0.0), chart(Curve([(0.0, None)], "red", "lag"), 0.0)):
        assert corners(svg) == []
        ElementTree.fromstring(svg)


def test_the_names_of_marks_stand_apart() -> None:
    svg = chart(Curve([(0.0, 100.0)], "red", "batch time"), 60.0, [("p50", 499.0), ("p99", 500.0)])
    ends = [float(x) for x in re.findall(r'<text x="([\d.]+)"[^>]*>p\d\d<', svg)]
    assert abs(ends[0] - ends[1]) >= 25


def test_large_numbers_have_room_beside_a_chart() -> None:
    svg = chart(Curve([(0.0, 0.0), (60.0, 1_037_712.0)], "grey", "state, bytes"), 60.0)
    assert ">1.0 M</text>" in svg


def test_a_chart_tells_its_scale_and_marks() -> None:
    svg = chart(Curve([(0.0, 100.0), (300.0, 400.0)], "red", "batch <time>"), 300.0, [("p99", 500.0)])
    texts = [element.text for element in ElementTree.fromstring(svg).iter("text")]
    assert texts == ["batch <time>", "p99", "500", "0", "5 min ago", "now"]
    assert corners(svg)[0][-1][1] > 0, "the mark is above the curve"
