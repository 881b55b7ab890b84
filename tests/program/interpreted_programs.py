"""Programs that are there as soon as they are written: executed by Python, not compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from spdist.engine.programs import programmed
from spdist.program.machine.compiler import Compiled, interpreted
from spdist.program.parts import Program
from spdist.program.queries import group_text
from spdist.program.running import forgetting
from spdist.program.states import partition

__all__ = ["programs"]


class _Interpreted:
    """Stands for `spdist.program.machine.compiler.Compiling`."""

    def __init__(self, program: Program) -> None:
        self._compiled = interpreted(program)

    def ready(self) -> Compiled:
        return self._compiled

    loaded = ready


@contextmanager
def programs(there: bool = True) -> Iterator[None]:
    """All apps are run by their programs, where they have one; or none is."""
    with (
        patch.object(programmed, "Compiling", _Interpreted),
        patch.object(programmed, "is_available", lambda: there),
        patch.object(forgetting, "_FEW", 4),
        patch.object(group_text, "MOST_WAITING", 2),
        patch.object(partition, "_FEW", 2),
    ):
        yield
