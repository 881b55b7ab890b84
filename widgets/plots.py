"""Small plots over time, as SVG: lines for the cells of a table, and larger ones with their scale. Pure.

They need neither script nor kernel, so a saved notebook has them, and cost little: 40 of them are drawn in some
milliseconds, where matplotlib takes 300 to 700. Colours are those of the page, or such as read on light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from spdist.display import Markup

__all__ = ["Curve", "chart", "sparkline"]

Samples = Sequence[tuple[float, float | None]]

_SMALL = 96.0, 22.0
_LARGE = 290.0, 74.0
#: Notebooks let pictures shrink.
_WHOLE = "overflow:visible;max-width:none"
#: A time axis shows at least so much, s: the first points are no cliff at the left.
_LEAST_SPAN_S = 60.0


class Curve(NamedTuple):
    """Values over time.

    Parameters
    ----------
    samples : sequence of (float, float or None)
        Time (s) and value, oldest first; None breaks the line.
    colour : str
        CSS.
    title : str
        What is drawn, and its unit.
    """

    samples: Samples
    colour: str
    title: str


def sparkline(curve: Curve, now_s: float) -> Markup:
    """Return a line as high as a line of text; from 0 to its greatest value, which the mouse shows."""
    width, height = _SMALL
    top, span_s = _top(curve), _span_s(curve, now_s)
    told = f"{curve.title}: at most {_number(top)} in the last {_span_words(span_s)}"
    return Markup(
        f'<svg width="{width:.0f}" height="{height:.0f}" style="vertical-align:middle;{_WHOLE}">'
        f"<title>{escape(told)}</title>{_base(width, height)}{_line(curve, now_s, span_s, top, _SMALL)}</svg>"
    )


def chart(curve: Curve, now_s: float, marks: Sequence[tuple[str, float]] = ()) -> Markup:
    """Return a curve with the scale of both axes.

    Parameters
    ----------
    curve : Curve
        Its title stands above.
    now_s : float
        The right end of the time axis; it begins with the oldest sample, ten minutes before at most.
    marks : sequence of (str, float)
        Values that are drawn as lines across, with their names.
    """
    (width, height), left, above = _LARGE, 52.0, 18.0
    top, span_s = max([_top(curve), *(value for _, value in marks)]), _span_s(curve, now_s)
    # Names stand apart from one another, however near their values are.
    across = "".join(_mark(name, value, top, width - 2 - 30 * at) for at, (name, value) in enumerate(reversed(marks)))
    return Markup(
        f'<svg width="{width + left + 8:.0f}" height="{height + above + 16:.0f}" style="{_WHOLE}">'
        f"<title>{escape(curve.title)}</title>{_text(left, 11, curve.title, bold=True)}"
        f'<g transform="translate({left:.0f} {above:.0f})">{_base(width, height)}{_base(width, 0.0)}{across}'
        f"{_line(curve, now_s, span_s, top, _LARGE)}{_text(-6, 8, _number(top), 'end')}{_text(-6, height, '0', 'end')}"
        f"{_text(0, height + 12, f'{_span_words(span_s)} ago')}{_text(width, height + 12, 'now', 'end')}</g></svg>"
    )


# --- from samples to lines
def _line(curve: Curve, now_s: float, span_s: float, top: float, size: tuple[float, float]) -> str:
    width, height = size

    def place(at_s: float, value: float) -> tuple[float, float]:
        return width * (1 - (now_s - at_s) / span_s), height * (1 - value / top)

    drawn = []
    for part in _parts(curve.samples):
        corners = list(_thinned([place(at_s, value) for at_s, value in part]))
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        # Closed along the base line: the area under the curve.
        under = f"{corners[0][0]:.1f},{height:.1f} {path} {corners[-1][0]:.1f},{height:.1f}"
        drawn.append(
            f'<polygon points="{under}" fill="{curve.colour}" fill-opacity="0.15" stroke="none"/>'
            f'<polyline points="{path}" fill="none" stroke="{curve.colour}" stroke-width="1.3"/>'
        )
    return "".join(drawn)


def _parts(samples: Samples) -> Iterator[list[tuple[float, float]]]:
    """Yield the stretches without a gap."""
    part: list[tuple[float, float]] = []
    for at_s, value in samples:
        if value is not None:
            part.append((at_s, value))
        elif part:
            yield part
            part = []
    if part:
        yield part


def _thinned(corners: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Yield at most one corner for each step of a pixel and a half: the highest, so that no peak is lost."""
    best = corners[0]
    for corner in corners[1:]:
        if corner[0] - best[0] >= 1.5:
            yield best
            best = corner
        elif corner[1] < best[1]:
            best = (best[0], corner[1])
    yield best
    if best[0] < corners[-1][0]:
        yield corners[-1]


def _top(curve: Curve) -> float:
    return max((value for _, value in curve.samples if value is not None), default=0.0) or 1.0


def _span_s(curve: Curve, now_s: float) -> float:
    return max(_LEAST_SPAN_S, now_s - curve.samples[0][0]) if curve.samples else _LEAST_SPAN_S


# --- pieces of SVG
def _base(width: float, y: float) -> str:
    return f'<path d="M0 {y:.1f}H{width:.1f}" stroke="currentColor" stroke-opacity="0.25"/>'


def _mark(name: str, value: float, top: float, end: float) -> str:
    width, height = _LARGE
    y = height * (1 - value / top)
    return (
        f'<path d="M0 {y:.1f}H{width:.1f}" stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="3 3"/>'
        f"{_text(end, y - 2 if y > 12 else y + 10, name, 'end')}"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="10" fill="currentColor"{weight}>'
        f"{escape(text)}</text>"
    )


def _number(value: float) -> str:
    if value >= 1e6:  # more digits have no room next to a chart
        return f"{value / 1e6:,.1f} M"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _span_words(span_s: float) -> str:
    return f"{span_s / 60:.0f} min" if span_s >= 90 else f"{span_s:.0f} s"
