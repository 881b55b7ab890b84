"""The aggregators of siddhi-core: what a running total keeps, and how it grows, shrinks and is read.

A built-in aggregator is a function from the argument's types, and whether events can leave again, to the statements
that generated code runs on the slots of a group's state (`AggregatorForm`). State is plain data, so it is stored as it
is. A RESET throws the whole state away, that of ``minForever`` and ``maxForever`` too.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NoReturn

from spdist.extension import ANY, NUMERIC, Extension, aggregator, signature
from spdist.functions.forms import AggregatorForm
from spdist.java.failures import ClassCastError
from spdist.java.numbers import LONG_MAX, LONG_MIN, double_to_long, wrap64
from spdist.java.objects import HashMap, HashSet, entries
from spdist.language.types import Type

__all__ = ["distinct_key", "distinct_real", "form_of"]

_INTEGERS = frozenset({Type.INT, Type.LONG})
_REALS = frozenset({Type.FLOAT, Type.DOUBLE})
_COUNTABLE = NUMERIC | {Type.STRING}
_BOOL = frozenset({Type.BOOL})
_SET = frozenset({Type.OBJECT})

# Below this Siddhi's detour through double arithmetic, when a long leaves a sum, is exact.
_EXACT = 2**52

Types = tuple[Type, ...]


def form_of(extension: Extension, types: Types, leaving: bool, falls_back: bool = True) -> AggregatorForm:
    """Return how an aggregator is written.

    Parameters
    ----------
    extension : Extension
        What is registered: a function that gives the form, or a class of methods (see `spdist.extension.aggregator`).
    types : tuple[Type, ...]
        The arguments' types; several arguments arrive as one tuple.
    leaving : bool
        Whether events can leave one by one, so that what they brought must be taken back.
    falls_back : bool
        Whether ``min`` and ``max`` then keep what they could fall back to; Siddhi's do not where only a named window
        expires events.
    """
    implementation = extension.implementation
    if not isinstance(implementation, type):
        form: AggregatorForm = implementation(types, leaving and (falls_back or extension.id not in ("min", "max")))
        return form
    methods = "".join(c if c.isalnum() else "_" for c in extension.id) + "_methods"
    return AggregatorForm(
        initial=(f"{methods}.initial()",),
        add=(f"{{0}} = {methods}.add({{0}}, {{v}})",),
        remove=(f"{{0}} = {methods}.remove({{0}}, {{v}})",),
        result=f"{methods}.result({{0}})",
        empty=f"{{0}} == {methods}.initial()",
        skips_null=False,
        names={methods: implementation},
    )


def _remove_from_long(total: int, value: int) -> int:
    """Subtract as Siddhi does, through double: beyond 2**53 totals drift, and they are held to the range of long."""
    return double_to_long(float(total) - float(value))


@aggregator("sum", signature("sum", ((_INTEGERS,), Type.LONG), ((_REALS,), Type.DOUBLE)))
def sum_form(types: Types, leaving: bool) -> AggregatorForm:
    """Add up; null arguments add nothing, and the sum of nothing is null.

    State
    -----
    The total and the number of values: O(1). Where values can leave, that is twice their number, and one more where
    the last event entered with a number: where it enters after it has left, Siddhi's sum is 0 and not null.

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.SumAttributeAggregatorExecutor.
    """
    # Slot 1 is twice the number of values, and the flag in its lowest bit, which `| 1` sets whatever it was.
    more = "{1} = ({1} | 1) + 2" if leaving else "{1} += 1"
    less = "{1} = ({1} | 1) - 3"
    result, empty = "({0} if {1} else None)", "not {1} and {0} == 0"
    on_null = ("{1} &= -2",) if leaving else ()
    if types[0] in _REALS:
        return AggregatorForm(("0.0", "0"), ("{0} += {v}", more), ("{0} -= {v}", less), result, empty, on_null=on_null)
    return AggregatorForm(
        ("0", "0"),
        (f"{{0}} = total if {LONG_MIN} <= (total := {{0}} + {{v}}) <= {LONG_MAX} else wrap64(total)", more),
        (
            f"{{0}} = total if -{_EXACT} < (total := {{0}} - {{v}}) < {_EXACT} and -{_EXACT} < {{v}} < {_EXACT}"
            " else remove_from_long({0}, {v})",
            less,
        ),
        result,
        empty,
        after_reset="0",
        on_null=on_null,
        names={"wrap64": wrap64, "remove_from_long": _remove_from_long},
    )


@aggregator("avg", signature("avg", ((NUMERIC,), Type.DOUBLE)))
def avg_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Average; null arguments change nothing, and the average of nothing is null.

    State
    -----
    The total and the number of values: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.AvgAttributeAggregatorExecutor.
    """
    return AggregatorForm(
        ("0.0", "0"),
        ("{0} += {v}", "{1} += 1"),
        ("{0} -= {v}", "{1} -= 1"),
        "({0} / {1} if {1} else None)",
        "not {1} and {0} == 0.0",
    )


