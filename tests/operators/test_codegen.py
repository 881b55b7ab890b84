"""Generated code: names of its own, and tracebacks that show the generated lines."""

from __future__ import annotations

import math
import traceback

import pytest

from spdist.operators.expressions.codegen import Bindings, Frame, build, indent


def test_bound_values_keep_names_of_their_own() -> None:
    bindings = Bindings()
    first, second = object(), object()
    assert bindings.bind(first, "a value") == "a_value"
    assert bindings.bind(second, "a value") == "a_value_2"
    assert bindings.bind(first, "another") == "a_value"
    assert bindings.names == {"a_value": first, "a_value_2": second}


def test_a_required_name_holds_one_thing() -> None:
    bindings = Bindings()
    bindings.require("deque", list)
    bindings.require("deque", list)
    with pytest.raises(ValueError, match="'deque' for two things"):
        bindings.require("deque", dict)


@pytest.mark.parametrize("value", [1, -2.5, 'it\'s "so"\n', None, True, 1e300])
def test_constants_are_written_as_literals(value: object) -> None:
    assert eval(Bindings().constant(value)) == value


def test_constants_that_python_cannot_write_are_bound() -> None:
    bindings = Bindings()
    name = bindings.constant(math.inf)
    assert bindings.names[name] == math.inf


def test_a_value_is_read_once_where_it_is_first_needed() -> None:
    frame = Frame()
    assert frame.known("row[0]") == "row[0]"
    assert frame.local("row[0]", "v0") == frame.local("row[0]", "v0") == "v0"
    assert frame.known("row[0]") == "v0"
    assert frame.assignments() == ["v0 = row[0]"]
    assert frame.assignments() == []
    assert frame.temporary() != frame.temporary()


def test_tracebacks_show_generated_lines() -> None:
    made = build("query 'q'", ["def divide(a, b):", *indent(["return a / b  # generated"])], {})
    with pytest.raises(ZeroDivisionError) as caught:
        made["divide"](1, 0)
    shown = "".join(traceback.format_exception(caught.value))
    assert "return a / b  # generated" in shown
    assert "<spdist query 'q' " in shown


def test_equal_source_is_compiled_once_but_bound_anew() -> None:
    lines = ["def f():", "    return value"]
    one, two = build("t", lines, {"value": 1})["f"], build("t", lines, {"value": 2})["f"]
    assert (one(), two()) == (1, 2)
    assert one.__code__ is two.__code__
