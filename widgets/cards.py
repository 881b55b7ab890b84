"""The nodes of a cluster as cards: managers with who leads, workers with load, memory and groups. Pure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from spdist.display import STATE_COLOURS, bytes_text, state_style

if TYPE_CHECKING:
    from spdist.cluster.clients.overview import ManagerStatus, WorkerStatus
    from spdist.panels.absent import Absent
    from spdist.panels.watch import ClusterView

__all__ = ["cards_html"]

_PLAIN = "#8b949e"
#: Groups of a worker that are named; the table below has them all.
_NAMED = 6


def cards_html(view: ClusterView) -> str:
    """Return a card for each node, those that are lost among them."""
    status = view.status
    cards = [
        *(_manager(one, status.term) for one in status.managers),
        *(_worker(one) for one in (*status.workers, *status.lost)),
        *(_absent(one, view.at_s - one.seen_s) for one in view.absent),
    ]
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px;margin:4px 0 10px 0">{"".join(cards)}</div>'


def _manager(one: ManagerStatus, term: int) -> str:
    if one.leads:
        return _card(one.id, "manager", STATE_COLOURS["RUNNING"], _line(f"leads in term {term}", "RUNNING"))
    return _card(one.id, "manager", _PLAIN, _line("stands by"))


def _worker(one: WorkerStatus) -> str:
    bars = ""
    if "systemCPU" in one.metrics:
        bars += _bar("CPU", one.metrics["systemCPU"], f"{one.metrics['systemCPU']:.0%}")
    if one.memory_limit:
        told = f"{bytes_text(one.memory_used)} of {bytes_text(one.memory_limit)}"
        bars += _bar("memory", one.memory_used / one.memory_limit, told)
    elif "memoryUsage" in one.metrics:
        bars += _bar("memory", one.metrics["memoryUsage"], f"{one.metrics['memoryUsage']:.0%}")
    groups = "".join(_line(f"{name} {state}", state) for name, state in one.groups[:_NAMED])
    more = len(one.groups) - _NAMED
    groups += _line(f"and {more} more") if more > 0 else ""
    role = "receiver" if one.receiver else "worker"
    colour = STATE_COLOURS.get(one.state, _PLAIN)
    return _card(one.id, role, colour, _line(one.told, one.state) + bars + (groups or _line("no groups")))


def _absent(one: Absent, ago_s: float) -> str:
    had = "".join(_line(f"had {name}") for name in one.groups[:_NAMED])
    return _card(one.id, one.role, STATE_COLOURS["LOST"], _line(f"LOST, last seen {ago_s:.0f} s ago", "LOST") + had)


def _card(name: str, role: str, colour: str, body: str) -> str:
    frame = f"border:1px solid {colour};border-left-width:4px;border-radius:5px;padding:6px 10px"
    head = f'<div><b>{escape(name)}</b> <span style="opacity:0.7">{role}</span></div>'
    return f'<div style="{frame};min-width:170px;max-width:300px">{head}{body}</div>'


def _line(text: str, state: str = "") -> str:
    return f'<div style="font-size:90%{state_style(state)}">{escape(text)}</div>'


def _bar(name: str, share: float, told: str) -> str:
    """Return a bar that turns amber and red where it gets full."""
    filled = min(1.0, max(0.0, share))
    state = "FAILED" if filled > 0.95 else "DEPLOYING" if filled > 0.8 else "RUNNING"
    return (
        f'<div style="font-size:90%;display:flex;gap:6px;align-items:center"><span style="width:4em">{name}</span>'
        f'<svg width="70" height="8"><rect width="70" height="8" rx="2" fill="currentColor" fill-opacity="0.15"/>'
        f'<rect width="{70 * filled:.0f}" height="8" rx="2" fill="{STATE_COLOURS[state]}"/></svg>{escape(told)}</div>'
    )