@aggregator("count", signature("count", ((), Type.LONG), ((ANY,), Type.LONG)))
def count_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Count events, also those whose argument is null.

    State
    -----
    The number: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.CountAttributeAggregatorExecutor.
    """
    return AggregatorForm(("0",), ("{0} += 1",), ("{0} -= 1",), "{0}", "not {0}", False, False, "0")


def _equal(left: float, right: float) -> bool:
    """Tell whether two reals are equal, as ``Double.equals`` does."""
    if left == right:
        return bool(left) or math.copysign(1.0, left) == math.copysign(1.0, right)
    return left != left and right != right


def _outdone(candidates: deque[float | None], value: float) -> None:
    """Let a value be the result, although it is not the first candidate: those before one that is no number stay.

    It stands in front of the candidates then, and null behind it, until a value leaves.
    """
    if candidates[1] is None:
        candidates[0] = value
    else:
        candidates.extendleft((None, value))


def _real_leaves(candidates: deque[Any], value: float) -> None:
    """Let a real leave: the first candidate that equals it; the result is the first one that stays."""
    if len(candidates) > 1 and candidates[1] is None:
        candidates.popleft()
        candidates.popleft()
    # Only zeros and NaN compare in Python otherwise than in Java.
    if value and value == value:
        if value in candidates:
            candidates.remove(value)
        return
    for place, other in enumerate(candidates):
        if _equal(other, value):
            del candidates[place]
            break


def _extreme_form(types: Types, better: str, leaving: bool) -> AggregatorForm:
    real = types[0] in _REALS
    if not leaving:
        equal = "{0} is not None and equal_reals({0}, {v})" if real else "{0} == {v}"
        return AggregatorForm(
            ("None",),
            (f"if {{0}} is None or {{0}} {better} {{v}}: {{0}} = {{v}}",),
            (f"if {equal}: {{0}} = None",),
            "{0}",
            "{0} is None",
            names={"equal_reals": _equal} if real else {},
        )
    # The slot holds candidates, best first: what can never be best again, because a better value came later, is gone.
    enters: tuple[str, ...] = (f"while {{0}} and {{0}}[-1] {better} {{v}}: {{0}}.pop()", "{0}.append({v})")
    result, empty = "({0}[0] if {0} else None)", "not {0}"
    if real:
        enters = (*enters, f"if {{0}}[0] {better} {{v}}: outdone({{0}}, {{v}})")
        names = {"deque": deque, "outdone": _outdone, "real_leaves": _real_leaves}
        return AggregatorForm(("deque()",), enters, ("real_leaves({0}, {v})",), result, empty, names=names)
    leaves = ("if {0} and {0}[0] == {v}: {0}.popleft()", "elif {v} in {0}: {0}.remove({v})")
    return AggregatorForm(("deque()",), enters, leaves, result, empty, names={"deque": deque})


@aggregator("min", signature("min", ((NUMERIC,), 0)))
def min_form(types: Types, leaving: bool) -> AggregatorForm:
    """Keep the least value of those that have not left; null arguments change nothing.

    State
    -----
    Where events can leave: the values that may become least, at most one for each event held; else the least: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.MinAttributeAggregatorExecutor. As there, where a value
    leaves that is no candidate any more, a later equal one stops being one: the result may then be too large. What is
    not a number hides those before it from those behind it, which are the result until the next one leaves.
    """
    return _extreme_form(types, ">", leaving)


@aggregator("max", signature("max", ((NUMERIC,), 0)))
def max_form(types: Types, leaving: bool) -> AggregatorForm:
    """Keep the greatest value of those that have not left; null arguments change nothing.

    State
    -----
    Where events can leave: the values that may become greatest, at most one for each event held; else O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.MaxAttributeAggregatorExecutor. As there, where a value
    leaves that is no candidate any more, a later equal one stops being one: the result may then be too small. What is
    not a number hides those before it from those behind it, which are the result until the next one leaves.
    """
    return _extreme_form(types, "<", leaving)


def _forever_form(better: str) -> AggregatorForm:
    keep = (f"if {{0}} is None or {{0}} {better} {{v}}: {{0}} = {{v}}",)
    return AggregatorForm(("None",), keep, keep, "{0}", "{0} is None")


@aggregator("minForever", signature("minForever", ((NUMERIC,), 0)))
def min_forever_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Keep the least value ever seen, also of events that left; only a RESET forgets it.

    State
    -----
    The value: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.MinForeverAttributeAggregatorExecutor.
    """
    return _forever_form(">")


