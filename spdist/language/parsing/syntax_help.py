"""Words for syntax errors: what was found, what could stand there, and what the author probably meant. No lark here."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

from spdist.language import foreign

__all__ = ["explain", "word_at"]

_SHOWN = 8

_WORD = re.compile(
    r"""[A-Za-z_][A-Za-z_0-9]* | \$\{ | [0-9][0-9A-Za-z_.]* | `[^`\r\n]*`? | "[^"\r\n]*"? | '[^'\r\n]*'?
    | -> | \.\.\. | <> | [=!<>]= | && | \|\| | \S""",
    re.VERBOSE,
)
#: Terminals of the grammar in words. Those not listed are keywords and read as their names in lower case.
_PHRASES = {
    "$END": "the end of the text",
    "ARROW": "'->'",
    "ASSIGN": "'='",
    "AT": "'@'",
    "COLON": "':'",
    "COMMA": "','",
    "DIRECTION": "'asc' or 'desc'",
    "DOT": "'.'",
    "DOTS": "'...'",
    "EQUAL": "'=='",
    "FAULT_MARK": "'!'",
    "DOUBLE": "a double",
    "GREATER": "'>'",
    "GREATER_EQUAL": "'>='",
    "INNER_MARK": "'#'",
    "INT": "a whole number",
    "LBRACE": "'{'",
    "FLOAT": "a float",
    "LESS": "'<'",
    "LESS_EQUAL": "'<='",
    "LONG": "a long",
    "LPAR": "'('",
    "LSQB": "'['",
    "MINUS": "'-'",
    "NAME": "a name",
    "PERCENT": "'%'",
    "PLUS": "'+'",
    "QUESTION": "'?'",
    "RBRACE": "'}'",
    "RPAR": "')'",
    "RSQB": "']'",
    "SEMICOLON": "';'",
    "SLASH": "'/'",
    "STAR": "'*'",
    "STRING": "a text in quotes",
    "TYPE": "a type (string, int, long, float, double, bool, object)",
    "UNEQUAL": "'!='",
    "UNIT": "a time unit (sec, min, hour, …)",
    "_APP_MARK": "'@app:'",
    "_SCRIPT_TEXT": "the function's body",
}
_EXPRESSION = frozenset(
    [
        "NAME",
        "STRING",
        "INT",
        "LONG",
        "FLOAT",
        "DOUBLE",
        "TRUE",
        "FALSE",
        "_NOT",
        "LPAR",
        "PLUS",
        "MINUS",
        "INNER_MARK",
        "FAULT_MARK",
    ]
)
_OPERATORS = frozenset(
    [
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "PERCENT",
        "EQUAL",
        "UNEQUAL",
        "LESS",
        "LESS_EQUAL",
        "GREATER",
        "GREATER_EQUAL",
        "AND",
        "OR",
        "_IN",
        "_IS",
    ]
)
_CHOICES = {
    "UNIT": [
        "years",
        "months",
        "weeks",
        "days",
        "hours",
        "minutes",
        "min",
        "seconds",
        "sec",
        "milliseconds",
        "millisec",
    ],
    "TYPE": ["string", "int", "long", "float", "double", "bool", "object"],
    "DIRECTION": ["asc", "desc"],
}


def word_at(text: str, position: int) -> str:
    """Return the word, number, quoted text or sign that begins at `position`."""
    match = _WORD.match(text, position)
    return match.group() if match else ""


def explain(found: str, expected: Collection[str], before: str) -> tuple[str, str | None]:
    """Put a syntax error into words.

    Parameters
    ----------
    found : str
        What stands where the text stops making sense; empty at its end.
    expected : collection of str
        The grammar's terminals that could have stood there.
    before : str
        The text up to that place.

    Returns
    -------
    tuple of str and (str or None)
        The message, and a hint where one is at hand.
    """
    what = f"Unexpected {_quoted(found)}" if found else "The text ends too early"
    hint = _hint(found, expected, before)
    phrases = _phrases(set(expected))
    if not phrases:
        return what, hint
    if hint is None and _lacks_comma(found, expected, before):
        hint = f"Put ',' in front of {_quoted(found)} if it is one more of a list" + (
            ", or 'as' if it names what stands before it." if "_AS" in expected else "."
        )
        phrases.sort(key=lambda phrase: phrase not in ("','", "'as'"))
    shown = phrases[:_SHOWN] + (["…"] if len(phrases) > _SHOWN else [])
    return f"{what}; expected {' or '.join(shown[-2:]) if len(shown) == 2 else ', '.join(shown)}", hint


def _lacks_comma(found: str, expected: Collection[str], before: str) -> bool:
    """Tell whether two members of a list stand one behind the other."""
    begins = re.match(r"[\w'\"`]", found) is not None
    return "COMMA" in expected and begins and re.search(r"[\w'\"`)]\s*$", before) is not None


