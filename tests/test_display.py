"""The one look: tables as text and HTML, states that can be read on any page, quantities, and nothing unescaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import spdist
from spdist.display import (
    JSON_MIME,
    STATE_COLOURS,
    Markup,
    Shown,
    bytes_text,
    cell_text,
    details_html,
    duration_text,
    problem_html,
    state_style,
    table_html,
    table_text,
    time_text,
)
from spdist.errors import SpdistError

HEAD = ("group", "state", "events", "memory", "why")
ROWS = [
    ("A-1", "RUNNING", 1_234_567, "12.3 MB", ""),
    ("A-2", "LOST: silent for 4.0 s", 7, "980 kB", "a\nb"),
    ("A-3", "unknown", None, "", "<script>"),
]


def cells(html: str) -> list[list[ElementTree.Element]]:
    return [list(row) for row in ElementTree.fromstring(html).iter("tr")]


def test_a_text_table_has_numbers_and_quantities_at_the_right() -> None:
    assert table_text(HEAD, ROWS, title="cluster").splitlines() == [
        "cluster",
        "  group  state                      events   memory  why",
        "  A-1    RUNNING                 1,234,567  12.3 MB",
        "  A-2    LOST: silent for 4.0 s          7   980 kB  a b",
        "  A-3    unknown                                     <script>",
    ]


def test_an_html_table_has_numbers_at_the_right_with_thin_spaces_and_room_between_cells() -> None:
    rows = cells(table_html(HEAD, ROWS, caption="a & b"))
    assert [cell.text or "" for cell in rows[1]] == ["A-1", "RUNNING", "1\u202f234\u202f567", "12.3 MB", ""]
    sides = [re.search(r"text-align:(\w+)", cell.get("style", ""))[1] for cell in rows[1]]  # type: ignore[index]
    assert sides == ["left", "left", "right", "right", "left"]
    assert all("padding:" in cell.get("style", "") for row in rows for cell in row)


def test_only_a_column_called_state_has_colours() -> None:
    _, first, second, third = cells(table_html(HEAD, ROWS))
    assert STATE_COLOURS["RUNNING"] in first[1].get("style", "")
    assert STATE_COLOURS["LOST"] in second[1].get("style", "")
    assert "color" not in third[1].get("style", "")
    (_, row) = cells(table_html(("word",), [("RUNNING",)]))
    assert "color" not in row[0].get("style", "")


def luminance(rgb: list[float]) -> float:
    red, green, blue = ((c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for c in rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("state", STATE_COLOURS)
@pytest.mark.parametrize(("page", "text"), [(1.0, 0.0), (0.067, 1.0), (0.13, 0.87)], ids=["light", "dark", "grey"])
def test_states_can_be_read_on_light_and_dark_pages(state: str, page: float, text: float) -> None:
    share = float(re.search(r"(\d+)%,currentColor", state_style(state))[1]) / 100  # type: ignore[index]
    tone = [int(STATE_COLOURS[state][i : i + 2], 16) / 255 for i in (1, 3, 5)]
    mixed = luminance([share * c + (1 - share) * text for c in tone])
    low, high = sorted((mixed, luminance([page] * 3)))
    assert (high + 0.05) / (low + 0.05) >= 4.5  # WCAG AA


def test_a_state_keeps_a_plain_colour_where_mixed_ones_are_not_known() -> None:
    assert state_style("FAILED").startswith(f";color:{STATE_COLOURS['FAILED']};color:color-mix(")


@pytest.mark.parametrize("make", [table_html, table_text], ids=["html", "text"])
def test_a_long_table_says_how_much_more_there_is(make: object) -> None:
    shown = make(("n",), [(n,) for n in range(1_302)], limit=2)  # type: ignore[operator]
    assert "… and 1,300 more rows" in shown
    assert "more row" not in make(("n",), [(1,), (2,)], limit=2)  # type: ignore[operator]


def test_texts_are_escaped() -> None:
    bad = '<img src=x onerror="1">'
    for html in (
        table_html((bad,), [(bad,)], caption=bad),
        table_html(("state",), [(f"FAILED {bad}",)]),
        details_html(bad, ""),
        problem_html(ValueError(bad)),
    ):
        assert "<img" not in html
        assert "&lt;img" in html


def test_an_error_of_an_app_has_its_line_in_colours_and_escaped() -> None:
    with pytest.raises(SpdistError) as caught:
        spdist.check("define stream S (a int);\nfrom S[a > '<b>'] select c insert into O; -- <script>")
    error = caught.value
    html = ElementTree.fromstring(problem_html(error))
    assert "".join(html.itertext()) == str(error), "the text is the same, with all of it escaped"
    styles = {part.text: part.get("style", "") for part in html}
    assert {"from", "'<b>'", "-- <script>", "^^^^^^^^^"} <= set(styles)
    assert len({styles[part] for part in ("from", "'<b>'", "-- <script>", "^^^^^^^^^")}) == 4
    for style in styles.values():
        assert re.match(r"color:#\w{6};color:color-mix\(in srgb,#\w{6} \d+%,currentColor\)", style), "on any theme"
    assert "color:inherit" in html.get("style", ""), "what has no colour has that of the page"


def test_the_html_needs_nothing_from_outside_and_no_style_sheet() -> None:
    html = table_html(HEAD, ROWS, caption="c") + details_html("more", problem_html("no"))
    assert not re.search(r"https?:|url\(|@import|<style|<script|<link|class=", html)


def test_a_table_without_rows_has_its_head() -> None:
    assert table_text(("a", "b"), []) == "a  b"
    assert [cell.text for cell in cells(table_html(("a", "b"), []))[0]] == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (1_000_000, "1,000,000"), (1234.5, "1,234.5"), ("1,2", "1,2"), (float("nan"), "nan")],
)
def test_cells(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_a_column_of_truths_is_no_column_of_numbers() -> None:
    assert table_text(("longer",), [(True,), (False,)]).splitlines() == ["longer", "true", "false"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (99_949, "99.9 kB"), (123_456, "123 kB"),
     (999_999, "1.0 MB"), (5_300_000_000, "5.3 GB"), (7.2e15, "7,200 TB")],
)  # fmt: skip
def test_bytes(count: float | None, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, ""), (0, "0 ms"), (999, "999 ms"), (999.9, "1.0 s"), (59_949, "59.9 s"), (59_960, "1 min"),
     (61_000, "1 min 1 s"), (3_599_900, "1 h"), (90_000_000, "1 d 1 h"), (-1_500, "-1.5 s")],
)  # fmt: skip
def test_durations(ms: float | None, text: str) -> None:
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"), [(None, ""), (0, "1970-01-01 00:00:00"), (1_700_000_000_123, "2023-11-14 22:13:20"), (1e300, "")]
)
def test_times_are_utc(ms: float | None, text: str) -> None:
    assert time_text(ms) == text


class Named(Shown):
    def __str__(self) -> str:
        return "text"

    def _repr_html_(self) -> str:
        return "<p>html</p>"


class Told(Named):
    def to_dict(self) -> dict[str, int]:
        return {"a": 1}


def test_what_shows_itself_has_all_its_forms_together_and_data_that_jupyter_does_not_prefer() -> None:
    assert Named()._repr_mimebundle_() == {"text/plain": "text", "text/html": "<p>html</p>"}
    assert Told()._repr_mimebundle_()[JSON_MIME] == {"a": 1}
    assert JSON_MIME != "application/json"  # JupyterLab would show a tree of it in place of the HTML


def test_only_what_is_said_to_be_html_is_shown_as_it_is() -> None:
    html = table_html(("what",), [(Markup("<svg/>"),), ("<svg/>",)])
    assert (html.count("<svg/>"), html.count("&lt;svg/&gt;")) == (1, 1)
