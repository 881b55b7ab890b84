"""What the text of programs calls: ordered lists and timers over flat arrays. For tables see `hash_tables`.

Everything here is compiled together with a program; this module is only imported where there is numba. No function
raises, none allocates: whoever calls has made room before.
"""

from __future__ import annotations

from spdist.program.machine.arithmetic import key_bits, loop
from spdist.program.machine.sorting import text_hash

__all__ = [
    "all_appended",
    "all_inserted_by_time",
    "allot",
    "append",
    "candidate_enters",
    "candidate_leaves",
    "candidates_go",
    "cell_stays",
    "cells_stay",
    "due_asked",
    "due_done",
    "dues_asked",
    "give_back",
    "insert_by_time",
    "order_by_time",
    "real_leaves",
    "text_hashes",
    "timer_gone",
    "timer_set",
    "timers_set",
    "unlink",
    "walk",
    "walk_heaps",
]

# Ordered lists of candidates, of each group one: double links over a pool of nodes.


@loop
def candidate_enters(ends, before, after, values, free, group, value, least):  # type: ignore[no-untyped-def]
    """Let a value enter: those that can never be best again, since it is better, go."""
    node = ends[2 * group + 1]
    # Equal ones stay, as each leaves by itself.
    while node >= 0 and (values[node] > value if least else values[node] < value):
        gone = node
        node = before[node]
        after[gone] = free[0]
        free[0] = gone
    fresh = free[0]
    if fresh >= 0:
        free[0] = after[fresh]
    else:
        fresh = free[1]
        free[1] += 1
    values[fresh], before[fresh], after[fresh] = value, node, -1
    if node >= 0:
        after[node] = fresh
    else:
        ends[2 * group] = fresh
    ends[2 * group + 1] = fresh


@loop
def candidate_leaves(ends, before, after, values, free, group, value):  # type: ignore[no-untyped-def]
    """Let a whole number leave: the first candidate that equals it."""
    node = ends[2 * group]
    # What a better one has let go is not there: then nothing leaves.
    while node >= 0 and values[node] != value:
        node = after[node]
    if node >= 0:
        _candidate_gone(ends, before, after, free, group, node)


@loop
def real_leaves(ends, before, after, values, free, group, value):  # type: ignore[no-untyped-def]
    """Let a real leave: the first candidate that equals it, as ``Double.equals`` says."""
    node, key = ends[2 * group], key_bits(value)
    while node >= 0 and key_bits(values[node]) != key:
        node = after[node]
    if node >= 0:
        _candidate_gone(ends, before, after, free, group, node)


@loop
def _candidate_gone(ends, before, after, free, group, node):  # type: ignore[no-untyped-def]
    """Take a candidate out of its list."""
    left, right = before[node], after[node]
    if left >= 0:
        after[left] = right
    else:
        ends[2 * group] = right
    if right >= 0:
        before[right] = left
    else:
        ends[2 * group + 1] = left
    after[node] = free[0]
    free[0] = node


@loop
def candidates_go(ends, after, free, group):  # type: ignore[no-untyped-def]
    """Let all candidates of a group go."""
    first = ends[2 * group]
    if first >= 0:
        # The list is linked as free nodes are, so it goes in front of them as a whole.
        after[ends[2 * group + 1]] = free[0]
        free[0] = first
        ends[2 * group] = ends[2 * group + 1] = -1


# Lists of nodes: double links over a pool, the ends of each list by its number.


@loop
def append(first, last, before, after, number, node):  # type: ignore[no-untyped-def]
    """Put a node at the end of a list."""
    end = last[number]
    before[node], after[node] = end, -1
    if end >= 0:
        after[end] = node
    else:
        first[number] = node
    last[number] = node


@loop
def insert_by_time(first, last, before, after, times, number, node):  # type: ignore[no-untyped-def]
    """Put a node into a list behind the last one that is not later."""
    end = last[number]
    # From the end on: events are mostly in order.
    while end >= 0 and times[end] > times[node]:
        end = before[end]
    following = after[end] if end >= 0 else first[number]
    before[node], after[node] = end, following
    if end >= 0:
        after[end] = node
    else:
        first[number] = node
    if following >= 0:
        before[following] = node
    else:
        last[number] = node


@loop
def all_appended(first, last, before, after, numbers, nodes):  # type: ignore[no-untyped-def]
    """Put many nodes in order at the ends of lists, each of the list with its number."""
    for place in range(len(nodes)):
        append(first, last, before, after, numbers[place], nodes[place])


@loop
def all_inserted_by_time(first, last, before, after, times, numbers, nodes):  # type: ignore[no-untyped-def]
    """Put many nodes in order into lists, each into the list with its number behind the last one that is not later."""
    for place in range(len(nodes)):
        insert_by_time(first, last, before, after, times, numbers[place], nodes[place])


@loop
def order_by_time(first, last, before, after, times, number):  # type: ignore[no-untyped-def]
    """Put the nodes of a list in the order of their times; those of one time stay in theirs."""
    node = first[number]
    first[number] = last[number] = -1
    while node >= 0:
        following = after[node]
        insert_by_time(first, last, before, after, times, number, node)
        node = following


@loop
def unlink(first, last, before, after, number, node):  # type: ignore[no-untyped-def]
    """Take a node out of a list."""
    left, right = before[node], after[node]
    if left >= 0:
        after[left] = right
    else:
        first[number] = right
    if right >= 0:
        before[right] = left
    else:
        last[number] = left


