"""Colours: every keyword has one, no text of SiddhiQL is an error, and nothing of a text is lost."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from pygments.lexers import load_lexer_from_file
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from spdist.language.editing.tokens import keywords, tokens
from spdist.language.lexer import SiddhiLexer, bold_line, coloured_html, coloured_lines, styled_line

CASES = Path(__file__).parents[1] / "cases"
DEFINED = "define stream Trades (last string, min int);\n"


def apps() -> Iterator[str]:
    for file in sorted(CASES.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            if text := json.loads(line).get("app"):
                yield text


def coloured(text: str) -> list[tuple[object, str]]:
    return [(kind, part) for _, kind, part in SiddhiLexer().get_tokens_unprocessed(text) if kind is not Whitespace]


def test_every_keyword_of_the_grammar_is_coloured() -> None:
    assert len(keywords()) > 80
    plain = [
        word for word in keywords() if coloured(word)[0][0] not in Keyword and coloured(word)[0][0] != Operator.Word
    ]
    assert plain == []
    assert all(coloured(word.upper()) == [(coloured(word)[0][0], word.upper())] for word in keywords())


def test_no_app_of_the_cases_has_an_error_and_nothing_is_lost() -> None:
    count = 0
    for text in apps():
        found = list(SiddhiLexer().get_tokens_unprocessed(text))
        assert [part for _, kind, part in found if kind is Error] == [], text
        assert "".join(part for *_, part in found) == text
        assert all(text.startswith(part, at) for at, _, part in found)
        count += 1
    assert count > 1000


def test_words_that_are_names_where_they_stand_are_not_keywords() -> None:
    kinds = {
        part: kind for kind, part in coloured(DEFINED + "from Trades select min(last) as a, str:upper(t.year) as b")
    }
    assert kinds["last"] is Keyword  # behind a bracket it could be either
    assert kinds["min"] is Name.Function
    assert (kinds["str"], kinds["upper"], kinds["year"]) == (Name.Namespace, Name.Function, Name)
    assert [kind for kind, part in coloured(DEFINED) if part in ("last", "min")] == [Name, Name]
    assert (Keyword, "window") in coloured("from S#window.time(1 min)")
    assert (Keyword, "window") in coloured("define window W (a int) length(5)")


def test_the_other_parts_of_an_app() -> None:
    text = """%%siddhi --run S=frame
@app:name('A') /* two
lines */ from S[a >= 1.5f and b == 10] -- more
select "x" as `my name`, '${who}' ~ ${who}"""
    kinds = {part: kind for kind, part in coloured(text)}
    assert kinds["%%siddhi --run S=frame"] is Comment.Preproc
    assert kinds["@app:name"] is Name.Decorator
    assert kinds["/* two\nlines */"] is Comment.Multiline
    assert kinds["-- more"] is Comment.Single
    assert (kinds["1.5f"], kinds["10"], kinds[">="], kinds["]"]) == (
        Number.Float,
        Number.Integer,
        Operator,
        Punctuation,
    )
    assert (kinds['"x"'], kinds["`my name`"], kinds["${who}"]) == (String, Name, String.Interpol)
    assert kinds["~"] is Error


def test_a_body_in_python_is_coloured_as_python_and_another_is_one_text() -> None:
    head = "define function f[%s] return int "
    python = coloured(head % "python" + "{ return {'a': 1}[data[0]] }; from S")
    assert (Keyword, "return") in python[10:]
    assert python[-2:] == [(Keyword, "from"), (Name, "S")]
    script = coloured(head % "javascript" + "{ var a = {}; return '}' + a }; from S")
    assert (String.Other, "{ var a = {}; return '}' + a }") in script
    assert coloured(head % "python" + "{ return {")[-1] == (Punctuation, "{")  # not closed yet


@pytest.mark.parametrize("open_end", ["'abc", '"abc', '"""abc\n', "/* abc", "`abc", "${abc", "@", "5"])
def test_what_is_not_closed_yet_is_one_token(open_end: str) -> None:
    found = list(tokens(f"a {open_end}"))
    assert [token.text.rstrip() for token in found] == ["a", open_end.rstrip()]
    assert not found[1].closed or open_end in ("@", "5")


def test_its_names_are_those_that_pygments_registers() -> None:
    project = tomllib.loads((CASES.parents[1] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["pygments.lexers"]["siddhi"].partition(":")
    found = load_lexer_from_file(str(CASES.parents[1] / (module.replace(".", "/") + ".py")), name)
    assert (found.aliases, found.filenames) == (["siddhi", "siddhiql"], ["*.siddhi"])


def test_html_is_escaped() -> None:
    html = coloured_html("from S[a < 1] -- <script>")
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert html.startswith('<div class="highlight">')


def test_each_coloured_line_is_complete() -> None:
    for text in ("from S /* a <b>\n c */\nselect v;", "\n\nfrom S\n", ""):
        found = coloured_lines(text)
        assert len(found) == len(text.removesuffix("\n").split("\n"))
        assert all(line.count("<span") == line.count("</span>") for line in found)


@pytest.mark.parametrize(
    "line", ["from S#window.time(5 sec)[a <'&'] select <b> insert into O; -- x", "@sink(type='log", "", "\x00 é `a b`"]
)
def test_a_line_that_is_shown_is_that_line(line: str) -> None:
    assert re.sub(r"\x1b\[\d*m", "", bold_line(line)) == line
    assert unescape(re.sub(r"<[^>]*>", "", styled_line(line))) == line
    assert not line or "\x1b[" in bold_line(line) or line.startswith("\x00")
