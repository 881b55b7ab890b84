"""The group instances of a cluster as rows: what each does, how much, and in which order they stand. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from spdist.display import Markup, bytes_text, duration_text, time_text
from spdist.panels.plots import Curve, chart, sparkline
from spdist.panels.trends import Figures

if TYPE_CHECKING:
    from spdist.cluster.clients.overview import GroupStatus
    from spdist.panels.watch import ClusterView

__all__ = ["ORDERS", "GroupRow", "charts_html", "group_rows", "unbroken"]

#: Figure → colour, and title with its unit.
_CURVES = {
    "in_per_s": ("#2f81f7", "events in per second"),
    "out_per_s": ("#2da44e", "events out per second"),
    "lag": ("#bf8700", "lag, records not yet read"),
    "batch_ms": ("#8957e5", "batch time, ms"),
    "state_bytes": ("#6e7781", "state, bytes"),
}


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group instance with its figures.

    Parameters
    ----------
    group : GroupStatus
        As the leader sees it.
    figures : Figures
        Its last ten minutes.
    at_s : float
        When that was (monotonic clock, s).
    """

    group: GroupStatus
    figures: Figures
    at_s: float

    #: Names of the columns of `text_cells`, and of `html_cells`.
    TEXT_HEAD = (
        *("group instance", "state", "worker", "in/s", "out/s", "events in", "events out", "lag", "batch p50", "p99"),
        *("clock", "rows", "bytes", "memory", "last revision", "reason"),
    )
    HTML_HEAD = (
        *("group instance", "state", "worker", "reason", "in/s", "out/s", "lag", "batch time", "state size"),
        *("events in", "events out", "clock", "memory", "last revision"),
    )

    def metric(self, name: str) -> float | None:
        """Return what it has reported under a name."""
        return self.group.metrics.get(name)

    def text_cells(self) -> tuple[object, ...]:
        """Return the cells for a terminal."""
        last = self.figures.last
        return (
            *(self.group.name, self.group.state, self.group.worker or "-"),
            *(_rate(last.in_per_s), _rate(last.out_per_s)),
            *(_count(self.metric(name)) for name in ("eventsIn", "eventsOut", "lag")),
            *(duration_text(self.figures.batch_ms(share)) for share in (0.5, 0.99)),
            *(time_text(self.metric("clock")), _count(self.metric("stateRows"))),
            *(bytes_text(self.metric(name)) for name in ("stateBytes", "memoryBytes")),
            *(time_text(self.metric("lastRevision")), self.group.reason),
        )

    def html_cells(self) -> tuple[object, ...]:
        """Return the cells for a page, with a curve in each of the figures that change."""
        last, rows = self.figures.last, self.metric("stateRows")
        batches = [duration_text(self.figures.batch_ms(share)) for share in (0.5, 0.99)]
        state = [bytes_text(self.metric("stateBytes")), f"{rows:,.0f} rows" if rows else ""]
        return (
            *(unbroken(self.group.name), self.group.state, unbroken(self.group.worker or "-")),
            Markup(f'<div style="max-width:24em">{escape(self.group.reason)}</div>' if self.group.reason else ""),
            self._drawn("in_per_s", _rate(last.in_per_s)),
            self._drawn("out_per_s", _rate(last.out_per_s)),
            self._drawn("lag", _count(self.metric("lag"))),
            self._drawn("batch_ms", f"p50 {batches[0]}, p99 {batches[1]}" if batches[0] else ""),
            self._drawn("state_bytes", ", ".join(filter(None, state))),
            *(_count(self.metric(name)) for name in ("eventsIn", "eventsOut")),
            *(unbroken(time_text(self.metric("clock"))), bytes_text(self.metric("memoryBytes"))),
            unbroken(time_text(self.metric("lastRevision"))),
        )

    def curve(self, figure: str) -> Curve:
        """Return one of its figures over time."""
        return Curve(self.figures.curve(figure), *_CURVES[figure])

    def _drawn(self, figure: str, told: str) -> object:
        """Return a figure with its curve below it; only what is told where there is no curve."""
        curve = self.curve(figure)
        if len(curve.samples) < 2:
            return unbroken(told) if figure == "batch_ms" else told
        # As wide as the curve: notebooks let pictures shrink to nothing.
        return Markup(f'<div style="min-width:96px">{unbroken(told or "–")}{sparkline(curve, self.at_s)}</div>')


_WORST_FIRST = ("FAILED", "UNREACHABLE", "WAITING", "DEPLOYING", "RUNNING")

#: Name → by what rows are sorted; figures have their greatest first, and what has none comes last.
ORDERS: dict[str, Callable[[GroupRow], Any]] = {
    "app": lambda row: (),
    "group instance": lambda row: row.group.name,
    "state": lambda row: _WORST_FIRST.index(row.group.state),
    "worker": lambda row: row.group.worker,
    "events in/s": lambda row: -(row.figures.last.in_per_s or 0.0),
    "events out/s": lambda row: -(row.figures.last.out_per_s or 0.0),
    "lag": lambda row: -(row.metric("lag") or 0.0),
    "batch p99": lambda row: -(row.figures.batch_ms(0.99) or 0.0),
    "state size": lambda row: -(row.metric("stateBytes") or 0.0),
    "memory": lambda row: -(row.metric("memoryBytes") or 0.0),
}


def group_rows(view: ClusterView, order: str = "app") -> list[GroupRow]:
    """Return all group instances in an order of `ORDERS`; rows that are equal there stand as in their topologies."""
    rows = [
        GroupRow(group, view.figures.get(group.name, Figures()), view.at_s)
        for app in view.status.apps
        for group in app.groups
    ]
    return sorted(rows, key=ORDERS[order])


def charts_html(row: GroupRow) -> str:
    """Return the figures of one instance as large charts."""
    percentiles = [(f"p{share * 100:.0f}", row.figures.batch_ms(share)) for share in (0.5, 0.99)]
    marks = [(name, value) for name, value in percentiles if value is not None]
    drawn = (chart(row.curve(one), row.at_s, marks if one == "batch_ms" else ()) for one in _CURVES)
    return f'<div style="display:flex;flex-wrap:wrap;gap:10px 24px">{"".join(drawn)}</div>'


def unbroken(text: str) -> Markup:
    """Return a text that stays on one line."""
    return Markup(f'<div style="white-space:nowrap">{escape(text)}</div>' if text else "")


def _rate(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"
