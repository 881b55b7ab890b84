"""What is known of a stream processor with a typed form: what holds events back, or drops some, before a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.program.windows.kinds import Unique

__all__ = ["Processor"]


@dataclass(frozen=True, slots=True)
class Processor:
    """A stream processor with a typed form: what its app says of it, and who writes it and knows its state.

    Each kind has a class of its own, in one file with what that names (`spdist.program.registry`).

    Parameters
    ----------
    filters : tuple of Expression or StreamFunction
        What stands in front of it.
    """

    filters: tuple[ast.Expression | ast.StreamFunction, ...]

    @classmethod
    def of(
        cls, call: ast.FunctionCall, filters: tuple[ast.Expression | ast.StreamFunction, ...], scope: Scope
    ) -> Processor:
        """Return what an app says, given what stands in front of it; raises NotTyped."""
        raise NotImplementedError

    @property
    def writer(self) -> type[Any]:
        """What writes it: a `ProcessorWriter`."""
        raise NotImplementedError

    @property
    def states(self) -> Any:
        """What takes its state over from operators, and gives it back: `ProcessorStates`."""
        raise NotImplementedError

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return set()

    @property
    def times(self) -> set[int]:
        """The attributes that say what time it is."""
        return set()

    @property
    def timed(self) -> bool:
        """Whether something is done when time passes."""
        return False

    @property
    def keyed_by(self) -> Unique | None:
        """What it keeps one of each key of, if it does."""
        return None

    @property
    def begins(self) -> bool:
        """Whether something of it begins with a key of a partition, before events come to it (`ProcessorWriter`)."""
        return False

    @property
    def reorders(self) -> bool:
        """Whether it puts events in order, in heaps."""
        return False
