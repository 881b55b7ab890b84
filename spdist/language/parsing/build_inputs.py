"""Parse trees to what stands behind ``from``: single streams, joins, patterns and sequences."""

from __future__ import annotations

import re
from typing import Any, Literal

from spdist.language import ast
from spdist.language.parsing.build_expressions import Branch, ExpressionBuilder

__all__ = ["InputBuilder", "source_names"]

_QUANTIFIERS: dict[str, tuple[int, int | None]] = {"PLUS": (1, None), "STAR": (0, None), "QUESTION": (0, 1)}
_NESTING = {"single_input", "join", "pattern", "sequence", "group", "every", "logical"}
#: Where ``not … for`` (N) may stand among other elements (P): the first one in front of an event, or the last one
#: behind one; a sequence does not both begin and end with one.
_AROUND = "N|P*NP[NP]*|[NP]*PNP*"
_ABSENCES = {"pattern": re.compile(f"P+|{_AROUND}"), "sequence": re.compile(f"P+|(?:{_AROUND})P+|P(?:{_AROUND})")}
_ONE_WINDOW = "A stream takes one window; put the second one into a query of its own."


class InputBuilder(ExpressionBuilder):
    """Adds inputs to expressions."""

    # --- one stream --------------------------------------------------------------------------------------------------

    def _source(self, branch: Branch) -> ast.SingleInput:
        before: list[ast.Handler] = []
        after: list[ast.Handler] = []
        window: ast.FunctionCall | None = None
        stream, *handlers = branch.children
        for handler in handlers:
            built = self.build(handler)
            if handler.data != "window":
                (before if window is None else after).append(built)
            elif window is None:
                window = built
            else:
                self.fail(handler, "A second window on the same stream", _ONE_WINDOW)
        return ast.SingleInput(self.build(stream), tuple(before), window, tuple(after), span=self.span(branch))

    def _filter(self, branch: Branch) -> ast.Filter:
        return ast.Filter(self.all(branch)[0], span=self.span(branch))

    def _stream_function(self, branch: Branch) -> ast.StreamFunction:
        return ast.StreamFunction(self.all(branch)[0], span=self.span(branch))

    def _window(self, branch: Branch) -> ast.FunctionCall:
        call: ast.FunctionCall = self.all(branch)[0]
        return call

    # --- joins -------------------------------------------------------------------------------------------------------

    def _join(self, branch: Branch) -> ast.JoinInput:
        left, kind, right, *rest = branch.children
        parts = {child.data: self.build(child) for child in rest}
        sides = self.build(left), self.build(right)
        if sides[0].unidirectional and sides[1].unidirectional:
            self.fail(right, "'unidirectional' on both sides", "Only one of the two streams can be the one that asks.")
        return ast.JoinInput(
            sides[0],
            self.build(kind),
            sides[1],
            parts.get("on"),
            parts.get("within_range", ()),
            parts.get("per"),
            span=self.span(branch),
        )

    def _join_kind(self, branch: Branch) -> str:
        words = " ".join(str(leaf).lower() for leaf in branch.children)
        if words == "outer":
            self.fail(branch, "'outer join' does not say which side is kept", "Write left, right or full outer join.")
        return words or "inner"

    def _join_side(self, branch: Branch) -> ast.JoinSide:
        source = self.build(branch.children[0])
        if source.after:
            self.fail(branch, "A stream of a join takes nothing behind its window", "Filter before the window.")
        names = self.tokens(branch, "NAME")
        alias = self.name(names[0]) if names else None
        return ast.JoinSide(source, alias, bool(self.tokens(branch, "UNIDIRECTIONAL")), span=self.span(branch))

    def _on(self, branch: Branch) -> ast.Expression:
        expression: ast.Expression = self.build(branch.children[0])
        return expression

    _per = _on

    def _within_range(self, branch: Branch) -> tuple[ast.Expression, ...]:
        return self.all(branch)

    # --- patterns and sequences --------------------------------------------------------------------------------------

    def _single_input(self, branch: Branch) -> ast.SingleInput | ast.PatternInput:
        top, *within = branch.children
        element: ast.StateElement = self.build(top)
        # One rule of the grammar reads streams and patterns, which begin alike
        if isinstance(element, ast.StreamState) and element.alias is None and not within:
            return element.input
        self._refuse_windows(top, element)
        limit = self.build(within[0]) if within else None
        kind = self._kind(top)
        self._refuse_order(top, kind)
        return ast.PatternInput(kind, element, limit, span=self.span(branch))

    def _kind(self, top: Branch) -> Literal["pattern", "sequence"]:
        kinds = {tree.data for tree in _chains(top)} & {"pattern", "sequence"}
        if len(kinds) == 2:
            self.fail(top, "A pattern is joined by '->' throughout, a sequence by ','; the two do not mix")
        if "sequence" in kinds:
            return "sequence"
        for count in _quantified(top):
            self.fail(count, "A pattern counts with <min:max>", "+, * and ? belong to sequences (a, b+, c).")
        return "pattern"

    def _refuse_order(self, top: Branch, kind: Literal["pattern", "sequence"]) -> None:
        """Refuse what Siddhi's grammar has no place for: absences in a row, and brackets in front of a sequence."""
        items = [_repeated(item) for item in (top.children if top.data == kind else [top])]
        first = items[0]
        if kind == "sequence" and first.data == "group" and not any(map(_waits, items)) and not _is_absence(first):
            self.fail(first, "A sequence does not begin with a bracket", "a=A and b=B, c=C")
        if any(_waits(item) for item in items if item.data != "absent"):
            return
        order = "".join("N" if item.data == "absent" else "P" for item in items)
        if not _ABSENCES[kind].fullmatch(order):
            self.fail(top, "Absences stand in a row here", "Put an event between them, or join them by 'and'.")

    def _refuse_windows(self, place: Branch, element: ast.StateElement) -> None:
        for node in element.walk():
            if isinstance(node, ast.SingleInput) and node.window is not None:
                self.fail(place, "A stream of a pattern or sequence takes no window", "Use 'within' to bound its time.")

    def _pattern(self, branch: Branch) -> ast.ChainState:
        return ast.ChainState(self.all(branch), span=self.span(branch))

    def _sequence(self, branch: Branch) -> ast.ChainState:
        for tree in (tree for child in branch.children[1:] for tree in _chains(child)):
            if tree.data == "every":
                self.fail(tree, "In a sequence 'every' stands only at its beginning", "from every a=A, b=B")
        return ast.ChainState(self.all(branch), span=self.span(branch))

    def _group(self, branch: Branch) -> ast.StateElement:
        element: ast.StateElement = self.build(branch.children[0])
        return element

    def _every(self, branch: Branch) -> ast.EveryState:
        below = _chains(branch.children[0])
        if any(tree.data == "every" for tree in below):
            self.fail(branch, "'every' inside of another 'every'", "One of the two is enough.")
        if any(tree.data == "sequence" for tree in below):
            self.fail(branch, "'every' of a sequence takes one element", "from every a=A, b=B")
        return ast.EveryState(self.build(branch.children[0]), span=self.span(branch))

    def _logical(self, branch: Branch) -> ast.LogicalState:
        left, operator, right = branch.children
        sides = [self._logical_side(side) for side in (left, right)]
        operation: Any = str(operator).lower()
        return ast.LogicalState(sides[0], operation, sides[1], span=self.span(branch))

    def _logical_side(self, branch: Branch) -> ast.StreamState | ast.AbsentState:
        element = self._absent(branch, in_logical=True) if branch.data == "absent" else self.build(branch)
        if isinstance(element, ast.CountState):
            self.fail(branch, "'and' and 'or' take no counted element", "Put it before or behind them with '->'.")
        side: ast.StreamState | ast.AbsentState = element
        return side

    def _absent(self, branch: Branch, *, in_logical: bool = False) -> ast.AbsentState:
        source, *times = self.all(branch)
        if not times and not in_logical:
            self.fail(branch, "'not' needs 'for <time>' here", "not A for 5 sec; or: not A and e=B")
        return ast.AbsentState(source, *times, span=self.span(branch))

    def _state(self, branch: Branch) -> ast.StreamState | ast.CountState:
        names = self.tokens(branch, "NAME")
        source, *counts = self.all(branch)
        state = ast.StreamState(source, self.name(names[0]) if names else None, span=self.span(branch))
        return ast.CountState(state, *counts[0], span=self.span(branch)) if counts else state

    def _count(self, branch: Branch) -> tuple[int, int | None]:
        kinds = [leaf.type for leaf in branch.children]
        if kinds[0] in _QUANTIFIERS:
            return _QUANTIFIERS[kinds[0]]
        numbers = [self.integer(leaf) for leaf in self.tokens(branch, "INT")]
        if not numbers:
            self.fail(branch, "A count needs at least one number", "<2:5>, <2:>, <:5> or <3>")
        if "COLON" not in kinds:
            return numbers[0], numbers[0]
        if len(numbers) == 2:
            return numbers[0], numbers[1]
        # In front of the colon a number is the least, behind it the most
        return (numbers[0], None) if kinds[1] == "INT" else (0, numbers[0])

    def _within(self, branch: Branch) -> ast.TimeLiteral:
        time: ast.TimeLiteral = self.build(branch.children[0])
        return time


