"""How much room the nodes ask for that the events of a call use in all blocks of a query."""

from __future__ import annotations

from collections.abc import Mapping

from spdist.program.parts import Most

__all__ = ["begun", "counted"]

_BEGUN = "~"


def begun(name: str) -> str:
    """Return under what there is, in `Most`, so much for each node of a query that the events of a call may use."""
    return f"{_BEGUN}{name}"


def counted(rooms: Mapping[str, Most]) -> dict[str, Most]:
    """Return how many places of each room can be used, once all blocks have said how many nodes they may use."""
    found: dict[str, Most] = {}
    for room, most in rooms.items():
        left, own = Most(most), Most()
        while left:
            # What one query may begin may be counted by what another one may; queries go down, so there is no circle
            unit, many = left.popitem()
            if unit.startswith(_BEGUN):
                nodes = rooms.get(f"nodes {unit.removeprefix(_BEGUN)}", Most())
                left.update({one: many * each for one, each in nodes.items()})
            else:
                own[unit] += many
        found[room] = own
    return found
