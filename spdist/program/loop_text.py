"""The module around the blocks of a program: its imports, and the loop over chunks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from spdist.program.arrays import Arrays
from spdist.program.call_text import begun
from spdist.program.expressions import NUMBER
from spdist.program.parts import indent
from spdist.program.shape import Shape
from spdist.program.timer_text import NEVER

__all__ = ["Blocks", "module"]


class Blocks(NamedTuple):
    """What a program does.

    Parameters
    ----------
    tells_sources : bool
        Whether chunks are of several sources, or timers run between them. Else the clock is only looked at where the
        text asks for it.
    timers, body : list of str
        What is done in front of a chunk, by timers, and with it.
    expires, forgets : list of str
        What is done without a chunk, before the state is read.
    """

    tells_sources: bool
    timers: list[str]
    body: list[str]
    expires: list[str]
    forgets: list[str]


def module(arrays: Arrays, shape: Shape, blocks: Blocks) -> str:
    """Return the text of a program.

    Parameters
    ----------
    arrays : Arrays
        What it is given.
    shape : Shape
        The app's queries. Where elements are called, what is known of the event and of timers stands in an array that
        they see.
    blocks : Blocks
        What it does.
    """
    tells_sources, timers, body, expires, forgets = blocks
    parameters, mixed = ", ".join(arrays.declared), shape.is_mixed
    calls = mixed or bool(arrays.asking)
    names = ("fired", "fired_number", "last", "last_block")
    fires, fired = ("", "") if mixed else (", " + ", ".join(names), f", {NEVER}, 0, {NEVER}, 0")
    timed = "timers_until" in arrays.declared
    loop = indent(indent([*timers, *_chunk(mixed, tells_sources, body), *body]))
    # While the loop calls out, others look at the arrays, so what they have must stand there
    cells = [] if calls else _cells(arrays, loop)
    lines = [
        *(["from numpy import int64", ""] if cells else []),
        "from spdist.program.machine.arithmetic import *",
        "from spdist.program.machine.cell_kernels import *",
        "from spdist.program.machine.days import *",
        "from spdist.program.machine.hash_tables import *",
        "from spdist.program.machine.kernels import *",
        "from spdist.program.machine.sorting import *",
        *(["from spdist.program.machine.calls import *"] if calls else []),
        *(["from spdist.program.machine.purge_kernels import *"] if shape.purging else []),
        *(["from spdist.program.machine.reorder_kernels import *"] if shape.reorders else []),
        *(["from spdist.program.machine.shared import *"] if mixed else []),
        "",
        "",
        "@loop",
        f"def run(begins, ends, alone, at, until_of, which, fires, now, callback, {parameters}):",
        *([f"    until{fires} = timers_until[0]{fired}"] if timed else []),
        *(f"    {cell}_cell = {cell}[0]" for cell in cells),
        "    for c in range(len(begins)):",
        *_in_variables(cells, loop),
        *(f"    {cell}[0] = {cell}_cell" for cell in cells),
        *(["    timers_until[0] = until"] if timed else []),
        "    return now",
        "",
        "",
        # To compile what does nothing, or little, would cost a tenth of a second for every ten arrays.
        *(["@loop"] if expires else []),
        f"def expire(now, {parameters}):",
        *indent([*expires, *forgets]),
        "    return now",
    ]
    return "\n".join(lines) + "\n"


def _chunk(mixed: bool, tells_sources: bool, body: list[str]) -> list[str]:
    """Return what is known of a chunk."""
    bounds = ["begin, end = begins[c], ends[c]"]
    if not tells_sources:
        # The arrays are not read where a chunk is where its number says: that is a sixth of what a filter costs.
        bounds = ["begin, end = c, c + 1", "if alone == 0:", *indent(bounds)]
    clock = ["if at[c] > now:", "    now = at[c]"]
    asked = tells_sources or any(re.search(r"\bnow\b", line) for line in body)
    return [
        *bounds,
        *([] if mixed else [f"number, rung = 0, {NEVER}"]),
        *(clock if asked else []),
        *(begun() if mixed else []),
    ]


def _cells(arrays: Arrays, lines: Sequence[str]) -> list[str]:
    """Return the arrays of which the loop uses the first number only.

    Each is a variable while it runs: another array's elements may be the same memory as an array's, as far as LLVM
    knows, so it would be read and written again wherever one of them is written to.
    """
    text = "\n".join(lines)
    # What is named without an index, too, is given to a function: that needs the array
    whole = {name for name, index in re.findall(r"\b([a-z]\w*)\b(\[0\])?", text) if not index}
    numbers = (name for name, array in arrays.declared.items() if array.dtype == NUMBER)
    return [name for name in numbers if name not in whole and f"{name}[0]" in text]


def _in_variables(cells: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return lines with the first numbers of these arrays as variables, which stay int64."""
    if not cells:
        return list(lines)
    cell = re.compile(rf"\b({'|'.join(cells)})\[0\]")
    # A name keeps one type in a function, and not all that is assigned need be an int64
    given = re.compile(rf"^( *)((?:{'|'.join(cells)})_cell) = (.+)$")
    changed = (cell.sub(r"\1_cell", line) if "[0]" in line else line for line in lines)
    return [given.sub(r"\1\2 = int64(\3)", line) if "_cell = " in line else line for line in changed]
