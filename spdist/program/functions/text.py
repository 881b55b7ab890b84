"""How the text reads what functions give that are computed for the events of a source, before the loop."""

from __future__ import annotations

from collections.abc import Iterable

from spdist.program.expressions import Value
from spdist.program.functions.computed import FAILED, Computed, Guard
from spdist.program.parts import Block, Origin, Whole

__all__ = ["computed_value", "origins_of"]


def origins_of(block: Block, places: Iterable[int]) -> list[Origin] | None:
    """Return of which attributes of one source some of a block are; None where there is no such source."""
    found = [block.origins[place] for place in places]
    known = [origin for origin in found if origin is not None]
    return known if len(known) == len(found) and len({stream for stream, _ in known}) == 1 else None


def computed_value(
    whole: Whole, block: Block, event: str, function: Computed, loses: bool = False, guard: Guard | None = None
) -> Value | None:
    """Return what a function gives for an event of a block; None where its arguments are of no source.

    Parameters
    ----------
    whole : Whole
        The text.
    block : Block
        The events.
    event : str
        Source of the place of one of them.
    function : Computed
        The function, of attributes of the block.
    loses : bool
        Whether the event is lost where the function fails; else the program cannot take it.
    guard : Guard, optional
        What the event has met.
    """
    origins = origins_of(block, function.arguments)
    if origins is None:
        return None
    name = whole.functions.of_event(function, origins, not loses, guard)
    place = f"{block.source}[{event}]" if block.source else event
    fails = f"{name}_n[{place}] == {FAILED}" if loses else ""
    return Value(f"{name}[{place}]", f"{name}_n[{place}] != 0", function.type, fails=fails)
