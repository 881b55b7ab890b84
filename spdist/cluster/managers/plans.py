"""From the text of an app to its topology, as a manager does it: parsed, checked, planned; never run."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from spdist.cluster.protocol.messages import AppVersion, Desired
from spdist.errors import SiddhiAppError, SpdistError
from spdist.planning.limits import AppLimits
from spdist.planning.topology import Topology
from spdist.planning.updates.change import TopologyChange
from spdist.planning.updates.succession import restored_origins

__all__ = ["Plans", "checked_name", "flow_text", "free_name", "plan_text"]

#: What stands where the name of an app does in WSO2's paths for all of them.
RESERVED = frozenset({"revisions", "statistics"})
#: Names of apps become names of topics, files and addresses.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_KEPT = 100
_KEPT_CHARACTERS = 64_000_000
_NO_ORIGINS: Mapping[str, Any] = MappingProxyType({})


def plan_text(
    text: str,
    scripts: bool | None = None,
    shards: int = 1,
    transport: str = "log",
    limits: AppLimits | None = None,
) -> Topology:
    """Return the topology of an app; `scripts` tells whether it may define functions in Python; the rest as in `plan`.

    Raises
    ------
    SiddhiAppError
        The text is wrong, has no usable ``@app:name``, or cannot be split as it asks; names all that was found.
    """
    from spdist.extension import catalog
    from spdist.language.checking.checker import check
    from spdist.language.parsing.parser import parse
    from spdist.planning.groups import plan

    app = parse(text)
    checked_name(app.name)
    limits = limits or AppLimits()
    limits.check_elements(app)  # before the work of checking
    return plan(app, check(app, catalog(scripts), text), transport, shards=shards, limits=limits)


def checked_name(name: str | None) -> str:
    """Return the name of an app, which names topics, files and addresses; SiddhiAppError where it cannot."""
    if name is None:
        raise SiddhiAppError("the app has no name", hint="begin it with @app:name('MyApp')")
    if not _NAME.fullmatch(name):
        raise SiddhiAppError(
            f"the app's name {name[:120]!r} cannot name topics and files",
            hint="use up to 100 letters, digits, '_', '-' and '.', not beginning with '-' or '.'",
        )
    return name


def free_name(name: str) -> str:
    """Return the name of an app that is to be deployed; SiddhiAppError where it is one of `RESERVED`."""
    if name in RESERVED:
        raise SiddhiAppError(f"an app cannot be called {name}: /siddhi-apps/{name} means all apps")
    return name


def flow_text(text: str, scripts: bool | None = None) -> list[dict[str, Any]]:
    """Return the edges between the elements of an app; see `planning.pictures.flow.app_flow`, and `plan_text`."""
    from spdist.extension import catalog
    from spdist.language.checking.checker import check
    from spdist.language.parsing.parser import parse
    from spdist.planning.pictures.flow import app_flow

    return app_flow(check(parse(text), catalog(scripts), text), text)


class Plans:
    """Topologies by text: the newest are kept, so that looking at an app does not plan it again.

    Parameters
    ----------
    planner : callable
        From the text of an app that is to be deployed to its topology; raises SpdistError.
    again : callable, optional
        The same for an app that was deployed before; `planner` if it is left out.
    compare : callable, optional
        From the text of a deployed app and another one that was planned to what becomes of it; compared here if it is
        left out.
    flow : callable, optional
        From the text of a deployed app to the edges between its elements; found here if it is left out.

    State
    -----
    A hundred topologies, fewer where the texts of their instances have more than 64 million characters together.
    """

    def __init__(
        self,
        planner: Callable[[str], Topology] = plan_text,
        again: Callable[[str], Topology] | None = None,
        compare: Callable[[str, str], TopologyChange] | None = None,
        flow: Callable[[str], list[dict[str, Any]]] | None = None,
    ) -> None:
        self._planner = planner
        self._again = again or planner
        self._compare = compare
        self.flow = flow or partial(flow_text, scripts=True)
        self._known: OrderedDict[str, tuple[Topology, int]] = OrderedDict()
        self._characters = 0
        self._lock = threading.Lock()

    def topology(self, text: str, *, new: bool = False) -> Topology:
        """Return the topology of `text`, `new` if it is not deployed yet; raises what the planner raises."""
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text][0]
        # Not under the lock: who asks for another app need not wait.
        found = (self._planner if new else self._again)(text)
        size = len(text) + sum(len(one.text) for group in found.groups for one in group.instances)
        with self._lock:
            # Another caller may have planned the same text meanwhile
            if text not in self._known:
                self._known[text] = found, size
                self._characters += size
            # The last one stays, however large: it is the one that somebody is looking at
            while len(self._known) > 1 and (len(self._known) > _KEPT or self._characters > _KEPT_CHARACTERS):
                self._characters -= self._known.popitem(last=False)[1][1]
        return found

    def change(self, before: str, text: str) -> TopologyChange:
        """Return what becomes of a deployed app where `text` replaces it; raises what the planner raises."""
        if self._compare is not None:
            return self._compare(before, text)
        return self.topology(before).diff(self.topology(text))

    def restored(
        self, name: str, text: str, version: int, desired: Desired, origins: Mapping[str, Any] = _NO_ORIGINS
    ) -> AppVersion:
        """Return a stored deployment with its plan; one that this version of spdist cannot plan says why."""
        if desired is Desired.REMOVED:
            return AppVersion(name, text, version, desired=desired)
        try:
            return AppVersion(
                name, text, version, restored_origins(self.topology(text).assignments(), origins), desired
            )
        except Exception as error:  # one app, and be it a defect of ours, must not keep the others from running
            reason = str(error) if isinstance(error, SpdistError) else f"spdist failed to plan it: {error!r}"
            return AppVersion(name, text, version, desired=desired, error=reason)
