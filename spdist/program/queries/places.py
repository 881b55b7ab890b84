"""How many places of each room the events of a call may use, for a query with what stands in front of it."""

from __future__ import annotations

from spdist.operators.selection.aggregates import aggregates_in
from spdist.program.parts import Block, Most, QueryText, Whole
from spdist.program.patterns.shape import Matched
from spdist.program.shape import Query, Read, Sliding

__all__ = ["count_keys", "count_places", "wakes_again"]


def count_places(whole: Whole, query: QueryText, block: Block) -> None:
    """Count the places of rooms that a query may use for these events."""
    read = query.read
    if isinstance(read, Matched) and read.states is not None:
        return  # it asks for room
    whole.count(f"nodes {query.name}", block.most)
    # Partial matches, and what waits for its batch, have been counted before they are results.
    begun = block.most
    if isinstance(read, Matched) and read.steps[0].optional:
        begun = block.most + block.most
        whole.count(f"nodes {query.name}", block.most)
    # So have the groups of what leaves a chunk that was cut into pieces, which may be gone, or what comes seldom.
    again = read.waits or isinstance(read, Matched) or (read.window is not None and read.window.regroups)
    again = again or _regroups(read)
    totals = begun + Most({query.name: 1}) if again else block.most
    count_keys(whole, query, block.most)
    if isinstance(read.window, Sliding) and read.window.gathers:
        # A batch enters the totals with one event, where values may have stayed that left before they came.
        whole.count(f"nodes {query.name}", Most({query.name: 1}))
    if read.timed:
        asked = [block.most] * 2
        if isinstance(read, Matched):  # one when a partial match comes to an absence, one when that is dropped
            asked = [totals] * 2 * len(read.absences)
        asked.append(wakes_again(query))
        whole.count(f"dues {query.name}", sum(asked, Most()))
        whole.count("timers", sum(asked, Most()))
    # Groups without totals: an event may have one when it comes, and again when it leaves.
    whole.count(f"groups {query.name}", totals if query.read.events != "all" else totals + totals)
    whole.count(f"pairs {query.name}", totals)


def count_keys(whole: Whole, query: QueryText, most: Most) -> None:
    """Count the places that a window uses besides its nodes, given how many events may come: of keys, of sessions."""
    window = query.read.window
    for room in () if window is None else window.rooms:
        whole.count(room.format(query.name), most)


def wakes_again(query: QueryText) -> Most:
    """Return how many wake-ups what a window holds may ask for once more."""
    window = query.read.window
    return Most({query.name: 1}) if isinstance(window, Sliding) and window.asks_again else Most()


def _regroups(read: Query) -> bool:
    """Tell whether events that leave together get a group each then, as there are no totals to keep it for."""
    if not isinstance(read, Read) or read.window is None or not read.puts_out_expired:
        return False
    one_by_one = isinstance(read.window, Sliding) and read.window.one_by_one
    return not one_by_one and not any(aggregates_in(item.expression) for item in read.checked.query.select.items)
