"""How the text of a program is compiled: by those passes of numba that it needs; only imported where there is numba.

The others look for closures, functions to be written out, lists of unlike things, and rewrite array expressions: a
program has numbers, pointers and loops. Nor does each assignment become a variable of its own (`ReconstructSSA`), as
LLVM does that again, and faster, but where a name has numbers of several types. What numba finds for a call
of some types it is asked once, and variables end only where their values are counted. A text is compiled in 0.3 of the
time, to the same instructions.

Processes that compile at the same time share numba's cache of functions; here they wait for each other while one of
them writes to it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numba
from numba.core import ir, types
from numba.core.caching import IndexDataCacheFile
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.errors import TypingError
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, ReconstructSSA, TranslateByteCode

from spdist.program.machine.arithmetic import HOW

__all__ = ["program"]

#: What a variable may be that is given such a number: as anything else it would not always be the same number, or would
#: not be computed with in the same way.
_MAY_BE = {
    types.int64: (types.int64, types.uint64),
    types.uint64: (types.int64, types.uint64),
    types.float32: (types.float32,),
}


class _Remembering:
    """numba's typing context, which remembers what it found for functions and types of their arguments."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._found: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call; numba asks for it."""
        asked = func, tuple(args), tuple(kws.items() if kws else ())
        found = self._found.get(asked)
        if found is None:
            found = self._found[asked] = self._context.resolve_function_type(func, args, kws)
        return found


@register_pass(mutates_CFG=True, analysis_only=False)
class _Types(NopythonTypeInference):
    """Finds the type of each variable, and looks at what it is given."""

    _name = "spdist_types"

    def run_pass(self, state: Any) -> bool:
        """Find them; numba asks for it."""
        # The first attempt sets the type of the result, which the second one must not be given.
        asked, context = state.return_type, state.typingctx
        state.typingctx = _Remembering(context)
        try:
            super().run_pass(state)
            mixed = _is_mixed(state)
        except TypingError:
            mixed = True  # a name has types that none has in common; who uses one wrongly is told below
        if mixed:
            state.return_type = asked
            ReconstructSSA().run_pass(state)
            super().run_pass(state)
            # SSA has made phi nodes, which lowering does not know.
            PreLowerStripPhis().run_pass(state)
        state.typingctx = context
        return True


def _is_mixed(state: Any) -> bool:
    """Return whether a variable is given numbers of another type than its own, so it is several variables."""
    for block in state.func_ir.blocks.values():
        for one in block.find_insts(ir.Assign):
            own = state.typemap[one.target.name]
            if own not in _MAY_BE.get(_given(state, one.value), (own,)):
                return True
    return False


def _given(state: Any, value: Any) -> Any:
    """Return the type of what is assigned; None where it is nothing computed."""
    if isinstance(value, ir.Var):
        return state.typemap[value.name]
    return getattr(state.calltypes.get(value), "return_type", None)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Ends(IRLegalization):
    """Says where variables end whose values are counted, which are arrays.

    numba's own pass says it of all variables, which takes a third of the time of a large program. To LLVM the end of a
    number or a pointer would be one more value to store.
    """

    _name = "spdist_ends"

    def run_pass(self, state: Any) -> bool:
        """Say it; numba asks for it."""
        form, models = state.func_ir, state.targetctx.data_model_manager
        form.blocks = canonicalize_cfg(form.blocks)
        counted = {name for name, type in state.typemap.items() if models[type].contains_nrt_meminfo()}
        lifetime = form.variable_lifetime = VariableLifetime(form.blocks)
        for of_blocks in lifetime.usedefs:
            for names in of_blocks.values():
                names &= counted
        PostProcessor(form)._insert_var_dels()
        return True


class _Passes(CompilerBase):
    """Those passes."""

    def define_pipelines(self) -> list[Any]:
        """Return how a function is compiled; numba asks for it."""
        made = PassManager("program")
        for one in (TranslateByteCode, FixupArgs, _Types, _Ends, NativeLowering, NoPythonBackend):
            made.add_pass(one, one.__name__)
        made.finalize()
        return [made]


def _locked(method: Callable[..., Any], how: int) -> Callable[..., Any]:
    """Return a method of numba's cache of a function that holds a lock of its file meanwhile.

    Without it two processes that save code for other types give it one name: what is loaded for one is that of the
    other, and who calls the function cannot be compiled any more.
    """

    def call(cache: Any, *given: Any) -> Any:
        with ExitStack() as stack:
            try:
                lock = stack.enter_context(open(f"{cache._index_path}.lock", "w", encoding="utf-8"))
                fcntl.flock(lock, how)
            except OSError:
                pass  # there is no such folder yet, or it only can be read
            return method(cache, *given)

    return call


IndexDataCacheFile.save = _locked(IndexDataCacheFile.save, fcntl.LOCK_EX)  # type: ignore[method-assign]
IndexDataCacheFile.load = _locked(IndexDataCacheFile.load, fcntl.LOCK_SH)  # type: ignore[method-assign]
program = numba.njit(**HOW, pipeline_class=_Passes)  # type: ignore[call-overload]
