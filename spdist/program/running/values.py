"""The values of a program and those of Python and Arrow: numbers as they are, texts and objects by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spdist.language.types import Type
from spdist.mapping.read_rows import ARROW, column_of
from spdist.program.running.columns import values_of
from spdist.program.running.objects import ObjectTable
from spdist.program.running.texts import TextTable, numbers_of

__all__ = ["ProgramValues"]


class ProgramValues:
    """What stands for the values of a program.

    Parameters
    ----------
    kernels : module
        `spdist.program.machine.kernels`.
    first : Sequence of str
        The texts that have the first numbers.

    State
    -----
    The texts and the objects, by number.
    """

    def __init__(self, kernels: Any, first: Sequence[str]) -> None:
        self.texts = TextTable(kernels, first)
        self.objects = ObjectTable()

    def numbers(self, column: Any, type: Type, into: Any = None) -> Any:
        """Return the values of a column as a program has them; those of texts in `into`, if that is given."""
        return self.objects.numbers(column) if type is Type.OBJECT else numbers_of(column, type, self.texts, into)

    def column(self, values: Any, nulls: Any, type: Type) -> Any:
        """Return values as a column of its own, as the loop writes over them: one of Arrow, of objects a list."""
        if type is Type.OBJECT:
            return self.objects.objects(values, nulls)
        return self.texts.texts(values, nulls) if type is Type.STRING else values_of(values, nulls, type)

    def taken(self, values: Sequence[Any], type: Type, exactly: bool = False) -> tuple[Any, Any]:
        """Return Python's values as a program has them, 0 where they are null, and which of them are.

        Raises
        ------
        TypeError, pyarrow.ArrowException, ValueError, OverflowError
            One is not of the type, or half a character, or too large; a whole number is a real, unless `exactly`.
        """
        column: Any = values
        if type is not Type.OBJECT:
            column = column_of(values, type) if exactly else pa.array(values, ARROW[type])
        numbers = self.numbers(column, type)
        nulls = numbers == 0 if type is Type.OBJECT else column.is_null().to_numpy(zero_copy_only=False)
        return numbers, nulls

    def shown(self, values: Any, nulls: Any, type: Type) -> list[Any]:
        """Return values of a program as Python has them; None where `nulls` is not 0."""
        column = self.column(values, nulls, type)
        made: list[Any] = column if type is Type.OBJECT else column.to_pylist()
        return made

    def number(self, value: Any, type: Type) -> Any:
        """Return one value of Python, which is not null, as a program has it."""
        if type is Type.STRING:
            return self.texts.number(str(value))
        return self.objects.number(value) if type is Type.OBJECT else value

    def single(self, value: Any, type: Type) -> Any:
        """Return one value of a program, which is not null, as Python has it."""
        if type is Type.STRING:
            return self.texts.text(value)
        if type is Type.OBJECT:
            return self.objects.object(value)
        return bool(value) if type is Type.BOOL else value