@aggregator("maxForever", signature("maxForever", ((NUMERIC,), 0)))
def max_forever_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Keep the greatest value ever seen, also of events that left; only a RESET forgets it.

    State
    -----
    The value: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.MaxForeverAttributeAggregatorExecutor.
    """
    return _forever_form("<")


def _deviation_add(state: list[Any], value: float) -> None:
    """Add to ``[count, mean, sum of squared differences, total]``; Welford's method, in the form Siddhi uses."""
    count, mean, squares, total = state
    count += 1
    if count == 1:
        state[:] = [1, float(value), 0.0, float(value)]
        return
    if not count:  # more had left than had come; Siddhi forgets the value
        state[0] = 0
        return
    total += value
    fresh = total / count
    state[:] = [count, fresh, squares + (value - mean) * (value - fresh), total]


def _deviation_remove(state: list[Any], value: float) -> None:
    count, mean, squares, total = state
    count -= 1
    if not count:
        state[:] = [0, 0.0, 0.0, 0.0]
        return
    total -= value
    fresh = total / count
    state[:] = [count, fresh, squares - (value - mean) * (value - fresh), total]


def _deviation(state: list[Any]) -> float | None:
    count, _, squares, _ = state
    if count == 0:
        return None
    if count == 1:
        return 0.0
    variance = squares / count
    # Subtracting may leave less than 0, of which Java's root is NaN; Python's raises.
    return math.sqrt(variance) if variance >= 0 else math.nan


