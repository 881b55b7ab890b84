"""Aggregators as typed statements over the arrays of a query's groups.

The meanings are those of `spdist.functions.aggregators`. In all texts ``{0}``, ``{1}``… stand for the slots of the
group (an element of an array each), ``{v}`` for the argument, ``{n}`` for the condition under which it is null, ``{g}``
for the group's number and ``{a}`` for the prefix of arrays that the aggregator has besides its slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spdist.extension import lookup
from spdist.language.types import Type
from spdist.operators.core.state_columns import Column, NumberColumn, StructColumn, numbers_of
from spdist.program.expressions import NUMBER, REAL

__all__ = ["TypedForm", "typed_form"]

_REALS = (Type.FLOAT, Type.DOUBLE)


@dataclass(frozen=True, slots=True)
class TypedForm:
    """How an aggregator is written.

    Parameters
    ----------
    slots : tuple of (str, str)
        The dtype and the first value of each slot.
    add, remove : tuple of str
        Statements for a value that enters, and for one that leaves.
    result, null : str
        The value now, and the condition under which there is none.
    empty : str
        The condition under which the slots are as good as new.
    type : Type
        Of the result.
    skips_null : bool
        Whether a null argument neither enters nor leaves.
    on_null : tuple of str
        Statements for a null that enters.
    candidates : str
        The dtype of the values in an ordered list of candidates of each group; empty where there is none.
    pairs : bool
        Whether there is a table of groups and values, which counts how often a group has a value.
    reset : tuple of str
        Statements with which a group begins anew, besides the first values of the slots.
    strict : bool
        Whether operators fail on a null argument, so that there must be none.
    fresh : str
        The condition under which the slots are those of nothing, where they need not be when nothing is left.
    kept : int
        How many slots the rows have (`spdist.functions.forms.AggregatorForm`).
    pack, unpack : callable
        From the arrays of the slots to columns of what the rows have; and back.
    """

    slots: tuple[tuple[str, str], ...]
    add: tuple[str, ...]
    remove: tuple[str, ...]
    result: str
    null: str
    empty: str
    type: Type
    skips_null: bool = True
    on_null: tuple[str, ...] = ()
    candidates: str = ""
    pairs: bool = False
    reset: tuple[str, ...] = ()
    strict: bool = False
    fresh: str = ""
    kept: int = 1
    pack: Callable[[list[Any]], list[Column]] = lambda slots: list(map(NumberColumn, slots))
    unpack: Callable[[list[Column]], list[Any]] = lambda kept: [_known(column) for column in kept]


def typed_form(id: str, types: tuple[Type, ...], leaving: bool, resets: bool = False) -> TypedForm | None:
    """Return how an aggregator is written for arguments of these types; None where it is not.

    Parameters
    ----------
    id : str
        ``name`` or ``ns:name``; others say of theirs where they register it (`spdist.extension.aggregator`).
    types : tuple of Type
        Of the arguments.
    leaving : bool
        Whether events can leave one by one.
    resets : bool
        Whether all totals begin anew from time to time.
    """
    if id != "count" and Type.OBJECT in types:
        return None
    known = lookup("aggregator", id)
    if known is not None and known.typed:
        return _own(known.typed, types, leaving) if len(types) == 1 else None
    if id == "count":
        return _COUNT
    if id == "distinctCount":
        distinct = _LISTED if resets and not leaving else _DISTINCT
        if len(types) == 1 and types[0] in _REALS:
            word = _PAIR.replace("{v}", "key_bits({v})")
            return replace(distinct, add=(word, *distinct.add[1:]), remove=(word, *distinct.remove[1:]))
        return distinct if len(types) == 1 and types[0] is not Type.BOOL else None
    if id in _LOGICAL:
        return _LOGICAL[id] if types == (Type.BOOL,) else None
    make = _FORMS.get(id)
    return None if make is None or len(types) != 1 or not types[0].numeric else make(types[0], leaving)


def _own(typed: TypedForm | Any, types: tuple[Type, ...], leaving: bool) -> TypedForm | None:
    """Return how an aggregator is written that says it itself."""
    found: TypedForm | None = typed if isinstance(typed, TypedForm) else typed(types, leaving)
    return found


_COUNT = TypedForm(((NUMBER, "0"),), ("{0} += 1",), ("{0} -= 1",), "{0}", "", "{0} == 0", Type.LONG, skips_null=False)


def _logical(result: str) -> TypedForm:
    return TypedForm(
        ((NUMBER, "0"), (NUMBER, "0")),
        ("{0} += 1 if {v} else 0", "{1} += 0 if {v} else 1"),
        ("{0} -= 1 if {v} else 0", "{1} -= 0 if {v} else 1"),
        result,
        "",
        "{0} == 0 and {1} == 0",
        Type.BOOL,
        strict=True,
        kept=2,
    )


#: How many are true, and how many false.
_LOGICAL = {"and": _logical("({0} > 0 and {1} == 0)"), "or": _logical("({0} > 0)")}

_PAIR = "pair[0], pair[1], pair[2] = {g}, {v}, 1 if {n} else 0"
_DISTINCT = TypedForm(
    ((NUMBER, "0"),),
    (
        _PAIR,
        "m = find({a}_d_slots, {a}_d_keys, {a}_d_meta, {a}_d_after, pair, 3)",
        "{0} += {a}_d_count[m] == 0",
        "{a}_d_count[m] += 1",
    ),
    (
        _PAIR,
        "m = known({a}_d_slots, {a}_d_keys, {a}_d_meta, pair, 3)",
        "{a}_d_count[m] -= 1",
        "if {a}_d_count[m] == 0:",
        "    {0} -= 1",
        "    release({a}_d_slots, {a}_d_keys, {a}_d_meta, {a}_d_after, m, 3)",
    ),
    "{0}",
    "",
    "{0} == 0",
    Type.LONG,
    skips_null=False,
    pairs=True,
)


#: Where values never leave one by one, those of a group are a list.
_LISTED = replace(
    _DISTINCT,
    add=(
        *_DISTINCT.add[:2],
        "if {a}_d_count[m] == 0:",
        "    {0} += 1",
        "    {a}_d_link[m] = {a}_d_first[{g}]",
        "    {a}_d_first[{g}] = m",
        _DISTINCT.add[-1],
    ),
    reset=(
        "m = {a}_d_first[{g}]",
        "{a}_d_first[{g}] = -1",
        "while m >= 0:",
        "    {a}_d_count[m] = 0",
        "    release({a}_d_slots, {a}_d_keys, {a}_d_meta, {a}_d_after, m, 3)",
        "    m = {a}_d_link[m]",
    ),
)


def _sum(type: Type, leaving: bool) -> TypedForm:
    # Where values can leave, the second slot counts by twos; one more where the last event entered with a number.
    more = "{1} = ({1} | 1) + 2" if leaving else "{1} += 1"
    real = type in _REALS
    return TypedForm(
        ((REAL, "0.0") if real else (NUMBER, "0"), (NUMBER, "0")),
        ("{0} += {v}" if real else "{0} = wrapping_add({0}, {v})", more),
        # Siddhi takes a long off through double, so beyond 2**53 a sum drifts
        ("{0} -= {v}" if real else "{0} = remove_long({0}, {v})", "{1} = ({1} | 1) - 3"),
        "{0}",
        "{1} == 0",
        "{1} == 0 and {0} == 0",
        Type.DOUBLE if real else Type.LONG,
        kept=2,
        on_null=("{1} &= -2",) if leaving else (),
    )


def _avg(type: Type, leaving: bool) -> TypedForm:
    return TypedForm(
        ((REAL, "0.0"), (NUMBER, "0")),
        ("{0} += float({v})", "{1} += 1"),
        ("{0} -= float({v})", "{1} -= 1"),
        "{0} / {1}",
        "{1} == 0",
        "{1} == 0 and {0} == 0.0",
        Type.DOUBLE,
        kept=2,
    )


def _extreme(better: str) -> Callable[[Type, bool], TypedForm]:
    def make(type: Type, leaving: bool) -> TypedForm:
        dtype, zero = (REAL, "0.0") if type in _REALS else (NUMBER, "0")
        least = better == ">"
        equal = "key_bits({0}) == key_bits({v})" if type in _REALS else "{0} == {v}"
        if leaving:
            arrays = "{a}_ends, {a}_before, {a}_after, {a}_value, {a}_free"
            none, first = "{a}_ends[2 * {g}] < 0", "{a}_value[{a}_ends[2 * {g}]]"
            whole = TypedForm(
                (),
                (f"candidate_enters({arrays}, {{g}}, {{v}}, {least})",),
                (f"candidate_leaves({arrays}, {{g}}, {{v}})",),
                first,
                none,
                none,
                type,
                candidates=dtype,
                reset=("candidates_go({a}_ends, {a}_after, {a}_free, {g})",),
            )
            if type not in _REALS:
                return whole
            # The result is not always the first candidate (`spdist.functions.aggregators`), so it is kept besides.
            return replace(
                whole,
                slots=((REAL, "0.0"),),
                add=(f"if {none} or {{0}} {better} {{v}}:", "    {0} = {v}", *whole.add),
                remove=(f"real_leaves({arrays}, {{g}}, {{v}})", f"{{0}} = 0.0 if {none} else {first}"),
                result="{0}",
            )
        return TypedForm(
            ((dtype, zero), (NUMBER, "0")),
            (f"if {{1}} == 0 or {{0}} {better} {{v}}:", "    {0} = {v}", "    {1} = 1"),
            (f"if {{1}} != 0 and {equal}:", f"    {{0}} = {zero}", "    {1} = 0"),
            "{0}",
            "{1} == 0",
            "{1} == 0",
            type,
            pack=_pack_optional,
            unpack=_unpack_optional,
        )

    return make


def _forever(better: str) -> Callable[[Type, bool], TypedForm]:
    def make(type: Type, leaving: bool) -> TypedForm:
        # As in Siddhi a value that leaves is compared like one that enters
        keep = (f"if {{1}} == 0 or {{0}} {better} {{v}}:", "    {0} = {v}", "    {1} = 1")
        slots = ((REAL, "0.0") if type in _REALS else (NUMBER, "0"), (NUMBER, "0"))
        packing = {"pack": _pack_optional, "unpack": _unpack_optional}
        return TypedForm(slots, keep, keep, "{0}", "{1} == 0", "{1} == 0", type, **packing)  # type: ignore[arg-type]

    return make


def _deviation(type: Type, leaving: bool) -> TypedForm:
    return TypedForm(
        ((NUMBER, "0"), (REAL, "0.0"), (REAL, "0.0"), (REAL, "0.0")),
        ("{0}, {1}, {2}, {3} = deviation_add({0}, {1}, {2}, {3}, float({v}))",),
        ("{0}, {1}, {2}, {3} = deviation_remove({0}, {1}, {2}, {3}, float({v}))",),
        "deviation({0}, {2})",
        "{0} == 0",
        "{0} == 0",
        Type.DOUBLE,
        # A value that comes after it has left is forgotten, but not what it has left.
        fresh="{0} == 0 and {1} == 0.0 and {2} == 0.0 and {3} == 0.0",
        pack=lambda slots: [StructColumn(list, list(map(NumberColumn, slots)))],
        unpack=lambda kept: list(map(_known, kept[0].parts(4))),
    )


def _known(column: Column) -> Any:
    """Return numbers, of which none is null, as an array."""
    values, nulls = numbers_of(column)
    if nulls is not None:
        raise TypeError("a null where totals have a number")
    return values


def _pack_optional(slots: list[Any]) -> list[Column]:
    return [NumberColumn(slots[0], slots[1] == 0)]


def _unpack_optional(kept: list[Column]) -> list[Any]:
    values, nulls = numbers_of(kept[0])
    return [values, 1 if nulls is None else ~nulls]


_FORMS: dict[str, Callable[[Type, bool], TypedForm]] = {
    "sum": _sum,
    "avg": _avg,
    "min": _extreme(">"),
    "max": _extreme("<"),
    "minForever": _forever(">"),
    "maxForever": _forever("<"),
    "stdDev": _deviation,
}
