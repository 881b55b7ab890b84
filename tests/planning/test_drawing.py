"""A topology as text, picture and HTML: everything that matters is on it, and nothing from the app's text breaks it."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from spdist.display import STATE_COLOURS
from spdist.planning.pictures.drawing import to_html, to_svg, to_text
from spdist.planning.topology import Topology

SVG = "{http://www.w3.org/2000/svg}"
BODY = """
@sink(type='embedded', topic='Results') define stream Out (k string, n long);
@dist(execGroup='clean', parallel='2') from S[v > 1 and v < 9] select k, v insert into Clean;
@dist(execGroup='sums', parallel='2') partition with (k of Clean) begin
  from Clean#window.length(3) select k, sum(v) as n insert into Out;
end;
"""


@pytest.fixture
def topology(planned: Callable[[str], Topology]) -> Topology:
    return planned(BODY)


def words(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_text_says_what_reads_and_writes_what(topology: Topology) -> None:
    text = to_text(topology, {"App-clean-1": "worker-1"}, {"App-clean-1": "RUNNING", "App-clean-2": "WAITING"})
    assert text.splitlines() == [
        "App (live): 2 groups, 4 instances, 3 topics",
        "  App-clean × 2: query 'query_1' asks for execGroup 'clean'; 2 instances share the events, taking turns",
        "    reads   S: ROUND_ROBIN from App.S (2 partitions, fed from outside)",
        "    writes  Clean: to App.Clean.k (2 partitions)",
        "    App-clean-1 RUNNING on worker-1",
        "    App-clean-2 WAITING",
        "  App-sums × 2: partition 1 (with query 'query_2') asks for execGroup 'sums'; 2 instances share the events, "
        "split by Clean.k",
        "    reads   Clean: FIELD_GROUPING by k from App.Clean.k (2 partitions)",
        "    writes  Out: to Results (1 partition, read from outside)",
        "    App-sums-1",
        "    App-sums-2",
    ]
    assert str(topology) == to_text(topology)


def test_the_picture_names_topics_groups_instances_and_strategies(topology: Topology) -> None:
    found = words(to_svg(topology))
    for expected in ("S", "Clean.k", "Results", "clean", "sums", "clean-1", "sums-2", "ROUND_ROBIN", "FIELD_GROUPING"):
        assert expected in found
    assert "by k" in found
    assert "fed from outside" in found


def test_states_have_colours_and_words(topology: Topology) -> None:
    names = [i.name for g in topology.groups for i in g.instances]
    assert len(names) == 4
    for first in range(len(STATE_COLOURS) - 3):
        shown(topology, dict(zip(names, list(STATE_COLOURS)[first : first + 4], strict=True)))


def shown(topology: Topology, states: dict[str, str]) -> None:
    svg = to_svg(topology, {next(iter(states)): "worker-7"}, states)
    assert "worker-7" in words(svg)
    assert words(svg).count("no worker") == 3
    titles = [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    for name, state in states.items():
        assert STATE_COLOURS[state] in svg
        assert any(title.startswith(f"{name}: {state}") for title in titles)


def test_the_picture_needs_nothing_from_outside_and_no_colour_of_its_own_for_text(topology: Topology) -> None:
    svg = to_svg(topology)
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    assert 'fill="currentColor"' in svg
    assert all("fill" not in e.attrib for e in ElementTree.fromstring(svg).iter(f"{SVG}text"))


def test_html_escapes_the_texts_of_the_app(topology: Topology) -> None:
    html = to_html(topology)
    assert "v &gt; 1" in html
    assert "v > 1" not in html
    assert "App (live): 2 groups" in html
    assert topology._repr_html_() == html


def test_a_cycle_can_be_drawn(planned: Callable[[str], Topology]) -> None:
    topology = planned("""
        define stream Back (k string);
        @dist(execGroup='a') from S select k insert into There;
        @dist(execGroup='a') from Back select k insert into There;
        @dist(execGroup='b') from There select k insert into Back;
    """)
    assert {"a", "b", "There", "Back"} <= set(words(to_svg(topology)))


def test_an_app_without_queries_is_an_empty_picture(planned: Callable[[str], Topology]) -> None:
    topology = planned("@app:name('Empty') define stream S (v int);")
    assert words(to_svg(topology)) == []
    assert to_text(topology) == "Empty (live): 0 groups, 0 instances, 0 topics"
