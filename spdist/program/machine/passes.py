"""How the text of a program is compiled: without passes that find nothing in it; only imported where there is numba.

They look for closures, functions to be written out, lists of unlike things, and rewrite array expressions: a program
has numbers, pointers and loops. Without them a text is compiled in 0.7 of the time.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager

from spdist.program.machine.arithmetic import HOW

__all__ = ["program"]

_FIND_NOTHING = {
    "DeadBranchPrune",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NopythonRewrites",
}


class _Passes(CompilerBase):
    """numba's own passes but those."""

    def define_pipelines(self) -> list[Any]:
        """Return how a function is compiled; numba asks for it."""
        made = PassManager("program")
        for one, why in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if one.__name__ not in _FIND_NOTHING:
                made.add_pass(one, why)
        made.finalize()
        return [made]


program = numba.njit(**HOW, pipeline_class=_Passes)  # type: ignore[call-overload]
