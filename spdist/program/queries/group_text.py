"""The totals of a query in a program: the number of an event's group, and aggregators over arrays of all groups."""

from __future__ import annotations

from collections.abc import Callable

from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.language.types import Type
from spdist.operators.selection.aggregates import aggregates_in
from spdist.operators.selection.selector import is_aggregator
from spdist.program.aggregators import TypedForm, typed_form
from spdist.program.arrays import Arrays
from spdist.program.expressions import FLAG, NUMBER, NotTyped, TypedWriter, Value
from spdist.program.functions.forms import CLOCKS
from spdist.program.joins.shape import Joined
from spdist.program.key_text import finds, key_words
from spdist.program.parts import Aggregate, Event, QueryText, indent
from spdist.program.patterns.shape import Matched
from spdist.program.queries.filter_text import tested
from spdist.program.shape import Batched, Query, Read, Sliding

__all__ = ["GroupWriter", "declared", "first_values", "updated"]

#: So many groups without events are there at most when a chunk is over.
MOST_WAITING = 1024
#: Functions that compute arguments behind the first one only where they want them.
_CHOOSING = ("ifThenElse",)
#: From what reads an attribute, by its place, and from source of a timestamp to a writer of expressions.
MakeWriter = Callable[[Callable[[int], Value], str], TypedWriter]


