"""One look for whatever shows itself: tables, states, times, numbers and errors, as text and as HTML.

The HTML needs nothing from outside, has its style inside, so that a saved notebook and nbconvert keep it, and takes
every colour from the page's own text: a state's tone is mixed with ``currentColor``, so it reads on light and on dark
pages alike, in JupyterLab, VS Code or a plain browser. Everything that comes from an app or its data is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from spdist.spans import Paint

__all__ = [
    "JSON_MIME",
    "STATE_COLOURS",
    "Listing",
    "Markup",
    "Shown",
    "bar_html",
    "bold_ansi",
    "bytes_text",
    "cell_text",
    "coloured_span",
    "details_html",
    "duration_text",
    "headline_html",
    "note_html",
    "number_of",
    "problem_html",
    "state_style",
    "table_html",
    "table_text",
    "time_text",
]

T = TypeVar("T")

#: Colours of states, for lines and areas; as a colour of text, `state_style` mixes it with that of the page.
STATE_COLOURS = {
    "RUNNING": "#2da44e",
    "READY": "#2da44e",
    "DEPLOYING": "#bf8700",
    "STARTING": "#bf8700",
    "WAITING": "#8b949e",
    "LEAVING": "#8b949e",
    "UNREACHABLE": "#bc4c00",
    "FAILED": "#e5484d",
    "LOST": "#e5484d",
}

#: Colours of SiddhiQL by what a word is: mixed with the colour of the page's text.
_CODE_COLOURS = {
    "keyword": "#7c3aed",
    "type": "#0e7490",
    "function": "#2563eb",
    "string": "#2da44e",
    "number": "#bf8700",
    "mark": "#bc4c00",
    "comment": "#8b949e",
    "wrong": "#e5484d",
}
#: What is bold where there is ANSI alone: none of its colours can be read on what JupyterLab lays behind errors, light
#: and dark (contrasts of 1.4 to 4.1).
_BOLD = frozenset(("keyword", "mark", "wrong"))

#: The type of the data that programs read. Not ``application/json``: JupyterLab would show that instead of the HTML.
JSON_MIME = "application/vnd.spdist+json"

_CELL = "padding:2px 14px 2px 0;vertical-align:top;text-align:"
_LINE = "border-bottom:1px solid color-mix(in srgb,currentColor 35%,transparent)"
_CAPTION = "caption-side:top;text-align:left;font-weight:600;padding:0 0 4px 0;white-space:nowrap"
_STATE = re.compile(rf"\b({'|'.join(STATE_COLOURS)})\b")
#: What `bytes_text` and `duration_text` make, and numbers that somebody has formatted with a unit.
_QUANTITY = re.compile(r"[-+]?[\d.,\u202f]+(?: ?%| (?:[kMGT]?i?B|ms|s|min|h|d|/s)(?: \d+ (?:s|min|h))?)")
#: Rows of a listing that are shown.
_LISTED = 200
_UNITS = ("B", "kB", "MB", "GB", "TB")
_DURATIONS = ((86_400_000, "d", 3_600_000, "h"), (3_600_000, "h", 60_000, "min"), (60_000, "min", 1000, "s"))


# --- values as text
def cell_text(value: object) -> str:
    """Return a value as a cell shows it: numbers with ``,`` between thousands, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def number_of(count: int, word: str, plural: str = "") -> str:
    """Return ``1 row`` or ``2 rows``."""
    return f"{count:,} {word if count == 1 else plural or f'{word}s'}"


def time_text(ms: float | None, timespec: Literal["minutes", "seconds", "milliseconds"] = "seconds") -> str:
    """Return a time, ms since 1970, as text in UTC; nothing where there is none, or it is no date.

    >>> time_text(1_700_000_000_123, "milliseconds")
    '2023-11-14 22:13:20.123'
    """
    try:
        return (
            "" if ms is None else datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None).isoformat(" ", timespec)
        )
    except (ValueError, OverflowError, OSError):
        return ""


def bytes_text(count: float | None) -> str:
    """Return a number of bytes with the unit that suits it; nothing for None.

    >>> bytes_text(12_345_678)
    '12.3 MB'
    """
    if count is None:
        return ""
    unit = 0
    # From 999.5 on it would be shown as 1000 of the smaller unit.
    while abs(count) >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:,.0f} {_UNITS[unit]}" if unit == 0 or abs(count) >= 99.95 else f"{count:.1f} {_UNITS[unit]}"


