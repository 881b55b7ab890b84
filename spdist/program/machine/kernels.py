"""What the text of programs calls: hash tables and ordered lists over flat arrays.

Everything here is compiled together with a program; this module is only imported where there is numba. No function
raises, none allocates: whoever calls has made room before.

Notes
-----
A table of keys is five arrays. ``slots`` has the number of a key, or -1, at the place that its hash says or behind it
(linear probing; its length is a power of two, at least twice the number of keys). ``keys`` has `width` words of each
number, one after the other. ``meta`` is: the lowest number that was never given, the first free number (-1: none), how
many keys there are, the seed of the hash, and how many slots there are less one: the array may be longer. ``after``
links the free numbers. ``word`` is what is looked for.
"""

from __future__ import annotations

import numpy

from spdist.program.machine.arithmetic import key_bits, loop
from spdist.program.machine.text_kernels import SLACK, bounds_gathered, number_texts, refill_texts, texts_gathered

__all__ = [
    "SLACK",
    "allot",
    "append",
    "bounds_gathered",
    "candidate_enters",
    "candidate_leaves",
    "candidates_go",
    "cell_stays",
    "due_asked",
    "due_done",
    "find",
    "find_all",
    "forget_from",
    "forgotten",
    "give_back",
    "hashed",
    "insert_by_time",
    "known",
    "number_texts",
    "order_by_time",
    "real_leaves",
    "refill",
    "refill_texts",
    "release",
    "slot_1",
    "slot_2",
    "slot_3",
    "texts_gathered",
    "timer_gone",
    "timer_set",
    "unlink",
    "walk",
]

# Ordered lists of candidates, of each group one: double links over a pool of nodes.


@loop
def candidate_enters(ends, before, after, values, free, group, value, least):  # type: ignore[no-untyped-def]
    """Let a value enter: those that can never be best again, since it is better, go."""
    node = ends[2 * group + 1]
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
def hashed(word, start, width, seed):  # type: ignore[no-untyped-def]
    """Return the hash of `width` words."""
    mixed = numpy.uint64(seed)
    for place in range(start, start + width):
        mixed = (mixed ^ numpy.uint64(word[place])) * numpy.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> numpy.uint64(29)
    return mixed


@loop
def _place(slots, keys, meta, word, width):  # type: ignore[no-untyped-def]
    """Return the slot of a key, or the free one that it would get."""
    mask = meta[4]
    slot = numpy.int64(hashed(word, 0, width, meta[3]) & numpy.uint64(mask))
    while slots[slot] >= 0:
        number = slots[slot]
        same = True
        for place in range(width):
            if keys[number * width + place] != word[place]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & mask
    return slot


@loop
def known(slots, keys, meta, word, width):  # type: ignore[no-untyped-def]
    """Return the number of a key, -1 where it has none."""
    return slots[_place(slots, keys, meta, word, width)]


@loop
def find(slots, keys, meta, after, word, width):  # type: ignore[no-untyped-def]
    """Return the number of a key; a new key gets one."""
    slot = _place(slots, keys, meta, word, width)
    number = slots[slot]
    if number >= 0:
        return number
    number = meta[1]
    if number >= 0:
        meta[1] = after[number]
    else:
        number = meta[0]
        meta[0] += 1
    meta[2] += 1
    for place in range(width):
        keys[number * width + place] = word[place]
    slots[slot] = number
    return number


# Where the text looks for a key itself: words are values there. Arrays that are given to a function cost some ns each.


@loop
def _mixed(mixed, value):  # type: ignore[no-untyped-def]
    """Return the hash with one word more; see `hashed`."""
    mixed = (mixed ^ numpy.uint64(value)) * numpy.uint64(0x9E3779B97F4A7C15)
    return mixed ^ (mixed >> numpy.uint64(29))


@loop
def slot_1(seed, mask, first):  # type: ignore[no-untyped-def]
    """Return the slot where a key of one word is, or behind which."""
    return numpy.int64(_mixed(numpy.uint64(seed), first) & numpy.uint64(mask))