@aggregator("stdDev", signature("stdDev", ((NUMERIC,), Type.DOUBLE)))
def std_dev_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Give the population standard deviation: of nothing null, of one value 0; null arguments change nothing.

    State
    -----
    Count, mean, sum of squared differences and total: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.StdDevAttributeAggregatorExecutor; B. P. Welford, 1962.
    """
    return AggregatorForm(
        ("[0, 0.0, 0.0, 0.0]",),
        ("deviation_add({0}, {v})",),
        ("deviation_remove({0}, {v})",),
        "deviation({0})",
        "not {0}[0]",
        names={"deviation_add": _deviation_add, "deviation_remove": _deviation_remove, "deviation": _deviation},
    )


def distinct_key(value: float | None) -> float | str | None:
    """Return a real as it is counted: two are one value where ``Double.equals`` says so."""
    if value is None or (value == value and (value or math.copysign(1.0, value) > 0)):
        return value
    return "NaN" if value != value else "-0.0"


def distinct_real(key: float | str | None) -> float | None:
    """Return the real that is counted so."""
    return None if key is None else float(key)


@aggregator("distinctCount", signature("distinctCount", ((_COUNTABLE,), Type.LONG)))
def distinct_count_form(types: Types, _leaving: bool) -> AggregatorForm:
    """Count different values; null is a value of its own, and so are -0.0 and what is not a number.

    State
    -----
    How often each value is there: O(different values).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.DistinctCountAttributeAggregatorExecutor.
    """
    of_real = ("one = {v} if {v} else distinct_key({v})", "if one != one: one = 'NaN'") if types[0] in _REALS else ()
    value = "one" if of_real else "{v}"
    return AggregatorForm(
        ("{{}}",),
        (*of_real, f"{{0}}[{value}] = {{0}}.get({value}, 0) + 1"),
        (*of_real, f"if {{0}}[{value}] > 1: {{0}}[{value}] -= 1", f"else: del {{0}}[{value}]"),
        "len({0})",
        "not {0}",
        skips_null=False,
        nullable=False,
        after_reset="0",
        names={"distinct_key": distinct_key} if of_real else {},
    )


def _no_truth(value: Any) -> NoReturn:
    raise ClassCastError(value, "Boolean")


def _logical_form(result: str) -> AggregatorForm:
    check = "if {v} is not True and {v} is not False: no_truth({v})"
    return AggregatorForm(
        ("0", "0"),
        (check, "{0} += {v}", "{1} += not {v}"),
        (check, "{0} -= {v}", "{1} -= not {v}"),
        result,
        "not {0} and not {1}",
        skips_null=False,
        nullable=False,
        after_reset="False",
        names={"no_truth": _no_truth},
    )


@aggregator("and", signature("and", ((_BOOL,), Type.BOOL)))
def and_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Tell whether there are values and all are true; a null fails, and with it the event.

    State
    -----
    How many are true and how many false: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.AndAttributeAggregatorExecutor.
    """
    return _logical_form("({0} > 0 and not {1})")


@aggregator("or", signature("or", ((_BOOL,), Type.BOOL)))
def or_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Tell whether any value is true; a null fails, and with it the event.

    State
    -----
    How many are true and how many false: O(1).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.OrAttributeAggregatorExecutor.
    """
    return _logical_form("({0} > 0)")


def _union_add(members: HashMap, counts: dict[Any, int], values: set[Any]) -> None:
    for value in values:
        members.put(value, None)
        counts[value] = counts.get(value, 0) + 1


def _union_remove(members: HashMap, counts: dict[Any, int], values: set[Any]) -> None:
    for value in values:
        if counts.get(value) == 1:
            members.take(value)
        elif value in counts:
            counts[value] -= 1


def _union(members: HashMap) -> HashSet:
    return HashSet(key for key, _ in entries(members))


@aggregator("unionSet", signature("unionSet", ((_SET,), Type.OBJECT)))
def union_set_form(_types: Types, _leaving: bool) -> AggregatorForm:
    """Unite sets made by ``createSet``; what the last set that held it leaves with is gone.

    State
    -----
    The members, and how many sets hold each value: O(different values since the state was last empty of groups).

    Notes
    -----
    Source: io.siddhi.core.query.selector.attribute.aggregator.UnionSetAttributeAggregatorExecutor. As there, a value
    that was gone is still counted once, so when it comes again it stays for one event longer.
    """
    return AggregatorForm(
        ("HashMap()", "{{}}"),
        ("union_add({0}, {1}, {v})",),
        ("union_remove({0}, {1}, {v})",),
        "union({0})",
        "not {0}",
        nullable=False,
        after_reset="union(HashMap())",
        names={"HashMap": HashMap, "union_add": _union_add, "union_remove": _union_remove, "union": _union},
    )