def _quoted(found: str) -> str:
    shown = found if len(found) <= 40 else f"{found[:37]}…"
    return shown if shown[0] in "'\"" else f"'{shown}'"


def _phrases(expected: set[str]) -> list[str]:
    phrases = []
    if {"TRUE", "STRING"} <= expected:
        phrases.append("an expression")
        expected = expected - _EXPRESSION
    if {"SLASH", "EQUAL"} <= expected:
        phrases.append("an operator")
        expected = expected - _OPERATORS
    words = {_PHRASES.get(terminal, f"'{_keyword(terminal)}'") for terminal in expected}
    return phrases + sorted(words, key=lambda word: (word.startswith("'"), word))


def _keyword(terminal: str) -> str:
    return terminal.strip("_").lower()


def _hint(found: str, expected: Collection[str], before: str) -> str | None:
    if not found:
        empty = {"_APP_MARK", "_DEFINE"} <= set(expected)  # as at the beginning only
        return "The text is empty. An app begins so: define stream S (a int, b string);" if empty else None
    if "_DEFINE" in expected and found.lower() in foreign.STATEMENTS:
        return foreign.STATEMENTS[found.lower()]
    if found.lower() == "where":
        return "SiddhiQL filters in brackets behind the stream: from Stream[a > 5] select …; results with 'having'."
    if found == ";" and "_INSERT" in expected:
        return "Say where the events go: insert into Out;"
    if found[0] in "'\"`" and (len(found) == 1 or found[-1] != found[0]):
        return 'These quotes do not end on their line; a longer text stands in three double quotes ("""…""").'
    if "SEMICOLON" in expected and found.lower() in ("from", "define", "partition", "@"):
        return "Put ';' between definitions and queries."
    if found == ">" and before.rstrip().endswith("<"):
        found, expected = "<>", {"EQUAL"}
    if "EQUAL" in expected and found in foreign.OPERATORS:
        return f"In SiddhiQL this is written '{foreign.OPERATORS[found]}'."
    if found in ("->", ",") and {"ARROW", "COMMA"} & set(expected):
        return "A pattern is joined by '->' throughout, a sequence by ','; the two do not mix."
    if "_JOIN" in expected and re.search(r"\bas\s+\w+\s*$", before, re.IGNORECASE):
        return "Only the streams of a join take an alias with 'as'; in a pattern it is written 'e1=Stream'."
    if found == "${":
        return "The name of a variable consists of letters, digits, '_', '.' and '-'."
    return _similar(found.lower(), expected)


def _similar(found: str, expected: Collection[str]) -> str | None:
    if "UNIT" in expected and found in foreign.UNITS:
        return f"Did you mean '{foreign.UNITS[found]}'?"
    if "TYPE" in expected and found in foreign.TYPES:
        return f"Did you mean '{foreign.TYPES[found]}'?"
    words = [word for terminal in expected for word in _CHOICES.get(terminal, [_keyword(terminal)])]
    close = get_close_matches(found, words, n=1, cutoff=0.7)
    return f"Did you mean '{close[0]}'?" if close else None
