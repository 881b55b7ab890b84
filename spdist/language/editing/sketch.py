"""A rough reading of an app that need not parse yet: what its statements read and define, as far as their tokens tell.

The checker knows better, and is asked when the app runs. This is for somebody who is still typing, where one statement
is unfinished and all others should be known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from spdist.language.editing.statements import OPENING, Statement, closing, is_word
from spdist.language.editing.tokens import Token, keywords

__all__ = ["Input", "Known", "Sketch", "inputs", "selected", "sketch"]

#: Attribute names and types; a type is empty where only the checker could tell it.
Attributes = Mapping[str, str]

_CLAUSES = frozenset(
    ["group", "having", "order", "limit", "offset", "output", "insert", "update", "delete", "return", "aggregate"]
)
_BEHIND_INPUTS = _CLAUSES | {"select"}
#: Words between the inputs of a query.
_BETWEEN = frozenset(
    ["from", "every", "not", "and", "or", "join", "left", "right", "full", "outer", "inner", "unidirectional"]
)
_CONDITIONS = frozenset(["on", "within", "per", "for"])


@dataclass(frozen=True, slots=True)
class Known:
    """A stream, table, window, aggregation or trigger, and its attributes."""

    kind: str
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class Input:
    """What a query reads: an id, and the name by which the query calls it."""

    name: str
    id: str


@dataclass(slots=True)
class Sketch:
    """What an app defines.

    Parameters
    ----------
    known : dict of str to Known
        By id; inner streams as ``#S``, fault streams as ``!S``.
    functions : dict of str to str
        The result types of functions that the app defines, by name.
    """

    known: dict[str, Known] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)

    def attributes(self, read: Sequence[Input]) -> dict[str, str]:
        """Return the attributes of all inputs together; the first of a name counts."""
        found: dict[str, str] = {}
        for one in read:
            if one.id in self.known:
                found = {**self.known[one.id].attributes, **found}
        return found


# --- what a statement reads and selects ------------------------------------------------------------------------------


def inputs(statement: Statement) -> list[Input]:
    """Return what a query, an aggregation or a partition reads, in the order of the text."""
    found = statement.tokens
    at = next((position for position, word in statement.words() if word == "from"), None)
    if at is None:
        return [Input(id.text, id.text) for before, id in pairwise(found) if is_word(before, "of")]
    read: list[Input] = []
    alias = mark = ""
    while at < len(found):
        token = found[at]
        word = token.text.lower() if token.kind == "word" else ""
        follower = found[at + 1].text if at + 1 < len(found) else ""
        if word in _BEHIND_INPUTS:
            break
        if token.text in ("#", "!") and (at == 0 or _expects_input(found[at - 1])):
            mark = token.text
        elif token.text == "#":
            at = _behind_handler(found, at)
            continue
        elif token.text == "[":
            at = closing(found, at)
        elif word in _CONDITIONS:
            at = _behind_condition(found, at)
            continue
        elif word == "as" and at + 1 < len(found) and read:
            read[-1] = Input(found[at + 1].text, read[-1].id)
            at += 1
        elif token.kind in ("word", "quoted") and word not in _BETWEEN:
            if follower == "=":
                alias = token.text
            else:
                id = mark + token.text.strip("`")
                read.append(Input(alias or id, id))
                alias = mark = ""
        at += 1
    return read


def _expects_input(before: Token) -> bool:
    return before.text in ("->", ",", "=", "(") or (before.kind == "word" and before.text.lower() in _BETWEEN)


def _behind_handler(found: Sequence[Token], at: int) -> int:
    """Return the position behind ``#[…]`` or ``#window.ns:name(…)``."""
    at += 1
    while at < len(found) and (found[at].kind == "word" or found[at].text in (".", ":")):
        if found[at].kind == "word" and found[at - 1].kind == "word":
            return at
        at += 1
    return closing(found, at) + 1 if at < len(found) and found[at].text in OPENING else at


