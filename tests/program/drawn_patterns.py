"""Random patterns and sequences over streams that have the attributes of S in `drawn_apps`."""

from __future__ import annotations

import re
from random import Random

from spdist.errors import SiddhiSyntaxError
from spdist.language.parsing.parser import parse

__all__ = ["drawn_pattern", "drawn_states"]


def drawn_pattern(random: Random, streams: tuple[str, ...]) -> str:
    """Return what a query over a pattern or sequence reads and selects, whose partial matches wait in lists.

    It has one to four elements: events, also counted, pairs, absences.
    """
    count = random.choice((1, 2, 2, 2, 3, 3, 3, 4))
    strict = count > 1 and random.random() < 0.3
    elements: list[str] = []
    named: list[int] = []
    several = random.choice((0.0, 0.0, 0.5))
    within = random.choice(("", f" within {random.choice((1, 60, 700, 2000))} milliseconds"))
    for number in range(1, count + 1):
        element = _element(random, streams, named, several)
        if named and not strict and random.random() < 0.35:
            elements.append(f"not {element} for {random.choice((1, 40, 300, 900))} milliseconds")
        elif not strict and random.random() < several / 2:
            other = f"e{number + 10}={_element(random, streams, named, several)}"
            event, absent = f"e{number}={element}", f"not {other.partition('=')[2]}"
            pair = random.choice((f"{event} and {other}", f"{event} or {other}", f"{event} and {absent}"))
            elements.append(random.choice((pair, f"{absent} and {event}")))
            named += [number, *([number + 10] if other in elements[-1] else [])]
        else:
            own = f"e{number}[last].volume is null or volume != e{number}[{random.choice(('0', 'last'))}].volume"
            may = not strict or 1 < number < count
            counted = _count(random, 1 < number < count, strict) if may and random.random() < several else ""
            own = f"[{own}]" if counted and random.random() < 0.3 else ""
            elements.append(f"e{number}={element}{own}{counted}")
            named.append(number)
    count = len(elements)
    first, last = (f"e{number}{_index(random, elements[number % 10 - 1])}" for number in (1, named[-1]))
    repeated = random.choice((0, 1, 1, 1 if several or strict else random.randint(1, count)))
    if within and (re.search(r"<(\d+):(?!\1>)", elements[0]) or " or e11=" in elements[0]):
        repeated = 0  # another match may begin for each that is too old
    if re.search("not .* and |and not ", elements[0]):
        repeated = 0
    mark = ", " if strict else " -> "
    if repeated:
        inside = mark.join(elements[:repeated])
        elements[:repeated] = [f"every {inside}" if repeated == 1 else f"every ({inside})"]
    items = [f"{first}.sym as a0", f"{last}.price as a1", f"{last}.volume + {first}.volume as a2", "count() as n"]
    if random.random() < 0.3:
        items.append(f"{last} is null as absent")
    if random.random() < 0.3:
        items.append(f"{random.choice(('sum', 'avg', 'stdDev'))}({last}.price) as s")
    group = random.choice(("", "", f" group by {first}.sym", f" group by {last}.kind, {first}.total"))
    having = random.choice(("", "", " having a1 > 0.0", f" having n < 5 and {first}.ok"))
    drawn = f"from {mark.join(elements)}{within} select {', '.join(items)}{group}{having}"
    return drawn if _is_grammatical(drawn) else drawn_pattern(random, streams)


def drawn_states(random: Random, streams: tuple[str, ...]) -> str:
    """Return what a query over any pattern or sequence reads and selects: whatever may stand wherever."""
    strict, count = random.random() < 0.4, random.choice((1, 2, 2, 3, 3, 4))
    parts: list[str] = []
    shown: list[str] = []
    named: list[int] = []
    for number in range(1, count + 1):
        part, own = _part(random, streams, named, number, strict)
        parts.append(part)
        shown += own
    begin = random.randint(1, count)
    end = random.choice((begin, begin, random.randint(begin, count)))
    mark = ", " if strict else " -> "
    if strict:
        begin = end = 1
    if random.random() < 0.6:
        inside = mark.join(parts[begin - 1 : end])
        parts[begin - 1 : end] = [f"every {inside}" if strict else f"every ({inside})"]
    within = random.choice(("", f" within {random.choice((60, 700, 2000))} milliseconds"))
    items = [f"{one} as a{number}" for number, one in enumerate(shown)]
    items.append(random.choice(("count() as n", "7 as n", "eventTimestamp() as n")))
    drawn = f"from {mark.join(parts)}{within} select {', '.join(items)}"
    return drawn if _is_grammatical(drawn) else drawn_states(random, streams)


