"""Demand: the loop asks for room where only it knows how much is coming: that has no bound in the events of a call.

Each who asks has an allowance: of so much that comes all arrays have room for what follows from it (`Most.of`
`asked(name)`). What is about to come is taken off; where that is too little, the loop calls out, and `Rooms.ask` lets
the arrays grow where they are (`spdist.program.running.reserve`). So nothing is interrupted, and what stands around it
in the loop, in whatever depth, goes on with the same arrays.
"""

from __future__ import annotations

from spdist.program.arrays import Arrays
from spdist.program.expressions import NUMBER

__all__ = ["Demand"]


class Demand:
    """Writes what asks for room.

    Parameters
    ----------
    arrays : Arrays
        Where the allowance is declared.
    name : str
        Who asks.
    room : str
        What the arrays of its results have a place for (`spdist.program.arrays.Array`).
    """

    def __init__(self, arrays: Arrays, name: str, room: str) -> None:
        self._site = arrays.asks(name, room)
        self._allowed = arrays.declare(f"{name}_allowed", NUMBER, "1")

    def asks(self, bound: str, count: str, refused: list[str]) -> list[str]:
        """Return what asks for room, where there is too little.

        Parameters
        ----------
        bound : str
            Source of how many results there may be now.
        count : str
            Source of how many stand in the buffers.
        refused : list of str
            What is done where there is none: the call fails when the loop has ended.
        """
        return [
            f"{self._allowed}[0] -= {bound}",
            f"if {self._allowed}[0] < 0:",
            f"    if called(callback, {self._site}, {bound}, {count}) != 0:",
            *(f"        {line}" for line in refused),
        ]
