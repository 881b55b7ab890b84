"""Text to parse tree, by the tables that stand in ``tables.json``; lark is not needed for that.

The tables are lark's (`spdist.language.parsing.tables` writes them down), and so is the tree: names of rules, what is
left out, what is inlined, and the places; and for a text that does not fit, where it stops and what could have stood
there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Machine", "Stop"]


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a text does not fit the grammar.

    Parameters
    ----------
    position : int
        Of the first word or sign that does not fit.
    ended : bool
        Whether it is the end of the text.
    expected : frozenset of str
        The terminals that could stand there; ``$END`` is the end.
    """

    position: int
    ended: bool
    expected: frozenset[str]


class _Branch:
    """A node of the parse tree (`spdist.language.parsing.build_expressions.Branch`); it is its own ``meta``."""

    __slots__ = ("children", "data", "empty", "end_pos", "start_pos")

    def __init__(self, data: str, children: list[Any], start: int, end: int) -> None:
        self.data = data
        self.children = children
        self.start_pos = start
        self.end_pos = end
        self.empty = start < 0

    @property
    def meta(self) -> _Branch:
        """Its place."""
        return self


class _Leaf(str):
    """A token that the tree keeps."""

    __slots__ = ("end_pos", "start_pos", "type")

    type: str
    start_pos: int
    end_pos: int


class _Rule:
    """What is done where a rule is complete.

    Parameters
    ----------
    size : int
        Of how many symbols it consists.
    origin : str
        What it makes of them.
    data : str
        The name of its branch.
    single : bool
        Whether a single child takes the branch's place.
    kept : list of (int, bool), or None
        The symbols that become children, and whether in place of each its own children do; None for all as they are.
    """

    __slots__ = ("data", "kept", "origin", "passes", "single", "size")

    def __init__(self, size: int, origin: str, data: str, single: bool, kept: list[tuple[int, bool]] | None) -> None:
        self.size = size
        self.origin = origin
        self.data = data
        self.single = single
        self.kept = kept
        #: What it consists of only gets another name: most steps of an expression, which may bind ever more strongly.
        self.passes = size == 1 and single and kept is None


class Machine:
    """A parser made of tables.

    Parameters
    ----------
    tables : mapping
        See `spdist.language.parsing.tables.tables_of`.

    State
    -----
    The patterns that were needed so far, compiled; no more than the tables have.
    """

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self._starts: dict[str, int] = tables["starts"]
        self._ends: dict[str, int] = tables["ends"]
        self._words: dict[str, str] = tables["words"]
        self._terminals = frozenset(tables["terminals"])
        self._kept = frozenset(tables["kept"])
        self._rules = [_Rule(*rule) for rule in tables["rules"]]
        # By state and symbol: the state that follows, or ~n where rule n is complete.
        self._actions: list[dict[str, int]] = tables["actions"]
        self._patterns: list[str] = tables["patterns"]
        self._scanners: list[int] = tables["scanners"]
        self._compiled: list[Any] = [None] * len(self._patterns)
        self._ignored: str = tables["ignored"]

    def _compile(self, number: int) -> Any:
        match = self._compiled[number] = re.compile(self._patterns[number]).match
        return match

    def run(self, text: str, start: str) -> Any:
        """Return the tree of `text`, or a `Stop` where it does not fit the grammar."""
        # Local names, which cost less than attributes in a loop over all tokens
        compiled, scanners, words, kept = self._compiled, self._scanners, self._words, self._kept
        actions, rules, reduce = self._actions, self._rules, self._reduce
        state, end = self._starts[start], self._ends[start]
        states = [state]
        values: list[Any] = []
        starts: list[int] = []
        ends: list[int] = []
        position = 0
        while True:
            # The next token, in the kinds that this state takes.
            number = scanners[state]
            match = (compiled[number] or self._compile(number))(text, position)
            if match is None:
                skipped = re.compile(self._ignored).match(text, position)
                return Stop(skipped.end() if skipped else position, False, self._expected(states, end))
            kind, row = match.lastgroup, actions[state]
            first, position = match.span(kind)
            if kind == "WORD":
                kind = words.get(match[kind].lower())
                # A keyword that does not fit here is a name
                if kind not in row:
                    kind = "NAME"
            elif kind == "END":
                kind = "$END"
            # Rules that it completes, then the token itself.
            while (action := row.get(kind)) is not None and action < 0:
                rule = rules[~action]
                if rule.passes:
                    states.pop()
                else:
                    reduce(rule, values, starts, ends)
                    if rule.size:
                        del states[-rule.size :]
                state = actions[states[-1]][rule.origin]
                states.append(state)
                if state == end and kind == "$END":
                    return values[-1]
                row = actions[state]
            if action is None:
                return Stop(first, kind == "$END", self._expected(states, end))
            # A token that the tree leaves out still has its place: rules count their symbols
            leaf = None
            if kind in kept:
                leaf = _Leaf(text[first:position])
                leaf.type, leaf.start_pos, leaf.end_pos = kind, first, position
            state = action
            states.append(state)
            values.append(leaf)
            starts.append(first)
            ends.append(position)

    def _expected(self, states: list[int], end: int) -> frozenset[str]:
        """Return what could come next; some terminals of the state's row complete rules, and then fit no more."""
        return frozenset(
            kind for kind in self._actions[states[-1]] if kind in self._terminals and self._fits(states, kind, end)
        )

    def _fits(self, states: list[int], kind: str, end: int) -> bool:
        # A copy: this only tries what would follow
        states = list(states)
        while (action := self._actions[states[-1]].get(kind)) is not None and action < 0:
            rule = self._rules[~action]
            if rule.size:
                del states[-rule.size :]
            states.append(self._actions[states[-1]][rule.origin])
            if states[-1] == end and kind == "$END":
                return True
        return action is not None

    @staticmethod
    def _reduce(rule: _Rule, values: list[Any], starts: list[int], ends: list[int]) -> None:
        """Replace what a rule consists of by its branch; nothing has the place -1."""
        size = rule.size
        children: list[Any] = []
        start = end = -1
        if size:
            parts = values[-size:]
            start, end = starts[-size], ends[-1]
            # Empty parts have no place: that of the branch comes from the first and last that has one
            if start < 0:
                start = next((at for at in starts[-size:] if at >= 0), -1)
            if end < 0:
                end = next((at for at in reversed(ends[-size:]) if at >= 0), -1)
            if rule.kept is None:
                children = parts
            else:
                for at, inlined in rule.kept:
                    if inlined:
                        children += parts[at].children
                    else:
                        children.append(parts[at])
            del values[-size:], starts[-size:], ends[-size:]
        if rule.single and len(children) == 1:
            child = children[0]
            if child.__class__ is _Leaf:
                start, end = child.start_pos, child.end_pos
            values.append(child)
        else:
            values.append(_Branch(rule.data, children, start, end))
        starts.append(start)
        ends.append(end)