def _chains(branch: Branch) -> list[Branch]:
    """Return `branch` and the parts of patterns below it, not going into streams and their filters."""
    found = [branch]
    if branch.data in _NESTING:
        for child in branch.children:
            found += _chains(child) if hasattr(child, "children") else []
    return found


def _repeated(branch: Branch) -> Branch:
    """Return what `branch` repeats, where it is an ``every``; else itself."""
    child: Branch = branch.children[0] if branch.data == "every" else branch
    return child


def _waits(branch: Branch) -> bool:
    """Tell whether `branch` is ``not … for`` as an element of its own, or brackets one."""
    if branch.data in ("every", "group", "pattern", "sequence"):
        return any(map(_waits, branch.children))
    return bool(branch.data == "absent")


def _is_absence(group: Branch) -> bool:
    """Tell whether `group` brackets a pair with a ``not``, whose brackets are its own; those of others make a chain."""
    inside: Branch = group.children[0]
    if inside.data == "group":
        return _is_absence(inside)
    return inside.data == "logical" and any(getattr(side, "data", "") == "absent" for side in inside.children)


def _quantified(branch: Branch) -> list[Branch]:
    below = [child for tree in _chains(branch) if tree.data == "state" for child in tree.children]
    return [part for part in below if getattr(part, "data", "") == "count" and part.children[0].type in _QUANTIFIERS]


def source_names(query_input: Branch) -> frozenset[str]:
    """Return the names by which expressions refer to the sources of an input: aliases, else names of streams."""
    names = set()
    for tree in _chains(query_input):
        if tree.data in ("state", "join_side"):
            aliases = [part for part in tree.children if getattr(part, "type", "") == "NAME"]
            source = next(part for part in tree.children if getattr(part, "data", "") == "source")
            names.add(str((aliases or source.children[0].children)[-1]).strip("`"))
    return frozenset(names)
