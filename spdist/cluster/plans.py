"""From the text of an app to its topology, as a manager does it: parsed, checked, planned; never run."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable

from spdist.cluster.messages import Deployment, Desired
from spdist.errors import SiddhiAppError, SpdistError
from spdist.planning.topology import Topology

__all__ = ["Plans", "plan_text"]

#: Names of apps become names of topics, files and addresses.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_KEPT = 100


def plan_text(text: str, scripts: bool | None = None, shards: int = 1, transport: str = "log") -> Topology:
    """Return the topology of an app; `scripts` tells whether it may define functions in Python; the rest as in `plan`.

    Raises
    ------
    SiddhiAppError
        The text is wrong, has no usable ``@app:name``, or cannot be split as it asks; names all that was found.
    """
    from spdist.extension import catalog
    from spdist.language.checker import check
    from spdist.language.parser import parse
    from spdist.planning.groups import plan

    app = parse(text)
    if app.name is None:
        raise SiddhiAppError("the app has no name", hint="begin it with @app:name('MyApp')")
    if not _NAME.fullmatch(app.name):
        raise SiddhiAppError(
            f"the app's name {app.name[:120]!r} cannot name topics and files",
            hint="use up to 100 letters, digits, '_', '-' and '.', not beginning with '-' or '.'",
        )
    return plan(app, check(app, catalog(scripts), text), transport, shards=shards)


class Plans:
    """Topologies by text: the newest hundred are kept, so that looking at an app does not plan it again.

    Parameters
    ----------
    planner : callable
        From text to topology; raises SpdistError.
    """

    def __init__(self, planner: Callable[[str], Topology] = plan_text) -> None:
        self._planner = planner
        self._known: OrderedDict[str, Topology] = OrderedDict()
        # One at a time: planning is work for the processor, and must leave room for heartbeats.
        self._planning = threading.Lock()

    def topology(self, text: str) -> Topology:
        """Return the topology of `text`; raises what the planner raises."""
        with self._planning:
            found = self._known.get(text)
            if found is None:
                found = self._known[text] = self._planner(text)
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            return found

    def restored(self, name: str, text: str, version: int, desired: Desired) -> Deployment:
        """Return a stored deployment with its plan; one that this version of spdist cannot plan says why."""
        if desired is Desired.REMOVED:
            return Deployment(name, text, version, desired=desired)
        try:
            return Deployment(name, text, version, self.topology(text).assignments(), desired)
        except Exception as error:  # one app, and be it a defect of ours, must not keep the others from running
            reason = str(error) if isinstance(error, SpdistError) else f"spdist failed to plan it: {error!r}"
            return Deployment(name, text, version, desired=desired, error=reason)
