"""Why something came out of an app: of one that ran here on recorded events, or of one that is deployed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spdist.errors import NotFoundError, StateError
from spdist.facade import check, recorded
from spdist.history import clock_text
from spdist.language import ast
from spdist.language.checked import CheckedApp

if TYPE_CHECKING:
    from spdist.cluster.handle import Deployment
    from spdist.engine.evidence import Evidence
    from spdist.engine.recording import Recording
    from spdist.operators.base import Arrival

__all__ = ["why"]


def why(
    app: str | ast.SiddhiApp | Deployment,
    stream: str,
    which: int | Sequence[Any] = -1,
    *,
    events: Mapping[str, Iterable[tuple[int, Any]]] | None = None,
    until: int | None = None,
    attributes: Sequence[str] | None = None,
    budget: int | None = None,
    scripts: bool | None = None,
) -> Evidence:
    """Return why an event came out: the events that caused it, none of which can be left out.

    They are found by running the app again and again without the others, here, in virtual time; a line says how far it
    is where that takes more than a second. Nothing is sent anywhere: sinks are left out, tables are in memory.

    Parameters
    ----------
    app : str, SiddhiApp or Deployment
        The app as of `spdist.run`; or one that is deployed, whose topics then say what came into it. Of an
        ``@app:playback`` app everything that it publishes comes out again here; a live app goes by the clock on the
        wall, so what its timers put out may not.
    stream : str
        Where it came out; of a deployed app one that it publishes.
    which : int or sequence
        Which of the events of this stream, as `spdist.run` or `Deployment.read` return them: its number, from the end
        where negative; or its values, of which the first are meant.
    events, until, scripts
        As of `spdist.run`; a deployed app needs no events.
    attributes : sequence of str, optional
        Those whose values matter, by default all; leave out what is never the same, such as a UUID.
    budget : int, optional
        How many events may be sent to the app again, by default two million, about a minute's work. Where they do not
        suffice, ``minimal`` of the result is False.

    Raises
    ------
    SiddhiAppError, MappingError
        As of `spdist.run`.
    NotFoundError
        There is no such event.
    StateError
        The event does not come out of a replay of what is in the topics.

    Examples
    --------
    >>> app = "define stream S (v int); from S#window.length(2) select sum(v) as s insert into Out;"
    >>> print(why(app, "Out", events={"S": [(1, (1,)), (2, (2,)), (3, (3,))]}))
    Out at 3 ms: s=5, caused by 2 of 3 events
      time  stream  event  values  without it
      2 ms  S           1  v=2     s=3
      3 ms  S           2  v=3     nothing
    """
    from spdist.engine.causes import BUDGET, minimal_causes
    from spdist.engine.recording import Recording
    from spdist.progress import ProgressLine

    with ProgressLine() as line:
        if isinstance(app, str | ast.SiddhiApp):
            if events is None:
                raise TypeError("say what was sent to the app: events={stream: [(timestamp, row), …]}")
            checked = check(app, scripts=scripts)
            recording = Recording.of(checked, recorded(checked, events), until)
        else:
            line.show("reading topics")
            checked = check(app.text(), scripts=scripts)
            recording, which = _deployed(app, checked, stream, which, until)
        most = BUDGET if budget is None else budget
        return minimal_causes(recording, stream, which, attributes=attributes, budget=most, progress=line.show)


def _deployed(
    app: Deployment, checked: CheckedApp, stream: str, which: int | Sequence[Any], until: int | None
) -> tuple[Recording, int]:
    """Return what came into a deployed app, and which of the events of a stream is meant when that is replayed."""
    from spdist.engine.recording import Recording
    from spdist.planning.graph import app_graph

    published = app.read(stream)
    event, copies = _meant(published, stream, which)
    graph = app_graph(checked)
    written = {link.target for link in graph.links}
    inputs = [
        definition.name
        for definition in checked.app.definitions
        if isinstance(definition, ast.StreamDefinition) and definition.name in graph.upstream(stream) - written
    ]
    events = {name: app.read(name) for name in inputs}
    last = max(timestamp for arrivals in (published, *events.values()) for timestamp, _ in arrivals)
    recording = Recording.of(checked, events, last if until is None else until)
    numbers = [number for number, one in enumerate(recording.events(stream)) if one == event]
    if len(numbers) < copies:
        raise StateError(
            f"{event[1]!r} of '{stream}' at {clock_text(event[0])} does not come out when the {len(recording.steps):,} "
            f"events in the topics of {', '.join(inputs) or 'no stream'} are replayed",
            hint="a live app goes by the clock on the wall; topics may not hold all that came in, and they do not tell "
            "what a restore, an update of the app or a table in a database has changed",
        )
    return recording, numbers[copies - 1]


def _meant(events: Sequence[Arrival], stream: str, which: int | Sequence[Any]) -> tuple[Arrival, int]:
    """Return an event, and how many equal ones there are up to it."""
    if isinstance(which, Sequence):
        number = next((n for n, (_, row) in enumerate(events) if row == tuple(which)), len(events))
    else:
        number = which + len(events) if which < 0 else which
    if not 0 <= number < len(events):
        what = f"row {tuple(which)!r}" if isinstance(which, Sequence) else f"event {which}"
        raise NotFoundError(f"'{stream}' has no {what}: {len(events):,} events were published")
    return events[number], events[: number + 1].count(events[number])