class GroupWriter:
    """Writes what happens to the totals of a query.

    Parameters
    ----------
    arrays : Arrays
        Where arrays are declared.
    query : QueryText
        The query; it is told its aggregators.
    key : str
        Source of the number of the partition's key.
    name : str
        A name for the number of the event's group.
    writer : MakeWriter
        Makes writers of the aggregators' arguments.
    """

    def __init__(self, arrays: Arrays, query: QueryText, key: str, name: str, writer: MakeWriter) -> None:
        self.arrays = arrays
        self.query = query
        self.key = key
        self._writer = writer
        self.prefix = query.name
        self._select = query.read.checked.query.select
        self.grouped = bool(self._select.group_by)
        #: Source of where the results begin of which one is left over, or one for each group.
        self.begin = "0"
        #: Source of the number of the event's group.
        self.number = name if self.grouped else key
        self.room = f"groups {query.name}" if self.grouped else query.instances
        self.found = self._aggregators()
        query.aggregates = [aggregate for _, aggregate in self.found]
        #: The aggregators of ``having``, which know no groups, and which no new batch lets begin anew.
        self.conditions = self._conditions()
        query.conditions = [aggregate for _, aggregate in self.conditions]
        self.forgetting = ""
        #: Source of how many results an event gives: a condition, where results are computed that go nowhere.
        self.step = "1"

    @property
    def aggregated(self) -> bool:
        """Whether there are aggregators."""
        return bool(self.found)

    @property
    def collapses(self) -> bool:
        """Whether a chunk gives one result only, or one for each group."""
        each = isinstance(self.query.read, Matched) or self.query.shows_snapshots
        return (self.aggregated or self.grouped or bool(self.conditions)) and not each

    def attributes(self) -> list[int]:
        """Return the attributes that are looked at when an event leaves."""
        found = set(self.query.grouped)
        for call, _ in self.found:
            for argument in call.args:
                found |= {self.query.resolved(one) for one in argument.walk() if isinstance(one, ast.Variable)}
        return sorted(found)

    def value(self, call: ast.FunctionCall, group: str) -> Value | None:
        """Return the value of an aggregator of a group, given its number; None where the call is none."""
        found = next((one for node, one in (*self.found, *self.conditions) if node is call), None)
        if found is None:
            return None
        result, null = (found.filled(text, group) for text in (found.form.result, found.form.null))
        return Value(result, null, found.form.type)

    def passes(self, read: Callable[[int], Value], body: list[str]) -> list[str]:
        """Return what is done with an event where it meets the conditions behind the window; `read` is as there."""
        return tested(self.query.behind, lambda: self._writer(read, "0"), body) if body else []

    # An event that enters.

    def finds(self, read: Callable[[int], Value]) -> list[str]:
        """Return what finds the number of the event's group, where it has totals."""
        return self._finds(read) if self.grouped and self.aggregated else []

    def _finds(self, read: Callable[[int], Value]) -> list[str]:
        words = [*([self.key] if self.query.keyed is not None else []), *self.words(read)]
        return finds(self.arrays, f"{self.prefix}_k", self.room, words, self.number)

    def words(self, read: Callable[[int], Value]) -> list[str]:
        """Return source of the words of the key of an event's group: of each value, and which of them are null."""
        values = [read(place) for place in self.query.grouped]
        words = key_words(values)
        return words if len(words) > len(values) else [*words, "0"]

    def counts(self) -> list[str]:
        """Return what counts the event among those in the window that are of its group."""
        if not self.grouped:
            return []
        members = self.arrays.declare(f"{self.prefix}_members", NUMBER, self.room)
        return [f"{members}[{self.number}] += 1"]

    def enters(self, event_writer: Callable[[], TypedWriter]) -> list[str]:
        """Return what adds the event to the totals."""
        lines: list[str] = []
        for call, aggregate in self.found:
            lines += updated(event_writer(), call, aggregate, self.number, enters=True)
        return lines

    def slot(self, count: str, event: Event) -> list[str]:
        """Return what sets ``s`` to the place of an event's result among those of the chunk, `count` of them so far.

        Groups without totals have numbers for as long as the chunk lasts.
        """
        following = [f"s = {count}", f"{count} += {self.step}"]
        if not self.collapses:
            return following
        if not self.grouped:
            return [f"s = {self.begin}", f"{count} = {self.begin} + 1"]
        seen = self.arrays.declare(f"{self.prefix}_seen", NUMBER, self.room)
        where = self.arrays.declare(f"{self.prefix}_where", NUMBER, self.room)
        group, found = event.group, list[str]()
        if not self.aggregated:
            late = self.arrays.declare(f"{self.prefix}_late", NUMBER, self.room)
            self.forgetting, group, found = "True", self.number, self._finds(event.read)
            following += [f"{late}[late] = {group}", "late += 1"]
        return [
            *found,
            # A mark is new with each chunk, so no group must be told when one is over.
            f"if {seen}[{group}] == mark{count}:",
            f"    s = {where}[{group}]",
            "else:",
            *indent(following),
            f"    {seen}[{group}] = mark{count}",
            f"    {where}[{group}] = s",
        ]

    # An event that leaves.

    def leaves(
        self, read: Callable[[int], Value], timestamp: str, group: str, leaving: list[str], counted: bool = True
    ) -> list[str]:
        """Return what takes an event that has left off the totals; to be asked for before `before` and `forgets`.

        Parameters
        ----------
        read : callable
            From an attribute's place to its value in the event.
        timestamp, group : str
            Source of its timestamp, and of the number of its group.
        leaving : list of str
            What is done once it is off the totals.
        counted : bool
            Whether it was counted among those of its group; see `counts`.
        """
        if not self.aggregated:
            return leaving
        prefix, lines = self.prefix, [*self.removes(read, timestamp, group), *leaving]
        if self.grouped:
            lines += self.empties()
            self.arrays.declare(f"{prefix}_waits", FLAG, self.room)
            self.arrays.declare(f"{prefix}_late", NUMBER, self.room)
            self.forgetting = " and ".join(
                [*([f"{prefix}_members[gone] == 0"] if counted else []), *self.fresh("gone")]
            )
            lines += [
                *([f"{prefix}_members[gone] -= 1"] if counted else []),
                # Once only, however many of its events leave in the chunk.
                f"if {prefix}_waits[gone] == 0 and {self.forgetting}:",
                f"    {prefix}_waits[gone] = 1",
                f"    {prefix}_late[late] = gone",
                "    late += 1",
            ]
        return lines

    def removes(self, read: Callable[[int], Value], timestamp: str, group: str) -> list[str]:
        """Return what takes an event off the totals of its group, which is ``gone`` then."""
        lines = [f"gone = {group}"] if self.aggregated else []
        for call, aggregate in self.found:
            lines += updated(self._writer(read, timestamp), call, aggregate, "gone", enters=False)
        return lines

    def first(self, group: str) -> list[str]:
        """Return what lets the totals of a group be those of nothing."""
        return [line for _, aggregate in self.found for line in first_values(aggregate, group)]

    def empties(self) -> list[str]:
        """Return what lets the totals of group ``gone`` be those of nothing, where nothing is left in them."""
        first = self.first("gone")
        return [f"if {' and '.join(self.empty('gone'))}:", *indent(first)] if first else []

    def empty(self, group: str) -> list[str]:
        """Return the conditions under which nothing is left in the totals of a group."""
        return [aggregate.filled(aggregate.form.empty, group) for _, aggregate in self.found]

    def fresh(self, group: str) -> list[str]:
        """Return the conditions under which the totals of a group are those of nothing."""
        return [aggregate.filled(aggregate.form.fresh or aggregate.form.empty, group) for _, aggregate in self.found]

    def goes(self, group: str) -> list[str]:
        """Return what else is done with a group that is forgotten."""
        return []

    def before(self) -> list[str]:
        """Return what stands before the events of a chunk."""
        if not self.forgetting:
            return []
        return [f"late = {self.prefix}_waiting[0]" if self._stays else "late = 0"]

    def forgets(self) -> list[str]:
        """Return what forgets groups that have gone with their last event.

        Not before the chunk is over: their numbers must not be given to others while results are known by them. Where a
        group without events is as if it were new, it stays until there are many: most keys come back.
        """
        if not self.forgetting:
            return []
        if not self._stays:
            return _released(self, "late")
        waiting = f"{self.arrays.declare(f'{self.prefix}_waiting', NUMBER, '1')}[0]"
        self.query.forgets = [f"late = {waiting}", *_released(self, "late"), f"{waiting} = late"]
        return [f"if late > {MOST_WAITING}:", *indent(_released(self, "late")), f"{waiting} = late"]

    @property
    def _stays(self) -> bool:
        """Whether groups wait over the end of the chunk to be forgotten."""
        return f"{self.prefix}_waits" in self.arrays.declared

    # Groups and aggregators.

    @property
    def width(self) -> int:
        """How many words the key of a group has."""
        return len(self.query.grouped) + 1 + (self.query.keyed is not None)

    @property
    def table(self) -> str:
        """Names of the arrays by which groups are found."""
        return self.arrays.table(f"{self.prefix}_k", self.width, self.room)

    def _aggregators(self) -> list[tuple[ast.FunctionCall, Aggregate]]:
        """Return the aggregators, in the order of the text."""
        read, found = self.query.read, list[tuple[ast.FunctionCall, Aggregate]]()
        for item in self._select.items:
            if not _eager(item.expression):
                raise NotTyped("an aggregator that is asked for some events only", item.expression.span)
            for node in item.expression.walk():
                if isinstance(node, ast.FunctionCall) and is_aggregator(node):
                    types = tuple(self._type_of(argument) for argument in node.args)
                    if read.leaving and isinstance(read, Read) and _asks_when(node):
                        raise NotTyped("the time of an event in an aggregator", node.span)
                    form = _form(self.query, node, types, read.leaving and _falls_back(read, node))
                    found.append((node, self._added(form, f"_a{len(found)}", self.room, types)))
        return found

    def _conditions(self) -> list[tuple[ast.FunctionCall, Aggregate]]:
        """Return the aggregators of ``having``, in the order of the text."""
        condition, read = self._select.having, self.query.read
        if condition is None or not aggregates_in(condition):
            return []
        silent = isinstance(read, Read) and isinstance(read.window, Sliding) and bool(read.window.span)
        if silent and not (read.waits or read.puts_out_expired):
            raise NotTyped("an aggregator in having that nobody wakes for what leaves", condition.span)
        if not _eager(condition) or (self.grouped and self.query.keyed is not None):
            raise NotTyped("an aggregator in having for each group, or asked for some events only", condition.span)
        scope = read.checked.scope.results(read.checked.target, read.checked.output)
        found: list[tuple[ast.FunctionCall, Aggregate]] = []
        for node in condition.walk():
            if isinstance(node, ast.FunctionCall) and is_aggregator(node):
                types = tuple(self._type_of(argument, scope) for argument in node.args)
                # Siddhi's `min` and `max` never fall back to an earlier value here.
                form = _form(self.query, node, types, read.leaving and node.name not in ("min", "max"))
                if form.pairs or form.strict:
                    raise NotTyped(f"the aggregator {node.id}() in having", node.span)
                found.append((node, self._added(form, f"_c{len(found)}", self.query.instances, types)))
        return found

    def updates(self, writer: Callable[[], TypedWriter], leaves: bool) -> list[str]:
        """Return what brings the aggregators of ``having`` up to date; `writer` makes writers of their arguments."""
        lines: list[str] = []
        for call, aggregate in self.conditions:
            lines += updated(writer(), call, aggregate, self.key, enters=not leaves)
        return lines

    def _added(self, form: TypedForm, name: str, room: str, types: tuple[Type, ...]) -> Aggregate:
        argument = types[0] if types else None
        return declared(self.arrays, self.query, form, f"{self.prefix}{name}", room, argument)

    def _type_of(self, expression: ast.Expression, scope: Scope | None = None) -> Type:
        return type_of(expression, scope or self.query.read.checked.scope, catalog(False))


