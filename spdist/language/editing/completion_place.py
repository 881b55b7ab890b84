"""A place in a text that somebody is typing: its statement, what is before it, and what the grammar takes there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spdist.errors import SiddhiAppError
from spdist.language.catalog import Catalog
from spdist.language.checking.checker import check
from spdist.language.editing.sketch import Input, Sketch, sketch
from spdist.language.editing.statements import Statement, statements
from spdist.language.editing.tokens import Token, tokens
from spdist.language.parsing.parser import following, parse

__all__ = ["BEGINNINGS", "CursorPlace", "appended", "enclosing", "expected", "place_at"]

#: What makes the rest of a query readable whose beginning is wrong, by the clause that the rest begins with.
BEGINNINGS = {
    **dict.fromkeys(("group", "having", "order", "limit", "output", "insert", "delete", "update"), "from S select a "),
    "select": "from S ",
    "on": "from S join T ",
}
_IN_PARTITION = "partition with (a of S) begin from S insert into O; "


@dataclass(frozen=True, slots=True)
class CursorPlace:
    """A place with what is before it.

    Parameters
    ----------
    statement : Statement
        The one it is in.
    before : sequence of Token
        The tokens of that statement that end before it.
    said : str
        The statement's text up to it.
    sketch : Sketch
        What the other statements define.
    """

    statement: Statement
    before: Sequence[Token]
    said: str
    sketch: Sketch

    def last(self, back: int = 1) -> str:
        """Return the text of the token before the place, or of one further back, in lower case."""
        return self.before[-back].text.lower() if len(self.before) >= back else ""


def place_at(text: str, start: int) -> CursorPlace:
    """Return the place at an offset; a token must begin there, or an annotation's mark just before."""
    code = [token for token in tokens(text) if token.kind not in ("comment", "magic")]
    made = statements(text, code)
    here = (one for one in made if one.tokens[0].start <= start <= one.tokens[-1].end)
    statement = next(here, Statement((), 0, False))
    before = [token for token in statement.tokens if token.end <= start]
    said = text[statement.tokens[0].start : start] if statement.tokens else ""
    others = [one for one in made if one is not statement]
    return CursorPlace(statement, before, said, sketch(others))


def expected(place: CursorPlace) -> frozenset[str]:
    """Return the grammar's terminals that fit; where the statement is wrong before, those that its clause takes."""
    known = following((_IN_PARTITION if place.statement.inside else "") + place.said)
    if known is not None:
        return known
    # From the clause that is being typed: what is wrong stands in one further to the front
    for at, word in reversed(list(place.statement.words())):
        token = place.statement.tokens[at]
        if word in BEGINNINGS and token in place.before:
            rest = place.said[token.start - place.statement.tokens[0].start :]
            return following(BEGINNINGS[word] + rest) or frozenset()
    return frozenset()


def enclosing(before: Sequence[Token]) -> int | None:
    """Return the position of the innermost bracket that is open."""
    depth = 0
    for at in range(len(before) - 1, -1, -1):
        if before[at].text in (")", "]"):
            depth += 1
        elif before[at].text in ("(", "["):
            if not depth:
                return at
            depth -= 1
    return None


def appended(place: CursorPlace, read: Sequence[Input], catalog: Catalog) -> Mapping[str, str]:
    """Return what stream functions append to the only input; that is asked of the checker."""
    at = {word: place.statement.tokens[at].start for at, word in place.statement.words()}
    begin = place.statement.tokens[0].start
    source = place.said[at.get("from", begin) - begin : at.get("select", begin) - begin]
    if len(read) != 1 or read[0].id not in place.sketch.known or not re.search(r"#\s*(?!window\b)[A-Za-z_]", source):
        return {}
    known = place.sketch.known[read[0].id].attributes
    attributes = ", ".join(f"`{name}` {kind or 'object'}" for name, kind in known.items())
    # Only the source of this query: the rest of the app may be unfinished
    app = f"define stream `{read[0].id}` ({attributes}); {source} select * insert into _Appended;"
    try:
        schema = check(parse(app), catalog).streams["_Appended"]
    except SiddhiAppError:
        return {}
    return {name: str(kind) for name, kind in schema if name not in known}
