"""Why a deployed app has put something out: what came in is in its topics, and a replay of that tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spdist.errors import NotFoundError, StateError
from spdist.facade import check
from spdist.history import clock_text
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp

if TYPE_CHECKING:
    from spdist.cluster.clients.handle import Deployment
    from spdist.engine.replay.evidence import Evidence
    from spdist.engine.replay.input_log import InputLog
    from spdist.operators.base import Arrival

__all__ = ["why"]


def why(
    deployment: Deployment,
    stream: str,
    which: int | Sequence[Any] = -1,
    *,
    attributes: Sequence[str] | None = None,
    budget: int | None = None,
    scripts: bool | None = None,
) -> Evidence:
    """Return why a deployed app has published an event: the events that caused it, none of which can be left out.

    What came into the app is in its topics; it is read, and the rest is as of `Result.explain`: here, in virtual time.
    What an ``@app:playback`` app publishes comes out again here. A live app goes by the clock on the wall, so what its
    timers put out may not. `Deployment.explain` replays what the states of the groups hold instead: at their own times,
    but only what came since their older snapshots.

    Parameters
    ----------
    deployment : Deployment
        The app.
    stream : str
        One that it publishes.
    which : int or sequence
        Which of the events that ``deployment.read(stream)`` returns: its place, from the end where negative; or its
        values, of which the first are meant.
    attributes, budget
        As of `Result.explain`.
    scripts : bool, optional
        As of `spdist.run`.

    Raises
    ------
    NotFoundError
        There is no such event.
    StateError
        It does not come out of a replay of what is in the topics.
    ClusterError
        The stream, or one that leads to it, is not in a topic.

    Examples
    --------
    >>> spdist.why(cluster.deployment("Rooms"), "Alerts")  # doctest: +SKIP
    """
    from spdist.engine.replay.causes import BUDGET, explain
    from spdist.progress import ProgressLine

    with ProgressLine() as line:
        line.show("reading topics")
        log, number = _replayed(deployment, check(deployment.text(), scripts=scripts), stream, which)
    return explain(log, stream, number, attributes=attributes, budget=BUDGET if budget is None else budget)


def _replayed(app: Deployment, checked: CheckedApp, stream: str, which: int | Sequence[Any]) -> tuple[InputLog, int]:
    """Return what came into a deployed app, and which of the events of a stream is meant when that is replayed."""
    from spdist.engine.replay.input_log import InputLog
    from spdist.planning.pictures.graph import app_graph

    published = app.read(stream)
    event, copies = _meant(published, stream, which)
    graph = app_graph(checked)
    written = {link.target for link in graph.links}
    # What queries write comes out again in the replay; only the rest is to be given.
    inputs = [
        definition.name
        for definition in checked.app.definitions
        if isinstance(definition, ast.StreamDefinition) and definition.name in graph.upstream(stream) - written
    ]
    events = {name: app.read(name) for name in inputs}
    # Not empty: `_meant` has found an event.
    last = max(timestamp for arrivals in (published, *events.values()) for timestamp, _ in arrivals)
    log = InputLog.of(checked, events, last)
    # Equal events cannot be told apart: the n-th that was published is the n-th of the replay.
    numbers = [number for number, one in enumerate(log.events(stream)) if one == event]
    if len(numbers) < copies:
        raise StateError(
            f"{event[1]!r} of '{stream}' at {clock_text(event[0])} does not come out when the {len(log.steps):,} "
            f"events in the topics of {', '.join(inputs) or 'no stream'} are replayed",
            hint="a live app goes by the clock on the wall; topics may not hold all that came in, and they do not tell "
            "what a restore, an update of the app or a table in a database has changed",
        )
    return log, numbers[copies - 1]


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