@loop
def slot_2(seed, mask, first, second):  # type: ignore[no-untyped-def]
    """Return the slot where a key of two words is, or behind which."""
    return numpy.int64(_mixed(_mixed(numpy.uint64(seed), first), second) & numpy.uint64(mask))


@loop
def slot_3(seed, mask, first, second, third):  # type: ignore[no-untyped-def]
    """Return the slot where a key of three words is, or behind which."""
    return numpy.int64(_mixed(_mixed(_mixed(numpy.uint64(seed), first), second), third) & numpy.uint64(mask))


@loop
def forgotten(slots, keys, meta, number, width):  # type: ignore[no-untyped-def]
    """Forget a key; its number is not given out again."""
    mask = meta[4]
    hole = numpy.int64(hashed(keys, number * width, width, meta[3]) & numpy.uint64(mask))
    while slots[hole] != number:
        hole = (hole + 1) & mask
    # Those behind it move up where their hash allows it, so that probing never meets a hole before them.
    slot = (hole + 1) & mask
    while slots[slot] >= 0:
        home = numpy.int64(hashed(keys, slots[slot] * width, width, meta[3]) & numpy.uint64(mask))
        if ((slot - home) & mask) >= ((slot - hole) & mask):
            slots[hole] = slots[slot]
            hole = slot
        slot = (slot + 1) & mask
    slots[hole] = -1
    meta[2] -= 1


@loop
def release(slots, keys, meta, after, number, width):  # type: ignore[no-untyped-def]
    """Forget a key; its number is free again."""
    forgotten(slots, keys, meta, number, width)
    after[number] = meta[1]
    meta[1] = number


@loop
def forget_from(slots, keys, meta, width, first):  # type: ignore[no-untyped-def]
    """Forget all keys of a table, whose numbers are those from `first` on; new ones get the numbers behind them."""
    mask = meta[4]
    for number in range(first, meta[0]):
        slot = numpy.int64(hashed(keys, number * width, width, meta[3]) & numpy.uint64(mask))
        while slots[slot] != number:
            slot = (slot + 1) & mask
        slots[slot] = -1
    meta[2] = 0


@loop
def refill(slots, fresh, keys, width, seed):  # type: ignore[no-untyped-def]
    """Put all keys of a table into a larger one."""
    mask = len(fresh) - 1
    for place in range(len(slots)):
        number = slots[place]
        if number >= 0:
            slot = numpy.int64(hashed(keys, number * width, width, seed) & numpy.uint64(mask))
            while fresh[slot] >= 0:
                slot = (slot + 1) & mask
            fresh[slot] = number


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
    timers[3 * place], timers[3 * place + 1], timers[3 * place + 2] = due, query, key
    while place > 1 and _is_before(timers, place, place // 2):
        _exchange(timers, place, place // 2)
        place //= 2


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
        timer_set(timers, due, query, key)
    else:
        following[node] = following[last[key]]
        following[last[key]] = node
    last[key] = node


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
def find_all(slots, keys, meta, after, words, width, word, found):  # type: ignore[no-untyped-def]
    """Write the number of each key into `found`; new keys get one."""
    mask = meta[4]
    for row in range(len(found)):
        first = row * width
        # As `_place`: a function that is given arrays costs more than this.
        mixed = numpy.uint64(meta[3])
        for place in range(first, first + width):
            mixed = (mixed ^ numpy.uint64(words[place])) * numpy.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> numpy.uint64(29)
        slot = numpy.int64(mixed & numpy.uint64(mask))
        number = slots[slot]
        while number >= 0:
            same = True
            for place in range(width):
                if keys[number * width + place] != words[first + place]:
                    same = False
                    break
            if same:
                break
            slot = (slot + 1) & mask
            number = slots[slot]
        if number < 0:
            for place in range(width):
                word[place] = words[first + place]
            number = find(slots, keys, meta, after, word, width)
        found[row] = number


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