def _is_grammatical(drawn: str) -> bool:
    """Tell whether Siddhi's grammar has a place for it: not for absences in a row."""
    try:
        parse(f"define stream S (v int); {drawn} insert into O;")
    except SiddhiSyntaxError:
        return False
    return True


def _part(
    random: Random, streams: tuple[str, ...], named: list[int], number: int, strict: bool
) -> tuple[str, list[str]]:
    """Return an element, `number` or a pair of which that is one side, and what is shown of it."""
    sides = [_side(random, streams, named, number)]
    if random.random() < 0.3:
        sides.append(_side(random, streams, named, number + 10))
    elif random.random() < 0.35:
        sides = [(f"e{number}={_element(random, streams, named, 0.5)}{_count(random, True, strict)}", [number])]
    named += [one for _, own in sides for one in own]
    if len(sides) == 1 and sides[0][0].startswith("not") and " for " not in sides[0][0]:
        sides = [(f"{sides[0][0]} for {random.choice((40, 300))} milliseconds", [])]
    texts = [part for part, _ in sides]
    timeless = [part for part in texts if part.startswith("not") and " for " not in part]
    if len(timeless) == 2 or (timeless and not any(own for _, own in sides)):
        texts[:] = [f"{part} for 40 milliseconds" if part in timeless else part for part in texts]
        timeless.clear()
    text = random.choice((" and ",) if timeless else (" and ", " or ")).join(texts)
    index = random.choice(("[0]", "[last]", "[last - 1]")) if text.endswith((">", "+", "*", "?")) else ""
    return text, [f"e{one}{index}.{random.choice(('sym', 'volume', 'price'))}" for _, own in sides for one in own]


def _side(random: Random, streams: tuple[str, ...], named: list[int], number: int) -> tuple[str, list[int]]:
    element = _element(random, streams, named, 0.5)
    if random.random() < 0.7:
        return f"e{number}={element}", [number]
    waits = random.choice(("", f" for {random.choice((1, 40, 300, 900))} milliseconds"))
    return f"not {element}{waits}", []


def _element(random: Random, streams: tuple[str, ...], named: list[int], several: float) -> str:
    """Return a stream with conditions; fewer where matches want several events."""
    asked = not several or random.random() < 0.4
    conditions = [one for one in (_own(random), _earlier(random, named)) if one and asked]
    return f"{random.choice(streams)}{''.join(f'[{one}]' for one in conditions)}"


def _count(random: Random, within: bool, strict: bool) -> str:
    """Return how many events match an element: none at all only where it may stand `within` others."""
    if strict and random.random() < 0.5:
        return random.choice("+*?")
    least = random.randint(0 if within else 1, 3)
    return random.choice((f"<{least}:{least + random.randint(0, 2)}>", f"<{max(1, least)}>", f"<{least}:>"))


def _index(random: Random, element: str) -> str:
    """Return what says which event of a counted element is meant."""
    counted = element.endswith((">", "+", "*", "?"))
    return random.choice(("[0]", "[1]", "[last]", "[last - 1]")) if counted else ""


def _own(random: Random) -> str:
    return random.choice(("", "", "ok", "volume > 0", "kind == 'x'", "price > 0.5"))


def _earlier(random: Random, named: list[int]) -> str:
    """Return a condition that looks at an earlier event."""
    if not named or random.random() < 0.4:
        return ""
    earlier = f"e{random.choice(named)}"
    key = random.choice((f"sym == {earlier}.sym", f"{earlier}.total == total", f"ok == {earlier}.ok"))
    bound = f"{random.choice(('price', 'volume'))} {random.choice(('<', '<=', '>', '>='))} {earlier}."
    bound += bound.split()[0]
    other = random.choice((f"price > {earlier}.price * 2", f"{earlier}.kind != kind or {earlier}.kind is null"))
    return random.choice((key, bound, f"{key} and {bound}", f"{key} and {other}", other))
