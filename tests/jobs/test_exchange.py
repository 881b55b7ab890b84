"""Values into and out of notebooks: as an output of a type of its own, and on Databricks through its ``dbutils``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from nbformat.v4 import new_code_cell, new_output

import spdist
from spdist.errors import NotebookError
from spdist.headless import exchange
from spdist.headless.exchange import exit_value_of

TYPE = "application/vnd.spdist.exit-value+json"


class Widgets:
    """Those of Databricks: created with a default, unless the job has given a value."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given
        self.values: dict[str, str] = {}

    def text(self, name: str, default: str, label: str = "") -> None:
        assert isinstance(default, str)
        self.values[name] = self.given.get(name, default)

    def get(self, name: str) -> str:
        return self.values[name]


@pytest.fixture
def databricks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``databricks(days="3")``: what a notebook of a job with these parameters finds there; what it gives back."""

    def make(**given: str) -> list[str]:
        ended: list[str] = []
        dbutils = SimpleNamespace(widgets=Widgets(given), notebook=SimpleNamespace(exit=ended.append))
        monkeypatch.setattr(exchange, "_shell", lambda: SimpleNamespace(user_ns={"dbutils": dbutils}))
        return ended

    return make


def given_back(*values: Any) -> list[Any]:
    outputs = [new_output("display_data", {TYPE: {"value": one}, "text/plain": "x"}) for one in values]
    return [new_code_cell("x", outputs=[new_output("stream", text="said"), *outputs])]


def test_the_last_value_counts() -> None:
    assert exit_value_of([]) is None
    assert exit_value_of(given_back()) is None
    assert exit_value_of([*given_back(1, {"rows": 3}), *given_back()]) == {"rows": 3}


def test_what_another_has_written_is_no_trouble() -> None:
    cell = new_code_cell("x", outputs=[new_output("display_data", {TYPE: "no mapping"})])
    assert exit_value_of([cell]) is None
    assert exit_value_of(given_back("x" * 100_000)) is None


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object(), "x" * 65_536])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(NotebookError, match="exit value"):
        spdist.exit_value(value)


def test_outside_of_a_notebook_nothing_happens() -> None:
    spdist.exit_value({"rows": 3})
    assert vars(spdist.job_parameters(days=7, title="x")) == {"days": 7, "title": "x"}


# ------------------------------------------------------------------------------------------------------- on Databricks
def test_parameters_of_a_job_are_taken_with_the_types_of_the_defaults(databricks: Any) -> None:
    databricks(days="3", speed="2", title="5", dry="True", tags='["a"]', limit="9")
    found = spdist.job_parameters(days=7, speed=1.0, title="none", dry=False, tags=["x"], limit=None, rows=10)
    assert vars(found) == {
        "days": 3, "speed": 2.0, "title": "5", "dry": True, "tags": ["a"], "limit": "9", "rows": 10,
    }  # fmt: skip
    assert isinstance(found.speed, float)


def test_without_parameters_the_defaults_hold(databricks: Any) -> None:
    databricks()
    defaults = {"days": 7, "speed": 1.5, "title": "none", "dry": True, "tags": [1], "limit": None}
    assert vars(spdist.job_parameters(**defaults)) == defaults


@pytest.mark.parametrize(
    ("default", "text"), [(7, "many"), (7, "true"), (7, "1.5"), (1.0, "true"), (True, "1"), ([], "{}")]
)
def test_a_parameter_of_another_type_is_refused(databricks: Any, default: Any, text: str) -> None:
    databricks(p=text)
    with pytest.raises(NotebookError, match=f"parameter 'p' must be {type(default).__name__}, not"):
        spdist.job_parameters(p=default)


def test_the_value_goes_back_as_text(databricks: Any) -> None:
    ended = databricks()
    spdist.exit_value({"rows": 3})
    spdist.exit_value("done")
    assert ended == ['{"rows": 3}', "done"]
