"""What of the body of an app's Python function is indentation, what is run, and where its errors are."""

from __future__ import annotations

import re
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.engine.local.app import run
from spdist.language.ast import FunctionDefinition
from spdist.language.scripts import read_script
from spdist.language.types import Type
from spdist.operators.expressions.scripts import script_function

QUOTES = '"""'


def result(body: str) -> Any:
    """Return what a function of this body gives in an app, as a string."""
    defined = f"define stream S (v int); define function f[python] return string {{{body}}};"
    ((_, (value,)),) = run(f"{defined} from S select f(v) as r insert into Out;", {"S": [(1000, (1,))]}, scripts=True)[
        "Out"
    ]
    return value


def defined(body: str) -> FunctionDefinition:
    return FunctionDefinition("f", language="python", returns=Type.STRING, body=body)


@given(
    # Neither what ends the string or stands for something else, nor what ends the body or is no text of an app
    content=st.text(
        st.characters(exclude_characters='"\\\r{}\0', exclude_categories=["Cs"]) | st.sampled_from("\n \t\v\f\u2028")
    ),
    margin=st.sampled_from(["", "    ", "\t", " \t "]),
    behind_brace=st.booleans(),
)
def test_what_strings_hold_stays_as_written(content: str, margin: str, behind_brace: bool) -> None:
    begin = " " if behind_brace else f"\n{margin}"
    lines = [f"text = {QUOTES}{content}{QUOTES}", "if data:", "    return text", "return None"]
    assert result(begin + f"\n{margin}".join(lines)) == content


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (" if data[0] > 5:\n        return 'more'\n    return 'less' ", "less"),  # begins behind the brace
        ("\n    x = [\n1,\n  2,\n]\n    y = 1 + \\\n2\n    return f'{x} {y}'", "[1, 2] 3"),
        ("\n# from the first column\n    if data:\n\t# a comment\n        return 'x'\n", "x"),
        ("\n\tx = 'tab'\n        return x", "tab"),
        (f"\r\n    x = {QUOTES}a\r\n  b{QUOTES}\r\n    return x\r\n", "a\n  b"),
        (" # nothing else\n", None),
        (f"\n    def inner():\n        {QUOTES}Say\n        so.{QUOTES}\n    return inner.__doc__", "Say\n        so."),
        ("return str(f([None])) + '!' if data[0] else 'again'", "again!"),
    ],
)
def test_only_the_indentation_of_statements_is_taken_away(body: str, expected: str | None) -> None:
    assert result(body) == expected


@pytest.mark.parametrize("name", ["class", "my-f", "1st", "\ufb01x", "straße", "x²"])
def test_a_name_that_python_does_not_take_names_a_function_all_the_same(name: str) -> None:
    text = f"define stream S (v int); define function `{name}`[python] return int {{ return 7 }};"
    out = run(f"{text} from S select `{name}`(v) as c insert into Out;", {"S": [(1000, (1,))]}, scripts=True)
    assert out["Out"] == [(1000, (7,))]


def test_what_fails_is_told_with_its_line_of_the_body() -> None:
    body = f"\n    text = {QUOTES}a\n  b\u2028{QUOTES}\n    raise ValueError(text)  # here\n"
    with pytest.raises(ValueError, match=r"^a\n  b\u2028$") as caught:
        script_function(read_script(defined(body), allowed=True)[0])([])
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.lineno, last.name, last.line) == (3, "f", "raise ValueError(text)  # here")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("\n  x = 1\n  return (x\n", r"in its line 2: '\(' was never closed"),
        ("\n  x = 1\n )\n  return x\n", r"in its line 2: (unmatched '\)'|unexpected indent)"),
        ("\n  x = 1\n  break\n", "in its line 2: 'break' outside loop"),
        ("\n  x = 1\n  nonlocal y\n", "in its line 2: no binding for nonlocal 'y' found"),
        (f"\n\n    x = {QUOTES}\n\n{QUOTES}\n     return x", "in its line 4: unexpected indent"),
        ("return " + "1+" * 50_000 + "1", "is no Python"),
    ],
)
def test_what_is_no_python_is_told_with_its_line(body: str, said: str) -> None:
    assert re.search(said, str(read_script(defined(body), allowed=True)[1]))
