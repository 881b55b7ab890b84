"""A picture of what happened when: a lane for each stream with its events, and one for each stretch of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from spdist.history import clock_text
from spdist.planning.pictures import svg
from spdist.planning.pictures.layout import GraphLayout

__all__ = ["Bar", "Dot", "timeline"]

_LANE, _WIDTH = 26.0, 560.0
#: Characters of a label that are shown.
_SHOWN = 44


@dataclass(frozen=True, slots=True)
class Dot:
    """One event: its lane, its time in ms, its colour, and what it says where one points at it."""

    lane: str
    time: int
    tone: str
    told: str
    filled: bool = True
    large: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time with a lane of its own: its label, from when to when in ms, its colour, and what it says."""

    label: str
    begin: int
    end: int
    tone: str
    told: str


def timeline(
    lanes: Sequence[str], dots: Sequence[Dot], bars: Sequence[Bar] = (), *, now: int | None = None, title: str
) -> str:
    """Return the picture as SVG.

    Parameters
    ----------
    lanes : sequence of str
        The lanes of dots, from the top; those of bars are below.
    dots : sequence of Dot
        In the order in which they are drawn.
    bars : sequence of Bar
        From the top.
    now : int, optional
        A time that is marked from top to bottom, ms.
    title : str
        What a screen reader says.
    """
    times = [dot.time for dot in dots] + [time for bar in bars for time in (bar.begin, bar.end)]
    times += [] if now is None else [now]
    first, last = min(times, default=0), max(times, default=0)
    labels = [*lanes, *(bar.label for bar in bars)]
    left = min(max(map(len, labels), default=0), _SHOWN) * svg.SMALL + 20
    places = {lane: _LANE * (number + 0.5) for number, lane in enumerate(lanes)}

    def x(time: int) -> float:
        # One moment alone has no length to divide by
        return left + (time - first) / max(last - first, 1) * _WIDTH

    body = []
    for number, label in enumerate(labels):
        y = _LANE * (number + 0.5)
        short = label if len(label) <= _SHOWN else f"{label[: _SHOWN - 1]}…"
        body.append(svg.text(left - 12, y + 4, short, anchor="end", small=True))
        line = f"M{left:.1f},{y:.1f}H{left + _WIDTH:.1f}"
        body.append(f'<path d="{line}" stroke="currentColor" stroke-opacity="0.2"/>')
    bottom = _LANE * len(labels)
    if now is not None:
        line = f"M{x(now):.1f},0V{bottom:.1f}"
        body.append(f'<path d="{line}" stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="4 3"/>')
    body += [_bar(bar, x(bar.begin), x(bar.end), _LANE * (len(lanes) + n + 0.5)) for n, bar in enumerate(bars)]
    body += [_dot(dot, x(dot.time), places[dot.lane]) for dot in dots]
    body.append(svg.text(left, bottom + 12, clock_text(first), small=True))
    if last > first:
        body.append(svg.text(left + _WIDTH, bottom + 12, clock_text(last), anchor="end", small=True))
    return svg.picture(GraphLayout(left + _WIDTH + 16, bottom + 20, {}, {}, {}), title, body)


def _dot(dot: Dot, x: float, y: float) -> str:
    fill = dot.tone if dot.filled else "none"
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if dot.large else 4}" fill="{fill}" fill-opacity="0.8" '
        f'stroke="{dot.tone}"><title>{escape(dot.told)}</title></circle>'
    )


def _bar(bar: Bar, begin: float, end: float, y: float) -> str:
    return (
        f'<rect x="{begin:.1f}" y="{y - 6:.1f}" width="{max(end - begin, 1):.1f}" height="12" rx="3" '
        f'fill="{bar.tone}" fill-opacity="0.3" stroke="{bar.tone}"><title>{escape(bar.told)}</title></rect>'
    )