def first_values(aggregate: Aggregate, group: str) -> list[str]:
    """Return what gives the slots of an aggregator the values that they have before any event."""
    values = zip(aggregate.slots, aggregate.form.slots, strict=True)
    return [f"{name}[{group}] = {value}" for name, (_, value) in values]


def updated(
    writer: TypedWriter, call: ast.FunctionCall, aggregate: Aggregate, group: str, *, enters: bool
) -> list[str]:
    """Return what lets the value of an event enter an aggregator, or leave it; `writer` writes its argument."""
    form = aggregate.form
    value = writer.write(call.args[0]) if call.args and (form.skips_null or form.pairs) else None
    text, null = ("0", "") if value is None else (value.text, value.null)
    statements = form.add if enters else form.remove
    if form.pairs and null:
        # Whatever stands in the place of a null is a word of a key here, and must be the same for all.
        text = f"(0 if {null} else {text})"
    lines = [aggregate.filled(line, group, text, null or "False") for line in statements]
    if form.skips_null and null:
        lines = [f"if not ({null}):", *indent(lines)]
        if form.on_null:
            lines += ["else:", *indent([aggregate.filled(line, group) for line in form.on_null])]
    return [*writer.lines, *lines]


def _form(query: QueryText, call: ast.FunctionCall, types: tuple[Type, ...], leaving: bool) -> TypedForm:
    """Return how an aggregator is written."""
    if any(isinstance(node, ast.FunctionCall) and node.id in CLOCKS for one in call.args for node in one.walk()):
        # Events that have left are often looked at later than time has passed.
        raise NotTyped("the clock in an aggregator", call.span)
    if any(isinstance(node, ast.In) for one in call.args for node in one.walk()):
        raise NotTyped("'in' of a table in an aggregator", call.span)
    resets = query.read.resets if isinstance(query.read, Joined) else isinstance(query.read.window, Batched)
    form = typed_form(call.id, types, leaving, resets)
    if form is None:
        raise NotTyped(f"the aggregator {call.id}()", call.span)
    _suits(form, call, query)
    return form


