"""The lexer that makes Pygments, and so nbconvert, Sphinx and terminals, colour SiddhiQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers.python import PythonLexer
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

from spdist.display import bold_ansi, coloured_span
from spdist.language.editing.tokens import Token, keywords, tokens

__all__ = ["SiddhiLexer", "bold_line", "coloured_html", "coloured_lines", "styled_line"]

_KINDS: dict[str, Any] = {
    "magic": Comment.Preproc,
    "string": String,
    "variable": String.Interpol,
    "mark": Name.Decorator,
    "quoted": Name,
    "script": String.Other,
}
_PUNCTUATION = frozenset("()[]{},;.")
_OPERATORS = frozenset(["->", "...", "==", "!=", "<=", ">=", *"=<>+-*/%#!?:@"])
_TERMINALS: dict[str, Any] = {
    "TYPE": Keyword.Type,
    "TRUE": Keyword.Constant,
    "FALSE": Keyword.Constant,
    "_NULL": Keyword.Constant,
    "AND": Operator.Word,
    "OR": Operator.Word,
    "_NOT": Operator.Word,
    "_IN": Operator.Word,
    "_IS": Operator.Word,
}
_ROLES = (
    (Comment, "comment"),
    (String, "string"),
    (Number, "number"),
    (Keyword.Constant, "number"),
    (Keyword.Type, "type"),
    (Keyword, "keyword"),
    (Operator.Word, "keyword"),
    (Name.Function, "function"),
    (Name.Decorator, "mark"),
)
#: Terminals behind which a name is defined, also one with brackets behind it.
_DEFINING = ("_STREAM", "_TABLE", "_WINDOW", "_TRIGGER", "_FUNCTION", "_AGGREGATION")
#: Keywords that an opening bracket may follow; any other word in front of one is a function.
_BEFORE_BRACKETS = {
    *("and", "as", "by", "every", "from", "having", "in", "join", "limit", "not", "of", "offset", "on", "or", "per"),
    *("select", "set", "with", "within"),
}


class SiddhiLexer(Lexer):  # type: ignore[misc]  # Pygments has no types
    """SiddhiQL, also where it is wrong or unfinished, and cells of notebooks that begin with ``%%siddhi``."""

    name = "SiddhiQL"
    aliases: ClassVar[list[str]] = ["siddhi", "siddhiql"]
    filenames: ClassVar[list[str]] = ["*.siddhi"]
    mimetypes: ClassVar[list[str]] = ["text/x-siddhiql"]
    url = "https://siddhi.io"

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """Yield offset, token type and text of each piece, blanks included."""
        found = list(tokens(text))
        position = 0
        for at, token in enumerate(found):
            if token.start > position:
                yield position, Whitespace, text[position : token.start]
            position = token.end
            if token.kind == "script" and _language(found, at) == "python":
                yield from _python(token)
            else:
                yield token.start, _type(found, at), token.text
        if position < len(text):
            yield position, Whitespace, text[position:]


def coloured_html(text: str) -> str:
    """Return `text` as HTML with the classes of Pygments, which JupyterLab colours by its theme; everything escaped."""
    html: str = highlight(text, SiddhiLexer(stripnl=False), HtmlFormatter(cssclass="highlight"))
    return html


def coloured_lines(text: str) -> list[str]:
    """Return the same line by line, each of them complete."""
    html: str = highlight(text, SiddhiLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return html.removesuffix("\n").split("\n")


def bold_line(line: str) -> str:
    """Return one line of an app for notebooks' tracebacks and terminals, its keywords in bold."""
    return "".join(bold_ansi(text, _role(kind)) for _, kind, text in SiddhiLexer().get_tokens_unprocessed(line))


def styled_line(line: str) -> str:
    """Return one line of an app as HTML that brings its colours with it, for light and dark pages; it is escaped."""
    return "".join(coloured_span(text, _role(kind)) for _, kind, text in SiddhiLexer().get_tokens_unprocessed(line))


def _role(kind: Any) -> str:
    """Return the role in the look's colours of a type of token; nothing for what has none."""
    return next((role for parent, role in _ROLES if kind in parent), "")


def _type(found: list[Token], at: int) -> Any:
    kind, text, _ = found[at]
    if kind == "word":
        return _type_of_word(found, at)
    if kind == "comment":
        return Comment.Single if text.startswith("--") else Comment.Multiline
    if kind == "number":
        return Number.Float if set(text.lower()) & set(".efd") else Number.Integer
    if kind == "sign":
        return Punctuation if text in _PUNCTUATION else Operator if text in _OPERATORS else Error
    return _KINDS[kind]


def _type_of_word(found: list[Token], at: int) -> Any:
    """Return a keyword's type, except where the grammar surely reads a name: they are no reserved words."""
    word = found[at].text.lower()
    before, behind = _sign(found, at - 1), _sign(found, at + 1)
    if behind == ":":
        return Name.Namespace
    if at and keywords().get(found[at - 1].text.lower()) in _DEFINING and found[at - 1].kind == "word":
        return Name.Class
    if behind == "(" and word not in _BEFORE_BRACKETS:
        return Name.Function
    defined = before in ("(", ",") and at + 1 < len(found) and keywords().get(found[at + 1].text.lower()) == "TYPE"
    terminal = keywords().get(word)
    if word == "window" and before == "#":
        return Keyword
    if terminal is None or defined or "." in (before, behind):
        return Name
    return _TERMINALS.get(terminal, Keyword)


def _sign(found: list[Token], at: int) -> str:
    return found[at].text if 0 <= at < len(found) and found[at].kind == "sign" else ""


def _language(found: list[Token], at: int) -> str:
    """Return the language of a body: what stands in the brackets of ``define function f[python] return int``."""
    head = [token.text.lower() for token in found[max(0, at - 5) : at]]
    return head[1] if len(head) == 5 and (head[0], head[2], head[3]) == ("[", "]", "return") else ""


def _python(token: Token) -> Iterator[tuple[int, Any, str]]:
    # A body that is not closed goes to the end of the text, without a brace of its own
    body = token.text[1 : -1 if token.closed else None]
    yield token.start, Punctuation, "{"
    inner: Any = PythonLexer()
    yield from ((token.start + 1 + offset, kind, text) for offset, kind, text in inner.get_tokens_unprocessed(body))
    if token.closed:
        yield token.end - 1, Punctuation, "}"
