"""Loops: a query's whole path, from its stream to its results, as one generated function over single events.

Sending many events one by one spends most of its time between the functions of junction, filter, window and selector. A
loop is the same text written into one function: clock and timers, filters, window, totals and results, for one event
after the other, so that order, timers and failures are those of `LocalApp.send`. It exists where a query is the only
one that reads a stream, has no stream function, and either puts out current events of no window or of one that slides,
or collects batches; all else takes the plain way. Both give the same results: tests/properties/test_engine_laws.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spdist.language import ast
from spdist.operators.base import WindowLoop
from spdist.operators.core.junction import Drive, Loop, ObserverFailed
from spdist.operators.expressions.codegen import Frame, build, indent
from spdist.operators.expressions.expression import ExpressionWriter
from spdist.operators.selection.selector import SelectClause, SelectorOutput, SelectorWriter

__all__ = ["LoopPlan", "by_key"]


@dataclass(frozen=True)
class LoopPlan:
    """How the loops of one query are written.

    Parameters
    ----------
    selection : SelectClause
        What the query puts out.
    filters : tuple of Expression
        Conditions in front of the window.
    window : WindowLoop, optional
        The window's part; None where there is no window.
    """

    selection: SelectClause
    filters: tuple[ast.Expression, ...] = ()
    window: WindowLoop | None = None
    _makers: dict[tuple[bool, str], Callable[..., Any]] = field(default_factory=dict)

    def loop(self, query: Any, sink: SelectorOutput, drive: Drive) -> Loop:
        """Return the loop of a query outside of partitions, which has ``totals`` and ``window``."""
        return self._made((), query, sink, drive)

    def keyed(self, finding: tuple[str, ...], names: dict[str, Any], sink: SelectorOutput | None, drive: Drive) -> Loop:
        """Return the loop of a query in a partition.

        Parameters
        ----------
        finding : tuple of str
            Lines that set ``query``, or go on to the next event; see `by_key`.
        names : dict
            What they use.
        sink : SelectorOutput, optional
            Where results go; None where the lines set ``emit`` too.
        drive : Drive
            See there.
        """
        return self._made(finding, None, sink, drive, names)

    def _made(
        self,
        finding: tuple[str, ...],
        query: Any,
        sink: SelectorOutput | None,
        drive: Drive,
        names: dict[str, Any] | None = None,
    ) -> Loop:
        how, emit = _delivery(sink) if sink is not None else ("sink", None)
        maker = self._makers.get((bool(finding), how))
        if maker is None:
            source = self._source(finding, how, tuple(names or ()))
            bindings = {**self.selection.bindings.names, "ObserverFailed": ObserverFailed}
            made = build(f"{self.selection.title} loop", source, bindings)["make"]
            maker = self._makers[bool(finding), how] = made
        loop: Loop = maker(drive, query, emit, *(names or {}).values())
        return loop

    def _source(self, finding: tuple[str, ...], how: str, names: tuple[str, ...]) -> list[str]:
        current = SelectorWriter(self.selection, "each", _EMISSIONS[how])
        state = ["state = query.totals", *current.bound()]
        window = ["window = query.window", *self.window.setup] if self.window is not None else []
        # Without keys the state is one for all events; the window's part may be replaced by a restore between batches.
        outer, inner = (state, []) if not finding else ([], [*finding, *state, *window])
        body = [*_CLOCK, *inner, *self.event(current)]
        loop = [
            "events = zip(timestamps, rows)",
            *([] if finding else window),
            # The iterator outlives a failure: the loop goes on with the event behind the one that failed.
            "while True:",
            "    try:",
            "        for at, new in events:",
            *indent(body, 3),
            "        return",
            "    except Exception as error:",
            "        failed(((at, new),), error)",
        ]
        return [
            f"def make({', '.join(('drive', 'query', 'emit', *names))}):",
            "    clock, heap, move, failed = drive.clock, drive.heap, drive.move, drive.failed",
            *indent(outer),
            *indent(current.functions()),
            "    def process_events(timestamps, rows):",
            *indent(loop, 2),
            "    return process_events",
        ]

    def event(self, current: SelectorWriter) -> list[str]:
        """Return what is done with the event ``new`` that came ``at`` its time."""
        collects = self.window is not None and self.window.releases
        lines = [] if collects and not self.filters else ["ts, row = at, new"]
        if self.filters:
            frame = Frame()
            writer = ExpressionWriter(
                self.selection.reader(frame, self.selection.bindings), frame, self.selection.bindings
            )
            for condition in self.filters:
                test = writer.condition(condition)
                lines += [*frame.assignments(), f"if not {test}:", "    continue"]
        if self.window is not None:
            lines += self.window.lines
            if self.window.releases:
                return lines
            # What leaves counts first, as in the chunk of a window: EXPIRED stands before CURRENT.
            leaving = SelectorWriter(self.selection, "gone").event()
            if leaving:
                lines += ["if gone:", "    ts = clock.now", "    for _, row in gone:", *indent(leaving, 2)]
                lines += ["    ts, row = at, new"]
        return [*lines, *current.event()]


def _delivery(sink: SelectorOutput) -> tuple[str, Callable[..., None] | None]:
    """Return the shortest way for one current event to those who get it, as things are now."""
    stream = sink.direct_target()
    if stream is None:
        return "sink", sink.receive
    observer = stream.only_observer()
    return ("stream", stream.receive) if observer is None else ("observer", observer)


_CLOCK = ("if heap and heap[0][0] <= at:", "    move(at)", "elif at > clock.now:", "    clock.now = at")
_EMISSIONS = {
    "sink": ("emit(0, ts, o)",),
    "stream": ("emit(ts, o)",),
    "observer": (
        "try:",
        "    emit(ts, o)",
        "except Exception as error:",
        "    raise ObserverFailed(error) from error",
    ),
}


def by_key(attribute: int | None, position: int, inner: bool) -> tuple[str, ...]:
    """Return the lines that set ``query`` to the one of the event's partition key.

    Parameters
    ----------
    attribute : int, optional
        Where the key is a string attribute: its position; else ``keys`` is asked.
    position : int
        Of the query in the partition.
    inner : bool
        Whether it writes an inner stream, of which each key has its own.
    """
    lines = ["for key in keys(at, new):", "    break", "else:", "    continue"]
    if attribute is not None:
        lines = [f"key = new[{attribute}]", "if key is None:", "    continue"]
    lines += ["instance = instances.get(key)", "if instance is None:", "    instance = create(key)"]
    lines += [f"query = instance.queries[{position}]"]
    return (*lines, "emit = query.sink.receive") if inner else tuple(lines)