def _behind_condition(found: Sequence[Token], at: int) -> int:
    """Return the position of what follows the expression or time behind ``on``, ``within``, ``per`` or ``for``."""
    ends = _BEHIND_INPUTS | _CONDITIONS | ({"and", "or"} if is_word(found[at], "for") else frozenset())
    at += 1
    while at < len(found):
        token = found[at]
        word = token.text.lower() if token.kind == "word" else ""
        if word in ends or token.text in ("->", ",", ")"):
            return at
        at = closing(found, at) + 1 if token.text in OPENING else at + 1
    return at


def selected(statement: Statement, read: Attributes) -> dict[str, str]:
    """Return the attributes that a query or an aggregation selects; `read` are those it could."""
    found = statement.tokens
    begin = next((position for position, word in statement.words() if word == "select"), None)
    if begin is None:
        return dict(read)
    made: dict[str, str] = {}
    item: list[Token] = []
    at = begin + 1
    while at < len(found):
        token = found[at]
        # In the first place a word is a name too: select limit …
        free = at > begin + 1 and found[at - 1].kind != "sign"  # behind a sign any word is a name
        if is_word(token, *_CLAUSES) and free and not is_word(found[at - 1], "as"):
            break
        if token.text == ",":
            _add(made, item, read)
            item = []
        elif token.text in OPENING:
            end = closing(found, at)
            item += [token, found[end]]
            at = end
        else:
            item.append(token)
        at += 1
    _add(made, item, read)
    return made


def _add(made: dict[str, str], item: Sequence[Token], read: Attributes) -> None:
    if [token.text for token in item] == ["*"]:
        made.update(read)
    elif item and item[-1].kind in ("word", "quoted"):
        plain = item[:-2] if len(item) > 2 and is_word(item[-2], "as") else item
        simple = all(token.kind in ("word", "quoted") or token.text in (".", "[", "]") for token in plain)
        made[item[-1].text.strip("`")] = read.get(plain[-1].text.strip("`"), "") if simple else ""


# --- definitions -----------------------------------------------------------------------------------------------------


def sketch(made: Sequence[Statement]) -> Sketch:
    """Return what these statements define, streams that queries write to included."""
    result = Sketch()
    for statement in made:
        body = statement.tokens[statement.body :]
        if is_word(body[0], "define") and len(body) > 2:
            _define(result, statement, body)
        elif is_word(body[0], "from"):
            _write(result, statement)
    return result


def _define(result: Sketch, statement: Statement, body: Sequence[Token]) -> None:
    kind, name = body[1].text.lower(), body[2].text.strip("`")
    if kind in ("stream", "table", "window"):
        attributes = _attributes(body)
        result.known[name] = Known(kind, attributes)
        if kind == "stream" and any(token.text.lower() == "@onerror" for token in statement.tokens):
            result.known[f"!{name}"] = Known("fault stream", {**attributes, "_error": "object"})
    elif kind == "trigger":
        result.known[name] = Known(kind, {"triggered_time": "long"})
    elif kind == "function":
        at = next((position for position, token in enumerate(body) if is_word(token, "return")), len(body))
        result.functions[name] = body[at + 1].text if at + 1 < len(body) else ""
    elif kind == "aggregation":
        attributes = selected(statement, result.attributes(inputs(statement)))
        result.known[name] = Known(kind, {"AGG_TIMESTAMP": "long", **attributes})


def _attributes(body: Sequence[Token]) -> Attributes:
    return {
        name.text.strip("`"): kind.text.lower()
        for name, kind in pairwise(body[3:])
        if name.kind in ("word", "quoted") and keywords().get(kind.text.lower()) == "TYPE"
    }


def _write(result: Sketch, statement: Statement) -> None:
    found = statement.tokens
    at = next((position for position, word in statement.words() if word == "into"), None)
    if at is None or at + 1 >= len(found):
        return
    mark = found[at + 1].text if found[at + 1].text in ("#", "!") else ""
    named = at + 1 + bool(mark)
    # The first query that writes a stream defines it
    if named < len(found) and (id := mark + found[named].text.strip("`")) not in result.known:
        attributes = selected(statement, result.attributes(inputs(statement)))
        result.known[id] = Known("inner stream" if mark else "stream", attributes)
