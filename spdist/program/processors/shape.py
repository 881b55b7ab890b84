"""Which stream processors have a typed form: what holds events back, or drops some, in front of a query."""

from __future__ import annotations

from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.program.expressions import NotTyped
from spdist.program.processors.kinds import Processor
from spdist.program.registry import PROCESSORS
from spdist.program.windows.kinds import FAR

__all__ = ["bounded", "is_processor", "processor_of"]


def is_processor(handler: ast.Handler) -> bool:
    """Tell whether a handler is a stream processor that may have a typed form."""
    return isinstance(handler, ast.StreamFunction) and PROCESSORS.find(handler.call.id) is not None


def processor_of(
    call: ast.FunctionCall, filters: tuple[ast.Expression | ast.StreamFunction, ...], scope: Scope
) -> Processor:
    """Return a stream processor, given what stands in front of it; raises NotTyped."""
    described = PROCESSORS.find(call.id)
    assert described is not None
    made: Processor = described.of(call, filters, scope)
    return made


def bounded(call: ast.FunctionCall, span: int, least: int) -> int:
    """Return a time that the loop calculates with, ms; raises NotTyped."""
    if not least <= span < FAR:
        raise NotTyped(f"{call.id} with such a time", call.span)
    return span