def duration_text(ms: float | None) -> str:
    """Return a length of time, in ms, in at most two units; nothing for None.

    >>> [duration_text(ms) for ms in (850, 1_250, 185_000, 7_800_000)]
    ['850 ms', '1.2 s', '3 min 5 s', '2 h 10 min']
    """
    if ms is None:
        return ""
    if abs(ms) < 999.5:
        return f"{ms:.0f} ms"
    if abs(ms) < 59_950:
        return f"{ms / 1000:.1f} s"
    # Rounded before it is divided, so that no part is shown as 60 of its unit.
    sign, whole = ("-" if ms < 0 else ""), round(abs(ms) / 1000) * 1000
    size, unit, part, small = next(line for line in _DURATIONS if whole >= line[0])
    rest = whole % size // part
    return f"{sign}{whole // size:,} {unit}" + (f" {rest} {small}" if rest else "")


# --- tables
def table_text(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", limit: int | None = None
) -> str:
    """Return a table in columns, without frames; columns of numbers stand at the right.

    Parameters
    ----------
    head : sequence of str
        Names of the columns.
    rows : iterable of sequence
        As many cells each; as `cell_text` shows them, on one line.
    title : str
        A line above the table, which is then indented.
    limit : int, optional
        Show so many rows, and say how many more there are.
    """
    shown, more = _cut(rows, limit)
    right = _right(head, shown)
    # A line break within a cell would tear its row apart.
    lines = [list(head), *([" ".join(cell_text(cell).split("\n")) for cell in row] for row in shown)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    indent = "  " if title else ""
    told = [
        indent
        + "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*filter(None, [title]), *told, *(f"{indent}{note}" for note in _more(more))])


def table_html(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "", limit: int | None = 500
) -> str:
    """Return a table as HTML; parameters as in `table_text`.

    Cells of columns called ``state`` have the colour of the state that they name first; columns of numbers stand at the
    right, with a thin space between thousands.
    """
    shown, more = _cut(rows, limit)
    right = _right(head, shown)
    sides = ["right" if number else "left" for number in right]
    names = "".join(
        f'<th style="{_CELL}{side};{_LINE};font-weight:600">{escape(name)}</th>'
        for name, side in zip(head, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL}{side}{state_style(cell) if name == "state" else ""}">{_cell_html(cell)}</td>'
            for cell, side, name in zip(row, sides, head, strict=True)
        )
        + "</tr>"
        for row in shown
    )
    above = f'<caption style="{_CAPTION}">{escape(caption)}</caption>' if caption else ""
    notes = "".join(note_html(note) for note in _more(more))
    return (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse;margin:0 0 8px 0;color:inherit">{above}'
        f"<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
    )


def state_style(cell: object) -> str:
    """Return the style of a text that names a state, with ``;`` in front; else nothing."""
    word = _STATE.search(cell) if isinstance(cell, str) else None
    colour = STATE_COLOURS[word.group()] if word else ""
    # The plain colour is for sanitizers and browsers that know no mixing: they drop what follows.
    return f";color:{colour};color:color-mix(in srgb,{colour} 65%,currentColor);font-weight:600" if colour else ""


class Markup(str):
    """HTML of our own, such as a picture, that a cell of `table_html` shows as it is; everything else is escaped."""

    __slots__ = ()


def _cell_html(cell: object) -> str:
    if isinstance(cell, Markup):
        return cell
    text = cell_text(cell)
    number = isinstance(cell, int | float) or _QUANTITY.fullmatch(text)
    return escape(text.replace(",", "\u202f") if number else text)


def _right(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Say of each column whether it has numbers or quantities, and nothing else."""
    # Cells without a value say nothing about their column.
    columns = ([row[column] for row in rows if row[column] not in (None, "")] for column in range(len(head)))
    return [bool(cells) and all(map(_is_number, cells)) for cells in columns]


def _is_number(cell: object) -> bool:
    if isinstance(cell, bool):
        return False
    return isinstance(cell, int | float) or (isinstance(cell, str) and _QUANTITY.fullmatch(cell) is not None)


def _cut(rows: Iterable[Sequence[object]], limit: int | None) -> tuple[list[Sequence[object]], int]:
    all_rows = list(rows)
    shown = all_rows if limit is None else all_rows[:limit]
    return shown, len(all_rows) - len(shown)


def _more(count: int) -> list[str]:
    return [f"… and {number_of(count, 'more row')}"] if count else []


# --- around tables
def headline_html(text: str) -> str:
    """Return a line in bold, to stand above a view."""
    return f'<div style="font-weight:600;margin-bottom:4px">{escape(text)}</div>'


def note_html(text: str) -> str:
    """Return a faint line, to stand above or below a view."""
    return f'<div style="opacity:0.7">{escape(text)}</div>'


def details_html(summary: str, html: str, *, opened: bool = False) -> str:
    """Return `html`, which is taken as it is, folded away under a line of text."""
    return f"<details{' open' if opened else ''}><summary>{escape(summary)}</summary>{html}</details>"


def bar_html(share: float, text: str) -> str:
    """Return a bar that is filled by a `share` between 0 and 1, with `text` behind it."""
    filled = f'<div style="width:{100 * min(max(share, 0), 1):.1f}%;height:100%;background:{STATE_COLOURS["RUNNING"]}">'
    empty = "background:color-mix(in srgb,currentColor 20%,transparent)"
    return (
        f'<div style="display:flex;align-items:center;gap:10px"><div style="width:14em;height:8px;border-radius:4px;'
        f'overflow:hidden;{empty}">{filled}</div></div><span>{escape(text)}</span></div>'
    )


@runtime_checkable
class _Painted(Protocol):
    """An error that can show its line of an app in colours: `spdist.errors.SpdistError`."""

    paints: tuple[Paint, Paint, Paint]

    def shown(self, words: Paint, line: Paint, carets: Paint) -> str: ...


def problem_html(error: Exception | str) -> str:
    """Return an error as people should see it: what, where with the line of the app in colours, and what to do."""
    red = state_style("FAILED").removeprefix(";")

    def words(text: str) -> str:
        return f'<span style="{red}">{escape(text)}</span>'

    told = error.shown(words, error.paints[2], words) if isinstance(error, _Painted) else words(str(error))
    return f'<pre style="white-space:pre-wrap;color:inherit">{told}</pre>'


# --- code
def coloured_span(text: str, role: str) -> str:
    """Return a piece of SiddhiQL as HTML in the colour of its role, if it has one; everything is escaped.

    >>> coloured_span("a < b", "")
    'a &lt; b'
    """
    colour = _CODE_COLOURS.get(role, "")
    style = f"color:{colour};color:color-mix(in srgb,{colour} 70%,currentColor)" if colour else ""
    return f'<span style="{style}">{escape(text)}</span>' if style else escape(text)


def bold_ansi(text: str, role: str) -> str:
    """Return a piece of SiddhiQL, in bold as ANSI has it where its role is to stand out."""
    return f"\x1b[1m{text}\x1b[0m" if role in _BOLD else text


class Shown:
    """An object that shows itself: ``str`` is its text, ``_repr_html_`` its HTML, ``to_dict``, if it has one, its data.

    IPython asks `_repr_mimebundle_` for all of them together; a terminal gets the text, a program that reads a saved
    notebook the data, under `JSON_MIME`.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _text_and_html(self) -> tuple[str, str]:
        """Return text and HTML; for those that must ask somebody for what they show, and so once for both."""
        return str(self), self._repr_html_()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Mapping[str, Any]:
        text, html = self._text_and_html()
        bundle: dict[str, Any] = {"text/plain": text, "text/html": html}
        to_dict = getattr(self, "to_dict", None)
        return {**bundle, JSON_MIME: to_dict()} if to_dict is not None else bundle


class Listing(list[T], Shown):
    """A list that shows itself as a table, and is a list like any other for programs.

    Parameters
    ----------
    items : iterable
        What is in it.
    head : sequence of str
        Names of the columns.
    cells : callable
        From an item to its row.
    title : str
        What stands above the table.
    """

    __slots__ = ("_cells", "_head", "_title")

    def __init__(
        self, items: Iterable[T], head: Sequence[str], cells: Callable[[T], Sequence[object]], title: str = ""
    ) -> None:
        super().__init__(items)
        self._head = head
        self._cells = cells
        self._title = title

    def __str__(self) -> str:
        return table_text(self._head, map(self._cells, self), title=self._title, limit=_LISTED)

    def _repr_html_(self) -> str:
        return table_html(self._head, map(self._cells, self), caption=self._title, limit=_LISTED)