def _falls_back(read: Query, call: ast.FunctionCall) -> bool:
    """Tell whether an aggregator goes back to an earlier value: Siddhi's `min` and `max` do not over a named window."""
    if call.name not in ("min", "max"):
        return True
    if isinstance(read, Joined):
        return read.falls_back
    return not (isinstance(read, Read) and read.released is not None) or read.events != "current"


def _suits(form: TypedForm, call: ast.FunctionCall, query: QueryText) -> None:
    """Raise NotTyped where an aggregator would be given what it cannot take off again, or what it fails on."""
    read, window = query.read, query.read.window
    if form.strict and not isinstance(read, Read):
        raise NotTyped(f"the aggregator {call.id}() of what may be null", call.span)
    if form.candidates and isinstance(window, Sliding) and not window.is_left:
        raise NotTyped(f"the aggregator {call.id}() of what never leaves", call.span)  # it keeps more and more
    if form.pairs and isinstance(window, Sliding) and window.leaves_early:
        # Operators fail on a value that is not there.
        raise NotTyped(f"the aggregator {call.id}() of what may leave before it comes", call.span)
    if form.pairs and isinstance(window, Batched) and window.is_cut and read.puts_out_expired:
        # A piece's totals are gone when its events leave, and operators fail on a value that is not there.
        raise NotTyped(f"the aggregator {call.id}() of what leaves a chunk that is cut", call.span)
    kept = form.pairs or (form.candidates and isinstance(read, Read))
    if kept and isinstance(read, Joined | Read) and not read.is_even:
        raise NotTyped(f"the aggregator {call.id}() of what does not come and leave once each", call.span)


