"""What a partial match of a pattern has in a program: a node of a pool, and the values by which it is found."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.language import ast
from spdist.program.expressions import NUMBER, REAL, Value, dtype_of
from spdist.program.parts import QueryText, Whole, indent
from spdist.program.patterns.shape import Matched
from spdist.program.timer_text import TimerWriter

__all__ = ["PatternNodes", "when"]

#: The bound of nobody: what is easier is one, and what is not leads to nothing but a look at nobody.
_HARDEST = {NUMBER: str(2**62), REAL: "1e308"}


class PatternNodes:
    """Writes what the partial match of node ``d`` has.

    Parameters
    ----------
    whole : Whole
        The text.
    query : QueryText
        The pattern's query.
    at : str
        Source of the number of the partition's key.
    opened : str
        Source of whether the first element waits for an event.
    """

    def __init__(self, whole: Whole, query: QueryText, at: str, opened: str) -> None:
        assert isinstance(query.read, Matched)
        self._whole = whole
        self._query = query
        self._pattern = query.read
        self._prefix = query.name
        self._at = at
        self._opened = opened
        self.nodes = f"nodes {query.name}"
        whole.arrays.declare(f"{query.name}_next", NUMBER, self.nodes, "-1")
        for name in ("ts", "first"):
            whole.arrays.declare(f"{query.name}_{name}", NUMBER, self.nodes)
        whole.arrays.free_list(f"{query.name}_free")
        if query.read.shares:
            for name in ("refs", "bits", "expired"):
                whole.arrays.declare(f"{query.name}_{name}", NUMBER, self.nodes)
        #: What asks for the wake-ups of each absence, by its element.
        self.timers = {
            n: TimerWriter(whole.arrays, query, at, operator) for operator, n in enumerate(query.read.absences)
        }

    def counted(self, n: int) -> str:
        """Return source of how many events of a counted element a partial match has."""
        return f"{self._whole.arrays.declare(f'{self._prefix}_count{n}', NUMBER, self.nodes)}[d]"

    def too_old(self, now: str) -> str:
        """Return the condition under which a partial match is too old."""
        within = self._pattern.within
        # To either side, as in Siddhi: an event may be older than the first one of a match.
        tests = {n: f"not -{within} <= {self.first(n)} - {now} <= {within}" for n in self._pattern.starts}
        if not self._pattern.shares:
            return tests[0]
        slots = ((1 << self._pattern.steps[n].slot, test) for n, test in tests.items())
        return f"({' or '.join(f'({self._prefix}_bits[d] & {bit} != 0 and {test})' for bit, test in slots)})"

    def first(self, n: int) -> str:
        """Return source of the timestamp of the first event of an element that matches begin with."""
        name = f"{self._prefix}_first{n or ''}"
        return f"{self._whole.arrays.declare(name, NUMBER, self.nodes)}[d]"

    def missing(self, n: int, index: ast.EventIndex | None, own: bool) -> str:
        """Return source of whether a partial match has no event of an element; `own`: whose condition asks."""
        if own and index is None:
            return "False"
        if self._pattern.steps[n].counted and index is not None:
            return f"{self.counted(n)} {'<' if own and not index.from_last else '<='} {index.position}"
        if index is not None and index.position:
            return "True"
        return f"{self._prefix}_bits[d] & {1 << self._pattern.steps[n].slot} == 0" if self._pattern.shares else "False"

    # Keys and bounds.

    @property
    def _words(self) -> int:
        return 1 if self._query.keyed is None else 2

    def word(self, value: Value) -> list[str]:
        """Return what writes the key of a value, within that of the partition."""
        width = self._words
        self._whole.arrays.declare(f"word{width}", NUMBER, str(width))
        words = [self._at, value.text] if width > 1 else [value.text]
        return [f"word{width}[{place}] = {word}" for place, word in enumerate(words)]

    def index(self, n: int, new: bool = False) -> str:
        """Return what `known` is given of the table of an element's keys, or `find` for one that may be new."""
        table = self._table(n)
        return f"{table if new else table.rpartition(', ')[0]}, word{self._words}, {self._words}"

    def released(self, n: int, number: str) -> str:
        """Return what forgets a key that nobody has."""
        return f"release({self._table(n)}, {number}, {self._words})"

    def _table(self, n: int) -> str:
        return self._whole.arrays.table(f"{self._prefix}_x{n}", self._words, self.nodes)

    def _edge_type(self, n: int) -> str:
        bound = self._pattern.steps[n].bound
        assert bound is not None
        return dtype_of(self._pattern.types[bound.earlier])

    def nobody(self, n: int) -> str:
        """Return the bound of nobody."""
        bound = self._pattern.steps[n].bound
        assert bound is not None
        return f"{'' if bound.least else '-'}{_HARDEST[self._edge_type(n)]}"

    def easier(self, n: int, edge: str) -> list[str]:
        """Return what lets the bound of many be that of node ``d`` as well."""
        bound = self._pattern.steps[n].bound
        if bound is None:
            return []
        value = self.kept(bound.earlier)
        test = f"{value.text} {'<' if bound.least else '>'} {edge}"
        return [f"if not ({value.null}) and {test}:", f"    {edge} = {value.text}"]

    def wanted(self, place: int) -> bool:
        """Tell whether an attribute of earlier events is read."""
        return (f"{self._prefix}_p", place) in self._whole.needed

    def kept_arrays(self, place: int) -> tuple[str, str]:
        """Return the arrays of an attribute of earlier events, and of whether each is null."""
        return self._whole.attribute(f"{self._prefix}_p", place, self._pattern.types[place], self.nodes)

    def kept(self, place: int) -> Value:
        """Return an attribute of an earlier event of the partial match of node ``d``."""
        values, nulls = self.kept_arrays(place)
        return Value(f"{values}[d]", f"{nulls}[d] != 0", self._pattern.types[place])


def when(tests: Sequence[str], inside: list[str]) -> list[str]:
    """Return lines that run those `inside` where some tests hold; none where nothing is inside."""
    return [f"if {' and '.join(tests)}:", *indent(inside)] if tests and inside else inside
