"""From the states of a group instance of one text to those of its next text: what one has done, the other goes on from.

Values only. Events that were read and wait for their turn are processed by the new text where their topic is still read
with the same attributes; where it is not, the old text has to process them before (`Segment.closing`). Numbers of what
is published go on, time goes on, and nothing that was processed is processed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdist.engine.island.island import ISLAND_FORMAT
from spdist.engine.local.state_transfer import carry_over
from spdist.engine.shards.rescale import rescale
from spdist.engine.shards.state import Positions
from spdist.errors import StateError
from spdist.operators.core.codec import decode, encode
from spdist.planning.compiled import CompiledInstance
from spdist.planning.topology import Assignment
from spdist.planning.updates.change import ElementChange
from spdist.planning.updates.fingerprints import compare_fingerprints, fingerprints
from spdist.transports.base import NO_CLOCK

__all__ = ["positions_of", "update"]


def positions_of(positions: Positions, assignment: Assignment) -> Positions:
    """Return where a version goes on reading, given how far the one before it was: of what it reads."""
    read = {one.topic: one.partitions for one in assignment.inputs}
    return {
        topic: {partition: offset for partition, offset in offsets.items() if partition in read[topic]}
        for topic, offsets in positions.items()
        if topic in read
    }


def update(
    snapshots: Sequence[bytes],
    before: CompiledInstance,
    after: CompiledInstance,
    shards: int,
    above: int = 0,
    *,
    anew: bool = False,
) -> tuple[list[bytes], tuple[ElementChange, ...]]:
    """Return the states of `shards` islands that go on with another text, and what became of each element.

    Parameters
    ----------
    snapshots : sequence of bytes
        What `Island.snapshot` gave, of all shards of the version before. They have read their topics up to the same
        positions, and everything that they put out was published. Of topics that are not read on nothing waits.
    before, after : CompiledInstance
        The two versions of the instance.
    shards : int
        How many there are to be, at least 1.
    above : int
        What is put out is numbered from here on, where not even higher.
    anew : bool
        Whether nothing keeps its state: numbering and time alone go on.

    Raises
    ------
    StateError
        One of the versions cannot be split, or the snapshots are no states of shards of one instance.
    """
    whole = [*snapshots] if len(snapshots) == 1 else rescale(snapshots, before.checked, before.assignment, 1)
    carried, changes = _carried(whole[0], before, after, above, anew)
    made = [carried] if shards == 1 else rescale([carried], after.checked, after.assignment, shards, above)
    return made, changes


def _carried(
    data: bytes, before: CompiledInstance, after: CompiledInstance, above: int, anew: bool
) -> tuple[bytes, tuple[ElementChange, ...]]:
    state = decode(data)
    if not isinstance(state, dict) or state.get("island") != ISLAND_FORMAT:
        raise StateError("these bytes are no snapshot of a group", hint="restore another revision")
    changes = compare_fingerprints({} if anew else fingerprints(before.checked), after.checked)
    if state["started"]:
        state["app"], changes = carry_over(state["app"], after.checked, above, anew=anew)
    state["merge"]["channels"] = [channel for channel in state["merge"]["channels"] if _goes_on(channel, before, after)]
    state["seen"] = [place for place in state["seen"] if after.attributes(place[0]) is not None]
    publisher = state["publisher"]
    routes = [[topic, sent, [max(above, number) for number in seq]] for topic, sent, seq in publisher["routes"]]
    above = max(above, publisher["above"])
    # Who reads a topic that is new waits for a promise: the first batch promises anew.
    state["publisher"] = {**publisher, "routes": routes, "above": above, "promised": NO_CLOCK}
    return encode(state), changes


def _goes_on(channel: list[Any], before: CompiledInstance, after: CompiledInstance) -> bool:
    """Tell whether a channel is heard by the next version, or holds events for it."""
    topic, partition, producer, _, _, waiting = channel
    if not after.reads_on(topic, before):
        if waiting:
            raise StateError(f"{len(waiting)} events of {topic} wait, which is not read any more")
        return False
    read = next(one for one in after.assignment.inputs if one.topic == topic)
    return bool(waiting) or (partition in read.partitions and producer in (read.producers or ("",)))
