"""Runs the tables that lark makes of the grammar: text to parse tree, several times faster than lark's own loop.

The tables are lark's, and so is the tree: names of rules, what is left out, what is inlined, and the places. A text
that does not fit is none of this module's business; `Machine.run` returns None, and lark says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Machine"]


class _Branch:
    """A node of the parse tree (`spdist.language.build_expressions.Branch`); it is its own ``meta``."""

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


@dataclass(frozen=True, slots=True)
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
    kept : tuple of (int, bool), optional
        The symbols that become children, and whether in place of each its own children do; None for all as they are.
    single : bool
        Whether a single child takes the branch's place.
    """

    size: int
    origin: str
    data: str
    kept: tuple[tuple[int, bool], ...] | None
    single: bool


def _rule(rule: Any) -> _Rule:
    options = rule.options
    kept = tuple(
        (at, not symbol.is_term and symbol.name.startswith("_"))
        for at, symbol in enumerate(rule.expansion)
        if options.keep_all_tokens or not (symbol.is_term and symbol.filter_out)
    )
    plain = len(kept) == len(rule.expansion) and not any(inlined for _, inlined in kept)
    data = rule.alias or options.template_source or rule.origin.name
    single = bool(options.expand1 and not rule.alias)
    return _Rule(len(rule.expansion), rule.origin.name, str(data), None if plain else kept, single)


class Machine:
    """A parser made of lark's tables.

    Parameters
    ----------
    lark : Lark
        Made with ``parser="lalr"``, ``lexer="contextual"``, ``maybe_placeholders=False``, without transformer.

    Raises
    ------
    AttributeError
        This version of lark keeps its tables elsewhere.
    """

    def __init__(self, lark: Any) -> None:
        frontend = lark.parser
        table = frontend.parser._parse_table
        self._starts: dict[str, int] = table.start_states
        self._ends: dict[str, int] = table.end_states
        self._lexers: dict[int, Any] = frontend.lexer.lexers
        self._scanners: dict[int, tuple[Callable[..., Any], frozenset[str]] | None] = {}
        rules: dict[int, _Rule] = {}
        kept: set[str] = set()
        # By state and symbol: the state that follows, or the rule that is complete.
        self._actions: dict[int, dict[str, int | _Rule]] = {}
        self._gotos: dict[int, dict[str, int]] = {}
        for state, actions in table.states.items():
            row = self._actions[state] = {}
            for symbol, (_, argument) in actions.items():
                if isinstance(argument, int):
                    row[symbol] = argument
                    continue
                if id(argument) not in rules:
                    rules[id(argument)] = _rule(argument)
                    keeps = argument.options.keep_all_tokens
                    kept |= {s.name for s in argument.expansion if s.is_term and (keeps or not s.filter_out)}
                row[symbol] = rules[id(argument)]
            self._gotos[state] = {symbol: following for symbol, following in row.items() if isinstance(following, int)}
        self._kept = frozenset(kept)

    def _scanner(self, state: int) -> tuple[Callable[..., Any], frozenset[str]] | None:
        """Return what matches the next token in a state, and the kinds that are skipped; None where lark must do it."""
        lexer = self._lexers[state]
        (pattern, *more), callbacks = lexer.scanner._mres, lexer.callback
        found = None if more or callbacks else (pattern.match, lexer.ignore_types)
        self._scanners[state] = found
        return found

    def run(self, text: str, start: str) -> Any:
        """Return the tree of `text`, or None where it does not fit the grammar."""
        scanners, actions, gotos, kept = self._scanners, self._actions, self._gotos, self._kept
        states = [self._starts[start]]
        values: list[Any] = []
        starts: list[int] = []
        ends: list[int] = []
        position, length = 0, len(text)
        state = states[0]
        while True:
            # The next token, in the kinds that this state takes.
            kind = "$END"
            first = position
            while position < length:
                scanner = scanners[state] if state in scanners else self._scanner(state)
                match = None if scanner is None else scanner[0](text, position)
                if scanner is None or match is None:
                    return None
                first, position = position, match.end()
                if match.lastgroup not in scanner[1]:
                    kind = match.lastgroup
                    break
            # Rules that it completes, then the token itself.
            while True:
                action = actions[state].get(kind)
                if action is None:
                    return None
                if isinstance(action, int):
                    break
                self._reduce(action, values, starts, ends)
                if action.size:
                    del states[-action.size :]
                state = gotos[states[-1]][action.origin]
                states.append(state)
                if kind == "$END" and state == self._ends[start]:
                    return values[-1]
            leaf = None
            if kind in kept:
                leaf = _Leaf(text[first:position])
                leaf.type, leaf.start_pos, leaf.end_pos = kind, first, position
            state = action
            states.append(state)
            values.append(leaf)
            starts.append(first)
            ends.append(position)

    @staticmethod
    def _reduce(rule: _Rule, values: list[Any], starts: list[int], ends: list[int]) -> None:
        """Replace what a rule consists of by its branch; nothing has the place -1."""
        size = rule.size
        children: list[Any] = []
        start = end = -1
        if size:
            parts = values[-size:]
            start, end = starts[-size], ends[-1]
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
