"""How large an app may be that is deployed: what it costs managers to plan it, and workers to run it, is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spdist.errors import PlanningError
from spdist.language.ast import Node, Partition, SiddhiApp
from spdist.planning.forming import Group

__all__ = ["UNLIMITED", "AppLimits"]

_HINT = "split the app into several; the administrator may raise siddhi.limits.{} of the managers"


@dataclass(frozen=True, slots=True)
class AppLimits:
    """The largest app that is planned.

    Parameters
    ----------
    elements : int
        Definitions, partitions, and queries, those in partitions counted.
    groups : int
        Execution groups, passthrough groups counted.
    instances : int
        Instances of all groups together.
    characters : int
        Of the SiddhiQL of all instances together.
    """

    elements: int = 10_000
    groups: int = 500
    instances: int = 1000
    characters: int = 16_000_000

    def check_elements(self, app: SiddhiApp) -> None:
        """Raise PlanningError, with the place of the first element that is one too many."""
        count = 0
        for element in (*app.definitions, *app.elements):
            count += 1 + (len(element.queries) if isinstance(element, Partition) else 0)
            if count > self.elements:
                raise _refused(f"more than {self.elements} definitions, queries and partitions", "elements", element)

    def check_groups(self, groups: Sequence[Group]) -> None:
        """Raise PlanningError, with the place of the first group that is one too many."""
        if len(groups) > self.groups:
            raise _refused(f"{len(groups)} execution groups, more than {self.groups}", "groups", groups[self.groups])
        instances = 0
        for group in groups:
            instances += group.parallel
            if instances > self.instances:
                total = sum(one.parallel for one in groups)
                raise _refused(f"{total} instances of its groups, more than {self.instances}", "instances", group)

    def check_characters(self, count: int, group: Group) -> None:
        """Raise PlanningError where the texts of the instances so far, `group` the last, are too long."""
        if count > self.characters:
            what = f"instances whose texts have more than {self.characters} characters together"
            raise _refused(what, "characters", group)


#: For apps that were accepted before: they must go on, whatever the limits have become.
UNLIMITED = AppLimits(*4 * [1 << 62])


def _refused(what: str, setting: str, where: Node | Group) -> PlanningError:
    return PlanningError(f"the app has {what}", span=where.span, hint=_HINT.format(setting))
