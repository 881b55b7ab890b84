"""In which order a table with a primary key gives its rows: that of `spdist.operators.tables.order`, as source."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.language.types import Type
from spdist.program.expressions import NotTyped, Value
from spdist.program.hash_text import behind, hashed, hashed_text
from spdist.program.parts import Whole
from spdist.program.tables.shape import LoopTable

__all__ = ["key_rank"]

_REALS = (Type.FLOAT, Type.DOUBLE)


def key_rank(whole: Whole, table: LoopTable, values: Sequence[Value]) -> tuple[list[str], list[str], str]:
    """Return what is computed before all rows, what is for each row, and source of its rank, a whole number.

    Parameters
    ----------
    whole : Whole
        The text.
    table : LoopTable
        The table; ``{most}`` in the statements is how many rows it ever had at a time.
    values : sequence of Value
        The primary key of the row.

    Raises
    ------
    NotTyped
        The key has a real among others: Siddhi hashes it as a text, which has no typed form.
    """
    if len(values) == 1 and values[0].type.numeric:
        (value,) = values
        return [], [], f"real_place({value.text})" if value.type in _REALS else value.text
    code, each = whole.name(), list[str]()
    if len(values) == 1:
        each.append(f"{code} = {hashed(whole, values[0])}")
    else:
        if any(value.type in _REALS for value in values):
            raise NotTyped(f"the order of the table '{table.id}', whose primary key has a real among others")
        for place, value in enumerate(values):
            each.append(f"{code} = {hashed_text(whole, value, code if place else '0')}")
            each.append(f"{code} = {behind(code, ':-:')}")
    # As `java.util.HashMap`: as many buckets as its greatest size has asked for.
    buckets = whole.name()
    grows = [f"{buckets} = 16", f"while 4 * {{most}} > 3 * {buckets}:", f"    {buckets} *= 2"]
    return grows, each, f"bucket_of({code}, {buckets})"
