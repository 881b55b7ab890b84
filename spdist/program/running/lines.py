"""The lines that a loop has noted for the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spdist.functions.streams import told
from spdist.program.arrays import LINES
from spdist.program.running.texts import TextTable

__all__ = ["write_lines"]


def write_lines(arrays: Mapping[str, Any], texts: TextTable) -> None:
    """Write what the loop has noted, in that order; then there is nothing. There must be a ``#log`` in the program."""
    count, arrays[LINES][0] = int(arrays[LINES][0]), 0
    levels, numbers = (arrays[f"{LINES}_{name}"][:count].tolist() for name in ("level", "text"))
    for level, number in zip(levels, numbers, strict=True):
        told(level, None if number < 0 else texts.text(number))
