"""The draft of an app: its text, what it would become or what is wrong with it, and what it would change. Pure.

But for `Debounced`, which has the checking wait until nobody types.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

import spdist
from spdist.display import state_style
from spdist.errors import SiddhiAppError
from spdist.language.lexer import coloured_lines
from spdist.planning.updates.change import TopologyChange
from spdist.planning.updates.comparison import compare

if TYPE_CHECKING:
    from spdist.cluster.clients.overview import AppStatus
    from spdist.planning.topology import Topology

__all__ = ["Application", "Debounced", "Draft", "annotated_html", "difference", "draft_of"]

#: Lines of a text that are shown whole; of a longer one, those around each error.
_WHOLE, _AROUND = 40, 3


@dataclass(frozen=True, slots=True)
class Draft:
    """A text that was checked.

    Parameters
    ----------
    text : str
        SiddhiQL.
    topology : Topology, optional
        What it would become; None where it is wrong, or empty.
    problem : SiddhiAppError, optional
        What is wrong with it.
    """

    text: str
    topology: Topology | None = None
    problem: SiddhiAppError | None = None

    @property
    def errors(self) -> Sequence[SiddhiAppError]:
        """All that is wrong with it."""
        return () if self.problem is None else self.problem.errors


@dataclass(frozen=True, slots=True)
class Application:
    """A draft, and how the app of that name is doing.

    Parameters
    ----------
    draft : Draft
        The text with what it would become.
    transport : str
        What carries the topics of the cluster; empty where that is not known.
    status : AppStatus, optional
        How it is doing; None where it is not deployed.
    change : TopologyChange, optional
        What deploying the draft would change of what runs.
    apps : tuple of str
        The apps of the cluster.
    away : str
        Why nothing is known of the cluster; empty where something is.
    """

    draft: Draft
    transport: str = ""
    status: AppStatus | None = None
    change: TopologyChange | None = None
    apps: tuple[str, ...] = ()
    away: str = ""

    @property
    def name(self) -> str:
        """The app's name; empty where the draft has none."""
        return "" if self.draft.topology is None else self.draft.topology.app


@lru_cache(8)
def draft_of(text: str, transport: str) -> Draft:
    """Check and plan a text for a cluster whose topics `transport` carries."""
    if not text.strip():
        return Draft(text)
    try:
        return Draft(text, spdist.plan(text, transport))
    except SiddhiAppError as error:
        return Draft(text, problem=error)


@lru_cache(8)
def difference(running: str, text: str, transport: str) -> TopologyChange | None:
    """Return what becomes of a running app when `text` replaces it; None where one of the two cannot be planned."""
    before, after = draft_of(running, transport).topology, draft_of(text, transport).topology
    return None if before is None or after is None else compare(before, after)


def annotated_html(draft: Draft) -> str:
    """Return the text in colours with the number of each line, and each error below the characters that it is about."""
    numbered = dict(enumerate(coloured_lines(draft.text), start=1))
    placed: dict[int, list[SiddhiAppError]] = {}
    for error in draft.errors:
        placed.setdefault(min(error.span.line, len(numbered)) if error.span is not None else 0, []).append(error)
    plain = draft.text.split("\n")
    rows = [_message(error, "") for error in placed.get(0, ())]
    last = 0
    for number in _shown(len(numbered), placed):
        if number > last + 1:
            rows.append('<span style="opacity:0.6">   …</span>')
        rows.append(f'<span style="opacity:0.6">{number:4} </span> {numbered[number]}')
        rows += [_message(error, _carets(error, plain[number - 1])) for error in placed.get(number, ())]
        last = number
    body = "\n".join(rows)
    # Notebooks break lines anywhere, and carets stood under other characters then.
    style = "margin:0;overflow-x:auto;white-space:pre;word-break:normal"
    return f'<div class="highlight"><pre style="{style}">{body}</pre></div>'


def _shown(count: int, placed: Iterable[int]) -> list[int]:
    if count <= _WHOLE:
        return list(range(1, count + 1))
    near = {line + step for line in placed if line for step in range(-_AROUND, _AROUND + 1)}
    return sorted(number for number in near if 1 <= number <= count)


def _carets(error: SiddhiAppError, line: str) -> str:
    """Return the place of an error below its line: blanks, and carets as long as it is."""
    span = error.span
    if span is None:
        return ""
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    before = "".join("\t" if sign == "\t" else " " for sign in line[: span.column - 1])
    return f"      {before}{'^' * max(1, min(end, len(line)) - span.column + 1)} "


def _message(error: SiddhiAppError, carets: str) -> str:
    told = f"{error.message.removesuffix('.')}. Hint: {error.hint}" if error.hint else error.message
    return f'<span style="white-space:pre-wrap{state_style("FAILED")}">{carets}{escape(told)}</span>'


class Debounced:
    """Runs an action in a thread once nobody has asked for it for a while.

    Parameters
    ----------
    wait_s : float
        The while.
    action : callable
        What to run.
    then : callable
        What to run behind it, when nothing is pending any more.

    State
    -----
    The number of times that it was asked for.
    """

    def __init__(self, wait_s: float, action: Callable[[], object], then: Callable[[], object]) -> None:
        self._wait_s = wait_s
        self._action = action
        self._then = then
        self._asked = 0
        #: whether what was asked for last is not done yet
        self.pending = False

    def ask(self) -> None:
        """Have it run, unless somebody asks again before."""
        self._asked += 1
        self.pending = True
        timer = threading.Timer(self._wait_s, self._run, (self._asked,))
        timer.daemon = True
        timer.start()

    def _run(self, number: int) -> None:
        # Somebody has asked again since: the timer of that call runs it.
        if number != self._asked:
            return
        self._action()
        # Somebody may have asked while it ran: then what was asked for last is still to be done.
        if number == self._asked:
            self.pending = False
            self._then()
