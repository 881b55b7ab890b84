"""Which stream processors have a typed form: what holds events back, or drops some, in front of a query."""

from __future__ import annotations

from dataclasses import dataclass

from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.expressions import type_of
from spdist.language.checking.scope import Scope
from spdist.operators.base import Timer, Timers, VirtualClock
from spdist.operators.core.parameters import constant_values
from spdist.operators.core.processors import ProcessorSetting
from spdist.operators.windows.reorder_akslack import AlphaKSlack
from spdist.operators.windows.reorder_kslack import KSlack
from spdist.program.expressions import NotTyped
from spdist.program.windows.kinds import FAR, Unique

__all__ = ["Adaption", "Deduplicated", "Processor", "Reordered", "is_processor", "processor_of"]

_REORDERS = {"reorder:kslack": KSlack, "reorder:akslack": AlphaKSlack}
_DEDUPLICATES = "unique:deduplicate"


@dataclass(frozen=True, slots=True)
class Adaption:
    """How the slack of ``reorder:akslack`` follows what comes; the names are those of its operator.

    Parameters
    ----------
    value : int
        The attribute whose values are looked at.
    batch_size : int
        After how many events the slack is adapted.
    threshold, critical_squared : float
        The error, and the critical value for how sure it is to be kept, squared.
    """

    value: int
    batch_size: int
    threshold: float
    critical_squared: float


@dataclass(frozen=True, slots=True)
class Reordered:
    """``reorder:kslack``, and with an `adaption` ``reorder:akslack``.

    Parameters
    ----------
    filters : tuple of Expression or StreamFunction
        What stands in front of it.
    time : int
        The attribute that events are put in the order of.
    timeout : int
        How old what is held may be at a wake-up, ms; -1: there are none.
    limit : int
        The longest slack, ms.
    discards : bool
        Whether events are dropped that are older than what was released last.
    adaption : Adaption, optional
        How the slack follows the values of an attribute.
    """

    filters: tuple[ast.Expression | ast.StreamFunction, ...]
    time: int
    timeout: int
    limit: int
    discards: bool
    adaption: Adaption | None = None

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return {self.time} if self.adaption is None else {self.time, self.adaption.value}

    @property
    def times(self) -> set[int]:
        """The attributes that say what time it is."""
        return {self.time}

    @property
    def timed(self) -> bool:
        """Whether something is done when time passes."""
        return self.timeout != -1


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """``unique:deduplicate``: of events with one key none passes in an interval, in ms, behind another one.

    For `filters` see `Reordered`.
    """

    filters: tuple[ast.Expression | ast.StreamFunction, ...]
    unique: Unique
    interval: int
    timed = True

    @property
    def known(self) -> set[int]:
        """The attributes that must not be null."""
        return set()

    @property
    def times(self) -> set[int]:
        """The attributes that say what time it is."""
        return set()


Processor = Reordered | Deduplicated


def is_processor(handler: ast.Handler) -> bool:
    """Tell whether a handler is a stream processor that may have a typed form."""
    return isinstance(handler, ast.StreamFunction) and handler.call.id in (*_REORDERS, _DEDUPLICATES)


def processor_of(
    call: ast.FunctionCall, filters: tuple[ast.Expression | ast.StreamFunction, ...], scope: Scope
) -> Processor:
    """Return a stream processor, given what stands in front of it; raises NotTyped."""
    named = [scope.resolve(one).attribute if isinstance(one, ast.Variable) else None for one in call.args]
    if call.id == _DEDUPLICATES:
        key, (_, interval) = call.args[0], constant_values(call.args)
        places = {scope.resolve(node).attribute for node in key.walk() if isinstance(node, ast.Variable)}
        unique = Unique(key, type_of(key, scope, catalog(False)), tuple(sorted(places)))
        return Deduplicated(filters, unique, _bounded(call, interval))
    given = _settings(call)
    adaption, time = None, named[0]
    if time is None or (isinstance(given, AlphaKSlack) and named[1] is None):
        raise NotTyped(f"{call.id} by what is no attribute", call.span)
    if isinstance(given, AlphaKSlack):
        assert named[1] is not None
        adaption = Adaption(named[1], given.batch_size, given.threshold, given.critical_squared)
    return Reordered(filters, time, _bounded(call, given.timeout), given.limit, given.discards, adaption)


def _settings(call: ast.FunctionCall) -> KSlack:
    """Return the operator, which knows what its arguments say."""
    timers = Timers(VirtualClock())
    return _REORDERS[call.id](
        ProcessorSetting(
            constants=constant_values(call.args),
            arguments=lambda timestamp, row: (),
            clock=timers.clock,
            timer=lambda wake: Timer(timers, (0, 0, 0), wake),
            emit=lambda chunk: None,
        )
    )


def _bounded(call: ast.FunctionCall, span: int) -> int:
    """Return a time that the loop calculates with; raises NotTyped."""
    if not -2 < span < FAR or (call.id == _DEDUPLICATES and span < 0):
        raise NotTyped(f"{call.id} with such a time", call.span)
    return span
