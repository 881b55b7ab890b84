"""Tokens of a text that need not be SiddhiQL yet: for colours, and for completion while somebody types.

The parser reads by the grammar and stops where a text no longer fits; this reads on, whatever comes. A word is a word
here; which words the grammar keeps for itself stands in `keywords`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from spdist.language.parsing.tables import load_tables

__all__ = ["Token", "keywords", "tokens"]

_TOKEN = re.compile(
    r"""
    (?P<magic>\A\s*%%[^\r\n]*)
  | (?P<comment>--[^\r\n]*|/\*[\s\S]*?(?:\*/|\Z))
  | (?P<string>\"{3}[\s\S]*?(?:\"{3}|\Z)|"[^"\r\n]*"?|'[^'\r\n]*'?)
  | (?P<variable>\$\{[^}\s]*\}?)
  | (?P<mark>@\s*(?:[A-Za-z_]\w*(?:\s*:\s*[A-Za-z_]\w*)?)?)
  | (?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?:[fFdDlL](?!\w))?)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<quoted>`[^`\r\n]*`?)
  | (?P<sign>->|\.\.\.|==|!=|<=|>=|\S)
    """,
    re.VERBOSE | re.ASCII,
)
#: The next brace of a script's body; those in quotes do not count.
# Possessive: otherwise a quote would be read as a plain sign after all, and the brace within it count
_BRACE = re.compile(r"""(?:"[^"\n]*"|'[^'\n]*'|[^{}])*+([{}]|\Z)""")


class Token(NamedTuple):
    """A piece of a text.

    Parameters
    ----------
    kind : str
        ``word``, ``quoted`` (a name in backticks), ``number``, ``string``, ``mark`` (``@name`` or ``@app:name``),
        ``variable`` (``${…}``), ``sign``, ``comment``, ``script`` (a function's body with its braces), or ``magic``
        (the first line of a notebook cell, ``%%siddhi …``).
    text : str
        As written.
    start : int
        Its offset.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.start + len(self.text)

    @property
    def closed(self) -> bool:
        """Whether what ends with a sign of its own has it: a quoted text, a comment in ``/* */``, a body."""
        text = self.text
        if self.kind == "comment":
            return text.startswith("/*") and text.endswith("*/") and len(text) > 3
        mark = '"""' if text.startswith('"""') else "}" if self.kind == "script" else text[0]
        return text.endswith(mark) and len(text) >= 2 * len(mark)


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of `text` in order; what is between them is blank."""
    position = 0
    while match := _TOKEN.search(text, position):
        kind, position = match.lastgroup or "sign", match.end()
        # A body is read as one token: what it has of signs and words is another language
        if match[0] == "{":
            kind, position = "script", _end_of_script(text, position)
        yield Token(kind, text[match.start() : position], match.start())


def _end_of_script(text: str, position: int) -> int:
    """Return where the body ends whose first brace is before `position`: at the end of the text if it is not closed."""
    depth = 1
    while depth and (match := _BRACE.match(text, position)) and match[1]:
        depth += 1 if match[1] == "{" else -1
        position = match.end()
    return len(text) if depth else position


@cache
def keywords() -> Mapping[str, str]:
    """Return the words of the grammar in lower case, each with its terminal: ``sec`` is a ``UNIT``."""
    words: Mapping[str, str] = load_tables()["words"]
    return words