def declared(
    arrays: Arrays, query: QueryText, form: TypedForm, prefix: str, room: str, argument: Type | None
) -> Aggregate:
    """Return an aggregator, and declare its arrays; `room` is that of its slots."""
    slots = [arrays.declare(f"{prefix}s{place}", dtype, room, first) for place, (dtype, first) in enumerate(form.slots)]
    if form.candidates:
        arrays.declare(f"{prefix}_ends", NUMBER, room, "-1", width=2)
        nodes = f"nodes {query.name}"
        for name in ("before", "after"):
            arrays.declare(f"{prefix}_{name}", NUMBER, nodes, "-1")
        arrays.declare(f"{prefix}_value", form.candidates, nodes)
        arrays.free_list(f"{prefix}_free")
    if form.pairs:
        pairs = f"pairs {query.name}"
        # Of each key the group, the value, and whether that is null.
        arrays.table(f"{prefix}_d", 3, pairs)
        arrays.declare(f"{prefix}_d_count", NUMBER, pairs)
        if form.reset:
            arrays.declare(f"{prefix}_d_link", NUMBER, pairs, "-1")
            arrays.declare(f"{prefix}_d_first", NUMBER, room, "-1")
        arrays.declare("pair", NUMBER, "3")
    return Aggregate(form, tuple(slots), prefix, argument)


def _asks_when(call: ast.FunctionCall) -> bool:
    """Tell whether an aggregator looks at the time of an event, which is another one when the event leaves."""
    return any(isinstance(node, ast.FunctionCall) and node.id == "eventTimestamp" for node in call.walk())


def _eager(expression: ast.Expression) -> bool:
    """Tell whether every aggregator in an expression is asked for each event."""
    match expression:
        case ast.Binary(op="and" | "or"):
            return _eager(expression.left) and not aggregates_in(expression.right)
        case ast.FunctionCall() if expression.args and expression.id in _CHOOSING:
            return _eager(expression.args[0]) and not any(aggregates_in(one) for one in expression.args[1:])
        case ast.FunctionCall():
            return all(_eager(one) for one in expression.args)
        case ast.Binary():
            return _eager(expression.left) and _eager(expression.right)
        case ast.Not() | ast.IsNull():
            return _eager(expression.operand)
    return True


def _released(groups: GroupWriter, count: str) -> list[str]:
    """Return what forgets so many groups, those of them that have no event still; then there are none."""
    waits = f"{groups.prefix}_waits"
    return [
        f"for waiting in range({count}):",
        f"    gone = {groups.prefix}_late[waiting]",
        *([f"    {waits}[gone] = 0"] if waits in groups.arrays.declared else []),
        f"    if {groups.forgetting}:",
        *indent(indent(groups.goes("gone"))),
        f"        release({groups.table}, gone, {groups.width})",
        f"{count} = 0",
    ]
