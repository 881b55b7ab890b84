"""Pieces of pictures as SVG text: they take the colour of the page around them and need nothing from outside."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from spdist.planning.pictures.layout import GraphLayout

__all__ = ["CHARACTER", "SMALL", "arrow", "curve", "picture", "text"]

CHARACTER = 6.7  # px of a character at 12 px, on average
SMALL = 5.6  # at 10 px


def picture(layout: GraphLayout, label: str, body: Iterable[str]) -> str:
    """Return a whole picture, as large as its layout; `label` is what a screen reader says."""
    width, height = round(layout.width), round(layout.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(label, quote=True)}" font-family="system-ui, Helvetica, Arial, sans-serif" '
        'font-size="12" fill="currentColor" style="max-width:100%;height:auto">\n' + "\n".join(body) + "\n</svg>"
    )


def text(x: float, y: float, text: str, *, anchor: str = "start", small: bool = False, bold: bool = False) -> str:
    """Return a line of text whose base line begins (or ends, or has its middle) at a point."""
    style = ' font-size="10" fill-opacity="0.75"' if small else ""
    style += ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def curve(path: tuple[tuple[float, float], ...], label: float) -> str:
    """Return a smooth line through `path` that ends level, over the length of its label."""
    (x, y), *rest = path
    end_x, end_y = rest[-1]
    turn = end_x - label - 14
    line = [f"M{x:.1f},{y:.1f}"]
    for next_x, next_y in [*rest[:-1], (turn, end_y)]:
        bend = max((next_x - x) / 2, 0.0)
        line.append(f"C{x + bend:.1f},{y:.1f} {next_x - bend:.1f},{next_y:.1f} {next_x:.1f},{next_y:.1f}")
        x, y = next_x, next_y
    return f"{' '.join(line)} H{end_x - 7:.1f}"


def arrow(line: str, tip: tuple[float, float]) -> str:
    """Return a line (path data) with a head at `tip` that points to the right."""
    return (
        f'<path d="{line}" fill="none" stroke="currentColor" stroke-opacity="0.55" stroke-width="1.3" '
        'stroke-linejoin="round"/>'
        f'<path d="M{tip[0]:.1f},{tip[1]:.1f}l-8,-4v8z" fill-opacity="0.7"/>'
    )
