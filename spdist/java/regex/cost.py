"""How many steps a regular expression may take on a text of so many characters, at worst, when `re` runs it.

`re` tries one way after the other. A repetition, or a choice between branches, that the next character decides has one
way; another one has as many as it may end at places, and repetitions within repetitions multiply them without end. What
comes out is a bound ``factor × length^degree``, never too small, often far too large.

Notes
-----
Source: one-unambiguous regular expressions (Brüggemann-Klein and Wood, 1998) for what one character decides.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from spdist.java.regex.character_sets import CharacterSet
from spdist.java.regex.tree import (
    Assertion,
    Atomic,
    BackReference,
    Branches,
    CaptureGroup,
    Chars,
    Look,
    Node,
    Repeat,
    Sequence,
)

__all__ = ["Growth", "begins_with", "steps_at_a_place", "steps_of_search"]


@dataclass(frozen=True, slots=True)
class Growth:
    """A number that grows with the length of the text, no faster than ``factor × length^degree``."""

    degree: float
    factor: float

    def __add__(self, other: Growth) -> Growth:
        return Growth(max(self.degree, other.degree), self.factor + other.factor)

    def __mul__(self, other: Growth) -> Growth:
        factor = self.factor * other.factor
        return Growth(self.degree + other.degree, factor) if factor < _ENDLESS_FACTOR else _ENDLESS

    def length(self, most: float) -> int:
        """Return the length of text up to which the number is not larger than `most`."""
        if self.factor > most or math.isinf(self.degree):
            return 0
        # A bound without length holds for every text
        return int((most / self.factor) ** (1 / self.degree)) if self.degree else 1 << 62


# Far beyond what a search may spend: a larger factor tells nothing more
_ENDLESS_FACTOR = 1e12
_ENDLESS = Growth(math.inf, 1.0)
_ONE = Growth(0, 1)
_LENGTH = Growth(1, 1)
_QUICK = 4
_START = r"(?:\A)"


@dataclass(frozen=True, slots=True)
class _Cost:
    """In how many `ways` a part may fit at one place, and how many `steps` it takes to try all of them.

    `decided` tells that each next character decides what to do: then the steps are no more than the characters read,
    times a factor.
    """

    ways: Growth
    steps: Growth
    decided: bool = False


def steps_at_a_place(tree: Node) -> Growth:
    """Return the steps that `re` takes at worst to try `tree` at one place of a text."""
    cost = _Analysis().cost(tree, 0)
    # Where each character decides, nearly all steps are those of its loops over characters, which are quick.
    return Growth(cost.steps.degree, cost.steps.factor / _QUICK) if cost.decided else cost.steps


def steps_of_search(tree: Node) -> Growth:
    """Return the steps that `re` takes at worst to try `tree` at all places of a text."""
    once = steps_at_a_place(tree)
    # `re` tries such an expression at each place too, but fails there in one step
    return once + _LENGTH if begins_with(tree) == _START else once * _LENGTH


def begins_with(tree: Node) -> str:
    """Return what every match begins with, as `re` writes it: the start of the text, a character, or nothing."""
    first = tree
    while isinstance(first, Sequence | CaptureGroup):
        if isinstance(first, CaptureGroup):
            first = first.body
        elif not first.parts:
            return ""
        else:
            first = first.parts[0]
    if isinstance(first, Assertion):
        return _START if first.source == _START else ""
    bits, empty = _Analysis().first(tree)
    if empty or bits == _ALL:
        return ""
    members = [(code, code) for code in range(256) if bits >> code & 1]
    others = [(256, sys.maxunicode)] if bits & _OTHERS else []
    return CharacterSet.of(*members, *others).source


#: Sets of characters that can come first, as bits: one for each of Latin-1, one for all others.
_OTHERS = 1 << 256
_ALL = (_OTHERS << 1) - 1


def _bits(members: CharacterSet) -> int:
    found = 0
    for low, high in members.ranges:
        if low < 256:
            end = min(high, 255)
            found |= (1 << (end + 1)) - (1 << low)
        if high >= 256:
            found |= _OTHERS
    return found


class _Analysis:
    """One walk over a tree; `follow` is what may come behind a part, 0 at the end of the expression."""

    def __init__(self) -> None:
        self._firsts: dict[int, tuple[int, bool]] = {}

    def first(self, node: Node) -> tuple[int, bool]:
        """Return what a part may begin with, and whether it may be empty."""
        # By identity: hashing a node walks all that is below it
        known = self._firsts.get(id(node))
        if known is None:
            known = self._firsts[id(node)] = self._first(node)
        return known

    def _first(self, node: Node) -> tuple[int, bool]:
        match node:
            case Chars(members=members):
                return _bits(members), False
            case Assertion():
                return 0, True
            case Look() | BackReference():
                return _ALL, True  # each takes steps of its own before the next character decides
            case CaptureGroup(body=body) | Atomic(body=body):
                return self.first(body)
            case Repeat(body=body, low=low):
                begin, empty = self.first(body)
                return begin, empty or low == 0
            case Branches(options=options):
                firsts = [self.first(option) for option in options]
                begin = 0
                for bits, _ in firsts:
                    begin |= bits
                return begin, any(empty for _, empty in firsts)
            case Sequence(parts=parts):
                begin = 0
                for part in parts:
                    bits, empty = self.first(part)
                    begin |= bits
                    if not empty:
                        return begin, False
                return begin, True

    def cost(self, node: Node, follow: int) -> _Cost:
        match node:
            case Chars() | Assertion():
                return _Cost(_ONE, _ONE, decided=True)
            case BackReference():
                return _Cost(_ONE, _LENGTH)
            case CaptureGroup(body=body):
                return self.cost(body, follow)
            case Atomic(body=body) | Look(body=body):
                # What follows cannot send it back, so within it nothing follows
                return _Cost(_ONE, self.cost(body, 0).steps)
            case Repeat():
                return self._repeat(node, follow)
            case Branches(options=options):
                return self._branches(options, follow)
            case Sequence(parts=parts):
                return self._sequence(parts, follow)

    def _sequence(self, parts: tuple[Node, ...], follow: int) -> _Cost:
        follows = [follow]
        for part in reversed(parts[1:]):
            # What may be empty lets the part behind it come first
            begin, empty = self.first(part)
            follows.append(begin | follows[-1] if empty else begin)
        ways, steps, decided = _ONE, _ONE, True
        # Not strict: an empty sequence has one `follow`, and no part
        for part, behind in zip(parts, reversed(follows), strict=False):
            cost = self.cost(part, behind)
            steps += ways * cost.steps
            ways *= cost.ways
            decided = decided and cost.decided
        return _Cost(ways, steps, decided)

    def _branches(self, options: tuple[Node, ...], follow: int) -> _Cost:
        costs = [self.cost(option, follow) for option in options]
        ways, steps, seen, decided = Growth(0, 0), _ONE, 0, True
        for option, cost in zip(options, costs, strict=True):
            begin, empty = self.first(option)
            begin |= follow if empty else 0
            # Branches that may begin alike leave it open which one is right
            decided = decided and not seen & begin and not (empty and not follow)
            seen |= begin
            ways += cost.ways
            steps += cost.steps
        if decided and all(cost.ways == _ONE for cost in costs):
            ways = _ONE
        return _Cost(ways, steps, decided and all(cost.decided for cost in costs))

    def _repeat(self, node: Repeat, follow: int) -> _Cost:
        begin, empty = self.first(node.body)
        # Another pass may follow as well
        body = self.cost(node.body, follow | begin)
        # What may fit without a character fits again without end
        if empty and (node.high is None or node.high > 1):
            return _Cost(_ENDLESS, _ENDLESS)
        if body.ways != _ONE:
            many = self._many(node, body)
            return _Cost(_ONE, many.steps) if node.mode == "+" else many
        decided = node.mode == "+" or (not begin & follow and not empty)
        often = _LENGTH if node.high is None else Growth(0, max(1, node.high))
        if body.decided and node.high is None:
            # All passes together read each character once
            steps = Growth(1, node.low + 1 + body.steps.factor)
        else:
            steps = (often + Growth(0, node.low)) * body.steps
        choices = often if node.high is None else Growth(0, node.high - node.low + 1)
        return _Cost(_ONE if decided else choices, steps, decided and body.decided)

    @staticmethod
    def _many(node: Repeat, body: _Cost) -> _Cost:
        """Return the cost of repeating what fits in several ways: they multiply."""
        if node.high is None or node.high > 50:
            return _Cost(_ENDLESS, _ENDLESS)
        ways = _ONE
        for _ in range(node.high):
            ways = ways * body.ways + _ONE
        return _Cost(ways, ways * body.steps * Growth(0, max(1, node.high)))
