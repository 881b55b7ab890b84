"""The topics of group instances are made before they run, or looked for where they may not be made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spdist.errors import PlanningError, PlanningRule
from spdist.planning.topology import Assignment

if TYPE_CHECKING:
    from spdist.transports.base import Transport

__all__ = ["ensure_topics"]


def ensure_topics(transport: Transport, assignments: Iterable[Assignment]) -> None:
    """Create the topics of group instances, or see that they are there where they may not be created.

    Raises
    ------
    PlanningError
        One is missing or too small, and the app says ``transportChannelCreationEnabled('false')``.
    """
    for assignment in assignments:
        needed = {one.topic: max(one.partitions) + 1 for one in assignment.inputs}
        needed |= {p.topic: p.partitions for output in assignment.outputs for p in output.publishing}
        subjects = {one.topic: one.subjects for one in assignment.inputs}
        made = {one.topic for one in assignment.inputs if one.source}
        for topic, partitions in needed.items():
            if assignment.creates_topics or topic in made:
                transport.ensure(topic, partitions, subjects.get(topic, ()))
            elif transport.partitions(topic) < partitions:
                raise PlanningError(
                    f"topic '{topic}' with {partitions} partitions is missing, and may not be created",
                    hint="create it, or leave out @app:transportChannelCreationEnabled('false')",
                    code=PlanningRule.CHANNEL,
                )
