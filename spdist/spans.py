"""A place in an app's text, and how it is shown to people."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Paint", "Span"]

#: From a text to the same in colours, or as HTML.
Paint: TypeAlias = Callable[[str], str]

#: How much of a line an error shows, and how much of that stands before the place, where the line is longer.
_EXCERPT_WIDTH = 160
_BEFORE_CARET = 80
_LINE_END = re.compile(r"\r\n|\r|\n")
#: A part that is wider, or goes on in the next line, is marked by its first word: a whole query is.
_WIDEST_MARK = 60
_FIRST_WORD = re.compile(r"\W{0,3}\w+(:\w+)?")


@dataclass(frozen=True, slots=True)
class Span:
    """A place in an app's text: 1-based lines and columns, the end exclusive; ``start``/``end`` are offsets."""

    line: int
    column: int
    end_line: int
    end_column: int
    start: int = 0
    end: int = 0

    def excerpt(self, text: str, paint: Paint = str, mark: Paint = str) -> str:
        """Return the line of `text` this span begins on, with a caret line under the marked part, or its first word.

        Of a line longer than 160 characters, only what stands around the place; ``…`` stands for the rest. `paint`
        colours the line, `mark` the carets.
        """
        begin = self._line_start(text)
        skipped = max(0, self.column - 1 - _BEFORE_CARET) if self.column > _EXCERPT_WIDTH else 0
        # Cut out before it is split: an app may be one very long line.
        row = _LINE_END.split(text[begin + skipped : begin + skipped + _EXCERPT_WIDTH + 1], maxsplit=1)[0]
        shown = row[:_EXCERPT_WIDTH]
        at = self.column - 1 - skipped
        last = self.end_column - 1 - skipped if self.end_line == self.line else len(row)
        if (last - at > _WIDEST_MARK or self.end_line > self.line) and (word := _FIRST_WORD.match(row, at)):
            last = word.end()
        carets = "^" * max(1, min(last, _EXCERPT_WIDTH) - at)
        front, behind = "…" if skipped else "", "…" if len(row) > _EXCERPT_WIDTH else ""
        # A tab as one blank: the carets are placed by characters.
        return f"{front}{paint(shown.replace(chr(9), ' '))}{behind}\n{' ' * (at + len(front))}{mark(carets)}"

    def _line_start(self, text: str) -> int:
        """Return the offset of the line: from the offset of the place, where that is known, without reading `text`."""
        begin = self.start - (self.column - 1)
        # A span without offsets has 0 there, which fits the first place of a text only: then lines are counted.
        if 0 <= begin <= len(text) and (begin == 0) == (self.line == 1) and (not begin or text[begin - 1] in "\r\n"):
            return begin
        starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
        return starts[min(self.line, len(starts)) - 1]
