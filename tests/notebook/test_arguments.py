"""What may stand behind ``%%siddhi`` and ``%siddhi``, and which variables that means."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.errors import NotebookError
from spdist.notebook.arguments import CellArguments, cell_arguments, command_arguments, help_text, options
from spdist.notebook.namespace import cluster_in, text_variable, value_of


def test_a_line_with_everything() -> None:
    line = "Shop --run Orders=frame Prices --until 60000 --result out --plan --explain"
    line += " --deploy here --deployment it --no-wait --scripts"
    expected = CellArguments(
        "Shop", {"Orders": "frame", "Prices": "Prices"}, 60_000, "out", True, True, "here", "it", False, True
    )
    assert cell_arguments(line) == expected
    assert cell_arguments("") == CellArguments()
    assert cell_arguments("--name Shop").name == cell_arguments("Shop").name == "Shop"
    assert cell_arguments("--run").run == {}
    assert cell_arguments("--deploy").deploy == ""


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01", 0),
        ("1970-01-01T01:00+01:00", 0),
        ("'1970-01-01 00:00:01.5'", 1_500),
        ("2004-09-19T05:48:49.189", 1_095_572_929_189),
    ],
)
def test_the_end_of_a_run(text: str, ms: int) -> None:
    assert cell_arguments(f"--run S --until {text}").until == ms


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--plna", "%%siddhi has no option '--plna'", "Did you mean '--plan'?"),
        ("--deplo=x", "no option '--deplo=x'", "'--deploy'"),
        ("--zzz", "no option '--zzz'", "--help"),
        ("Shop Other", "no argument 'Other'", "--help"),
        ("two-words", "'two-words' is no name of a variable", "--help"),
        ("--run S=a.b", "'a.b' is no name of a variable", "--help"),
        ("--run S --until soon", "'soon' is no time", "--help"),
        ("--until 5", "there is no --run", "--help"),
        ("--no-wait", "there is no --deploy", "--help"),
        ("A --name B", "two names, 'A' and 'B'", "--help"),
        ("'open", "no closing quotation", "--help"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_what_is_near(line: str, message: str, hint: str) -> None:
    with pytest.raises(NotebookError) as caught:
        cell_arguments(line)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert hint in str(caught.value.hint)


def test_commands() -> None:
    name, asked = command_arguments("tail Alerts --app Shop -n 5 --follow 2.5 --cluster here")
    assert (name, asked.stream, asked.app, asked.n, asked.follow, asked.cluster) == (
        *("tail", "Alerts", "Shop", 5, 2.5, "here"),
    )
    assert command_arguments("tail Alerts")[1].follow is None
    assert command_arguments("tail Alerts --follow")[1].follow == float("inf")
    assert command_arguments("functions math:")[1].pattern == "math:"
    assert command_arguments("")[0] == command_arguments("help")[0] == command_arguments("tail -h S")[0] == "help"
    for wrong, hint in (("tial", "'tail'"), ("nothing", "tail, check, status"), ("tail S --folow", "'--follow'")):
        with pytest.raises(NotebookError) as caught:
            command_arguments(wrong)
        assert hint in str(caught.value.hint)
    with pytest.raises(NotebookError, match="'-1' is no number above 0"):
        command_arguments("tail S --follow -1")


def test_help_names_every_option_and_command() -> None:
    text = help_text()
    for option in options("", cell=True):
        assert option in text
    for command in options("", cell=False):
        assert f"%siddhi {command}" in text


def test_the_variable_of_a_text() -> None:
    assert text_variable("flight-watch 2", {}) == "flight_watch_2"
    assert text_variable(None, {"app": "an older text"}) == "app"
    assert text_variable("2nd", {}) == "app_2nd"
    assert text_variable("class", {}) == "app_class"
    for taken, names in (("frame", {"frame": 3}), ("list", {})):
        with pytest.raises(NotebookError, match=f"'{taken}', where the app's text would go"):
            text_variable(taken, names)


class Cluster:
    def deploy(self, app: str) -> None: ...
    def deployment(self, name: str) -> None: ...


class AsyncCluster:
    async def deploy(self, app: str) -> None: ...
    def deployment(self, name: str) -> None: ...


def test_the_cluster_of_a_notebook() -> None:
    one, two = Cluster(), Cluster()
    several: dict[str, Any] = {"a": one, "b": two, "n": 3}
    assert cluster_in({"here": one, "same": one, "_": two}) is one
    assert cluster_in(several, "b") is two
    assert cluster_in({**several, "cluster": two}) is two
    for names, name, message in (
        ({}, "", "has no cluster"),
        ({"c": AsyncCluster()}, "", "has no cluster"),
        (several, "", "several clusters: a, b"),
        (several, "n", "'n' is a int, no cluster"),
        (several, "c", "no variable 'c'"),
    ):
        with pytest.raises(NotebookError, match=message):
            cluster_in(names, name)


def test_a_variable_that_is_not_there() -> None:
    with pytest.raises(NotebookError) as caught:
        value_of("recrded", {"recorded": 1, "_recrded": 2})
    assert caught.value.hint == "Did you mean 'recorded'?"
