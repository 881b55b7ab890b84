"""Where things stand in an app's text: offsets to spans, and ``${NAME}`` replaced without losing the places."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from spdist.errors import SiddhiSyntaxError, Span

__all__ = ["VARIABLE", "Places", "expand"]

#: How a variable is written.
VARIABLE = re.compile(r"\$\{([A-Za-z_0-9.\-]+)\}")
_MOST_MISSING = 100


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A stretch of the expanded text that stands for a variable, and where that variable was written."""

    start: int
    end: int
    written_start: int
    written_end: int


class Places:
    """Turns offsets of the expanded text into spans of the text as it was written.

    Parameters
    ----------
    written : str
        The text as the author sees it.
    replaced : tuple of _Replaced
        The stretches of the expanded text that came from variables, in order.
    """

    def __init__(self, written: str, replaced: tuple[_Replaced, ...] = ()) -> None:
        self.written = written
        self._replaced = replaced
        self._starts = [part.start for part in replaced]
        # \r\n first, as it is one line end
        self._lines = [0] + [match.end() for match in re.finditer(r"\r\n|\r|\n", written)]

    def span(self, start: int, end: int) -> Span:
        """Return the span of the expanded text's ``[start, end)``; a variable counts as written, as a whole."""
        if self._replaced:
            start, end = self._as_written(start, last=False), self._as_written(end, last=True)
        line, column = self._line_and_column(start)
        end_line, end_column = self._line_and_column(end)
        return Span(line, column, end_line, end_column, start, end)

    def _as_written(self, offset: int, *, last: bool) -> int:
        # Of the variables that begin before it, the last one; an end that is the beginning of one is not in it.
        before = (bisect_left if last else bisect_right)(self._starts, offset)
        if not before:
            return offset
        part = self._replaced[before - 1]
        if offset < part.end or (last and offset == part.end):
            return part.written_end if last else part.written_start
        # Behind a variable both texts run on in step
        return offset + part.written_end - part.end

    def _line_and_column(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1


def expand(text: str, variables: Mapping[str, str] | None) -> tuple[str, Places]:
    """Replace every ``${NAME}`` of `text`, in comments and strings too, and keep track of the places.

    Parameters
    ----------
    text : str
        An app's text.
    variables : mapping of str to str, optional
        Values by name. Nothing is read from the environment.

    Returns
    -------
    tuple of str and Places
        The text to parse, and the way back to the written text.

    Raises
    ------
    SiddhiSyntaxError
        A variable has no value; ``errors`` names all of them, each once for a place, up to a hundred.
    """
    if "${" not in text:
        return text, Places(text)
    known = variables or {}
    written = Places(text)
    parts: list[str] = []
    replaced: list[_Replaced] = []
    missing: list[SiddhiSyntaxError] = []
    position = length = 0
    for match in VARIABLE.finditer(text):
        name = match.group(1)
        if name not in known:
            missing.append(_missing(name, written.span(match.start(), match.end()), text))
            if len(missing) == _MOST_MISSING:
                break
            continue
        parts += [text[position : match.start()], known[name]]
        length += match.start() - position
        replaced.append(_Replaced(length, length + len(known[name]), match.start(), match.end()))
        length += len(known[name])
        position = match.end()
    if missing:
        first = missing[0]
        raise SiddhiSyntaxError(
            first.message, span=first.span, hint=first.hint, text=text, errors=tuple(missing) if missing[1:] else ()
        )
    return "".join([*parts, text[position:]]), Places(text, tuple(replaced))


def _missing(name: str, span: Span, text: str) -> SiddhiSyntaxError:
    hint = f"Give it a value: parse(text, variables={{{name!r}: '…'}})."
    return SiddhiSyntaxError(f"No value for the variable '${{{name}}}'", span=span, hint=hint, text=text)
