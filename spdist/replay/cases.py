"""One written case: an app, what is sent to it, and what came out, all in virtual time.

A case is a dictionary (usually a line of a ``.jsonl`` file):

- ``app``: the SiddhiQL text; ``start``: the clock when it starts, ms (that of the first step if missing)
- ``observe``: what is recorded: a text names a stream or named window, ``{"query": name}`` a query; without it all
  streams, named windows, and queries with a name of their own
- ``events``, the steps: ``{"stream": S, "timestamp": T, "data": [...]}``, ``{"stream": S, "batch": [{"timestamp",
  "data"}]}``, ``{"advance": T}``, ``{"query": text}``, ``{"persist": true}``, ``{"restart": true}``,
  ``{"restore": "last"}``, ``{"restart": true, "restore": "last"}`` (another process goes on with the state),
  ``{"snapshot": name}``, ``{"restore_snapshot": name}``, ``{"shutdown": true}``
- ``config``: ``{"properties": {"aggTimeZone": zone}}``, where it is not GMT
- ``expected`` is for those who compare
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spdist.engine.local.app import LocalApp
from spdist.engine.local.external_stores import external_stores
from spdist.engine.local.recorder import Collected, error_of, observed_of
from spdist.engine.local.script import ScriptedRun
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.checking.scope import undefined
from spdist.language.parsing.parser import parse
from spdist.mapping.case_values import read_row
from spdist.operators.base import Arrival

__all__ = ["Case", "first_time", "read_arrivals", "run_case", "time_zone_of"]

Case = Mapping[str, Any]


def run_case(case: Case) -> dict[str, Any]:
    """Replay a case.

    Parameters
    ----------
    case : mapping
        See above.

    Returns
    -------
    dict
        ``streams``: for each observed stream its events ``{"timestamp", "data", "i"}``, with ``"expired": True`` for
        what left a named window; ``queries``: for each observed query its chunks ``{"timestamp", "current", "expired",
        "i"}``; ``on_demand``: ``{"i", "query", "rows", "schema"}`` or ``{"i", "query", "error"}``; ``schemas``:
        ``{"streams", "queries"}`` of what is observed; ``errors``: events that were lost because a query failed on
        them, ``{"i", "message"}``. ``i`` is the step during which it happened, -1 the start. For an app that is
        refused: ``{"error": …}`` as `error_of` gives it.

    Raises
    ------
    MappingError
        A row does not fit its stream.
    """
    try:
        checked = check(parse(case["app"]), catalog(), case["app"])
        observed = observed_of(checked, case)
        collected = Collected(checked, observed)
        script = ScriptedRun(_maker(checked, case), observed, collected.put)
    except SiddhiAppError as error:
        return {"error": error_of(error)}
    steps = case.get("events", [])
    script.start(first_time(case))
    for number, step in enumerate(steps):
        if "stream" in step:
            arrivals = read_arrivals(step, checked)
            if arrivals:
                script.send(number, step["stream"], arrivals, together="batch" in step)
        else:
            script.command(number, step)
    return collected.result()


def first_time(case: Case) -> int:
    """Return the clock when the app of `case` starts, ms: as it says, or that of its first step."""
    if case.get("start") is not None:
        return int(case["start"])
    for step in case.get("events", []):
        for holder in (step, *step.get("batch", ())[:1]):
            if "timestamp" in holder or "advance" in holder:
                return int(holder.get("timestamp", holder.get("advance")))
    return 0


def time_zone_of(case: Case) -> str:
    """Return the time zone of the aggregations of `case`."""
    zone: str = case.get("config", {}).get("properties", {}).get("aggTimeZone", "GMT")
    return zone


def read_arrivals(step: Case, checked: CheckedApp) -> Sequence[Arrival]:
    """Return the events that a step sends, as ``(timestamp ms, row)``.

    Raises
    ------
    UndefinedNameError
        The app has no such stream.
    MappingError
        A row does not fit its stream.
    """
    schema = checked.streams.get(step["stream"])
    if schema is None:
        raise undefined("stream", step["stream"], None, checked.streams)
    return [(item["timestamp"], read_row(item["data"], schema)) for item in step.get("batch", (step,))]


def _maker(checked: CheckedApp, case: Case) -> Callable[[], LocalApp]:
    return lambda: LocalApp(checked, time_zone=time_zone_of(case), stores=external_stores(checked))