@loop
def allot(free, after):  # type: ignore[no-untyped-def]
    """Return a node that nobody uses."""
    node = free[0]
    if node >= 0:
        free[0] = after[node]
    else:
        node = free[1]
        free[1] = node + 1
    return node


@loop
def give_back(free, after, node):  # type: ignore[no-untyped-def]
    """Let a node be free again."""
    after[node] = free[0]
    free[0] = node


# Lists of cells: each cell has a node, so one node may stand in several lists; one that stands in none is free. Of
# a list without cells the last one means nothing.


@loop
def cell_stays(first, last, number, after, cell):  # type: ignore[no-untyped-def]
    """Put a cell at the end of a list."""
    after[cell] = -1
    if first[number] >= 0:
        after[last[number]] = cell
    else:
        first[number] = cell
    last[number] = cell


@loop
def cells_stay(first, last, numbers, after, begin):  # type: ignore[no-untyped-def]
    """Put many cells, which follow one another from `begin` on, at the ends of lists; see `cell_stays`."""
    for place in range(len(numbers)):
        cell_stays(first, last, numbers[place], after, begin + place)


# Timers: a heap of (due, query, key), three words each, behind how many there are; and for each key of a query a queue
# of times, a ring of nodes of which the last one is known.


@loop
def _is_before(timers, left, right):  # type: ignore[no-untyped-def]
    for word in range(3):
        if timers[3 * left + word] != timers[3 * right + word]:
            return timers[3 * left + word] < timers[3 * right + word]
    return False


@loop
def _exchange(timers, left, right):  # type: ignore[no-untyped-def]
    for word in range(3):
        kept = timers[3 * left + word]
        timers[3 * left + word] = timers[3 * right + word]
        timers[3 * right + word] = kept


@loop
def timer_set(timers, due, query, key):  # type: ignore[no-untyped-def]
    """Put a timer into the heap."""
    place = timers[0] + 1
    timers[0] = place
    # Places begin at 1: word 0 is the number of timers, words 1 and 2 are nothing.
    timers[3 * place], timers[3 * place + 1], timers[3 * place + 2] = due, query, key
    while place > 1 and _is_before(timers, place, place // 2):
        _exchange(timers, place, place // 2)
        place //= 2


@loop
def timers_set(timers, dues, query, keys):  # type: ignore[no-untyped-def]
    """Put many timers of a query into the heap, each of the key with its number."""
    for place in range(len(keys)):
        timer_set(timers, dues[place], query, keys[place])


@loop
def timer_gone(timers):  # type: ignore[no-untyped-def]
    """Take the first timer off the heap."""
    count = timers[0]
    _exchange(timers, 1, count)
    timers[0] = count - 1
    place = 1
    while 2 * place < count:
        child = 2 * place
        if child + 1 < count and _is_before(timers, child + 1, child):
            child += 1
        if not _is_before(timers, child, place):
            break
        _exchange(timers, place, child)
        place = child


@loop
def due_asked(last, following, at, free, timers, query, key, due):  # type: ignore[no-untyped-def]
    """Ask for a wake-up of a key; a timer is set for the first of its queue."""
    node = free[0]
    if node >= 0:
        free[0] = following[node]
    else:
        node = free[1]
        free[1] = node + 1
    at[node], following[node] = due, node
    if last[key] < 0:
        # Only the first of a queue is in the heap: a later wish waits behind it, even where it is due before.
        timer_set(timers, due, query, key)
    else:
        # In the ring the first one stands behind the last one.
        following[node] = following[last[key]]
        following[last[key]] = node
    last[key] = node


@loop
def dues_asked(last, following, at, free, timers, query, keys, dues):  # type: ignore[no-untyped-def]
    """Ask for many wake-ups in order, each of the key with its number."""
    for place in range(len(keys)):
        due_asked(last, following, at, free, timers, query, keys[place], dues[place])


@loop
def due_done(last, following, free, key):  # type: ignore[no-untyped-def]
    """Take the first wake-up of a key off its queue."""
    end = last[key]
    node = following[end]
    if node == end:
        last[key] = -1
    else:
        following[end] = following[node]
    following[node] = free[0]
    free[0] = node


# What is done to all of a state.


@loop
def walk(heads, after, count, order, ends):  # type: ignore[no-untyped-def]
    """Write the nodes of so many lists into `order`, one list after the other, and into `ends` where each ends."""
    place = 0
    for number in range(count):
        node = heads[number]
        while node >= 0:
            order[place] = node
            place += 1
            node = after[node]
        ends[number + 1] = place


@loop
def walk_heaps(tops, following, other, count, order, ends, left):  # type: ignore[no-untyped-def]
    """Write the nodes of so many heaps into `order`, one heap after the other, and into `ends` where each ends."""
    place = 0
    for number in range(count):
        left[0], waiting = tops[number], 1 if tops[number] >= 0 else 0
        while waiting > 0:
            waiting -= 1
            node = left[waiting]
            order[place] = node
            place += 1
            for below in (following[node], other[node]):
                if below >= 0:
                    left[waiting] = below
                    waiting += 1
        ends[number + 1] = place


@loop
def text_hashes(starts, content, numbers, found):  # type: ignore[no-untyped-def]
    """Write into `found` the hash codes of the texts with these numbers."""
    for place in range(len(numbers)):
        found[place] = text_hash(0, starts, content, numbers[place])
