"""An app whose queries run as one compiled program (`spdist.program`), once that is there.

Until then, and where something has no typed form, the operators run. The state goes over at the beginning of a batch,
and back where somebody asks for a snapshot, or brings what the program cannot take.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from spdist.engine.local.app_context import AppContext
from spdist.engine.local.elements import AppElements
from spdist.engine.programs.operators_called import CalledOperators, asked_again
from spdist.engine.programs.state import (
    drop_state,
    forget_unused,
    lend_buckets,
    lent_stores,
    load_state,
    places_of,
    restore_operators,
    return_buckets,
    stored_state,
)
from spdist.language.checking.checked import CheckedApp
from spdist.operators.base import ALWAYS, Arrival
from spdist.operators.core.junction import Receiver, StreamPart
from spdist.operators.core.state_columns import Column
from spdist.operators.patterns.repeated_absences import MOST_PARTIALS
from spdist.operators.tables.on_demand import Needs
from spdist.operators.windows.reorder_kslack import TICK_MS
from spdist.program.expressions import NotTyped
from spdist.program.forms import forms_of
from spdist.program.machine.compiler import Compiled, Compiling, compile_after, is_available
from spdist.program.parts import Program
from spdist.program.patterns.shape import Matched
from spdist.program.read_shape import LoopWindow
from spdist.program.running.mixed import MixedRunning
from spdist.program.running.running import Running
from spdist.program.shape import Shape, streams_of
from spdist.program.states.state import held_rows

__all__ = ["UNWRITTEN", "Programmed"]

log = logging.getLogger(__name__)

#: What the reason begins with where writing a program has failed.
UNWRITTEN = "its program could not be written"


class Programmed:
    """The program of an app, and who runs the app: it, or the operators.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    context : AppContext
        Its streams and its clock.
    elements : AppElements
        The operators, subscribed to the streams; others have subscribed since.

    State
    -----
    That of the queries, while `active`.
    """

    def __init__(self, checked: CheckedApp, context: AppContext, elements: AppElements) -> None:
        self._context = context
        self._elements = elements
        self._forms = forms_of(checked)
        #: Why there is no program; empty where there is, or nobody has asked yet.
        self.reason = ""
        self._after = compile_after()
        self._compiling: Compiling | None = None
        self._seen = 0
        #: The program at work, while it runs the app.
        self.running: Running | None = None
        #: Its text, once it was written.
        self.program: Program | None = None
        #: Runs the elements that the program calls, where there are some.
        self._operators: CalledOperators | None = None
        self._undo: list[Callable[[], None]] = []
        self._behind: dict[str, list[Receiver]] = {}
        #: The time that the clock has come to, while timers that are due then have not fired.
        self._approached: int | None = None
        #: How far the clock may go in one step, ms; behind that operators skip what absences wait for.
        self.farthest = ALWAYS
        #: Due when the next timer of the program is: it has the only one that is set while it runs the app.
        self.timer = context.timer((-1, 1), self.advance)

    def compile(self) -> Compiling | None:
        """Write the program, where that was not done, and return what compiles it; None where it has no typed form."""
        if self._compiling is None and not self.reason:
            try:
                if not is_available():
                    raise NotTyped("numba is not installed")
                if self._after is None:
                    raise NotTyped("SPDIST_COMPILE_AFTER says never")
                try:
                    self.program = self._written(self._forms.whole)
                except NotTyped:  # then one that calls what has no typed form
                    self.program = self._written(self._forms.mixed)
                self._compiling = Compiling(self.program)
            except NotTyped as found:
                self.reason = found.reason
            except Exception as defect:  # of the writer: the operators run every app
                self.reason = f"{UNWRITTEN}: {defect!r}"
                log.warning("the app is not compiled, as %s", self.reason)
        return self._compiling

    def _written(self, shape: Shape) -> Program:
        self._shape = shape
        self.farthest = _farthest(shape)
        self._behind = _behind(shape, self._context, self._elements)
        if shape.is_mixed:
            reading = _reading(shape, self._context, self._elements)
            self._operators = CalledOperators(self._context, self._elements, shape, reading)
        return self._forms.program(shape, tuple(self._behind))

    @property
    def active(self) -> bool:
        """Whether the program runs the app."""
        return self.running is not None

    def saw(self, count: int) -> None:
        """Count events: an app that gets few is not compiled."""
        self._seen += count

    def begins(self) -> bool:
        """Return whether the program runs the app from now on: it begins to, once it is there."""
        if self.running is None and not self.reason:
            compiling = self.compile()
            compiled = None if compiling is None else compiling.ready()
            if compiled is not None:
                self._try(compiled, {})
            elif compiling is not None and self._after is not None and self._seen >= self._after:
                compiling.start()
        return self.running is not None

    def _try(self, compiled: Compiled, given: Mapping[tuple[str, str], Column]) -> None:
        """Let the program run the app, where it can."""
        try:
            self.begin(compiled, given)
        except (ValueError, OverflowError, TypeError):  # such as half a character
            self.reason = "the state has a value that is not of its type"
        except OSError:
            self.reason = "the process may not have so much address space"

    def begin(self, compiled: Compiled, given: Mapping[tuple[str, str], Column] | None = None) -> None:
        """Let the program run the app, from states by kind and key; where none is given, from that of the operators."""
        assert self.program is not None
        running = Running(self.program, compiled)
        if self._operators is not None:
            running = MixedRunning(self.program, compiled, self._operators)
        load_state(running, self._shape, self._elements, given or {})
        if isinstance(running, MixedRunning):
            lend_buckets(running, self._shape, self._elements)
        self.running = running  # Until here a failure leaves the state with the operators, which go on
        drop_state(running, self._shape, self._elements, self._context.timers)
        self._set_timer()
        self._divert()

    def reads(self, streams: Iterable[str]) -> bool:
        """Tell whether all these streams are sources of the program."""
        return set(streams) <= set(self._shape.sources)

    def takes_until(self, last: int) -> bool:
        """Tell whether events may come until `last`, ms: no timer of operators is due, or the program fires it."""
        if last - self._context.clock.now > self.farthest:
            return False
        return self._operators is not None or not self._context.timers.is_due(last, self.timer)

    # Events.

    def process_columns(self, parts: Mapping[str, StreamPart]) -> bool:
        """Process events as columns; see `spdist.engine.island.hosted.HostedApp.deliver_columns`."""
        assert self.running is not None
        self.timer.cancel()  # The loop fires what is due: called operators' timers must not have this one in front
        out = self.running.process_columns(parts, self._context.clock.now)
        if out is None:
            self.retire(self.running.refused)
            return False
        for cause, number in self.running.failures:
            lose(self._context, self._elements, self._shape, number, chunk_of(parts, cause))
        forget_unused(self.running)
        for stream, put in out.items():
            for receiver in self._behind[stream]:
                assert receiver.receive_columns is not None  # see `Junction.behind`
                receiver.receive_columns(put.rows, put.bounds, put.causes, put.stamps, put.numbers, put.times)
        self._set_timer()
        self._approached = approached_by(parts)
        if isinstance(self.running, MixedRunning) and self.running.costs_more():
            self.retire("so many events reach what has no typed form that operators are faster")
        return True

    def advance(self, to_ms: int) -> None:
        """Let time pass, and put out what timers do, with the clock at their times."""
        if self._approached is not None and self._approached <= to_ms:
            self._approached = None
        running, clock = self.running, self._context.clock
        if running is not None and to_ms - clock.now > self.farthest:
            self.retire("the clock goes past so many waits of an absence that operators skip most of them")
            return
        due = None if running is None else running.next_due
        if self._operators is not None:
            due = min((one for one in (due, self._context.timers.next_due) if one is not None), default=None)
        if running is None or due is None or due > to_ms:
            return
        self.timer.cancel()
        chunks = running.advance(to_ms, clock.now)
        forget_unused(running)
        self._set_timer()
        after = clock.now  # Called operators may have moved the clock past the times of these chunks
        for time, target, chunk in chunks:
            clock.now = time
            _hand_over(self._behind[target], chunk)
        clock.now = max(clock.now, after)

    def approach(self, to_ms: int) -> None:
        """Let time come to `to_ms`, with timers due then still to come if it was before; see `HostedApp.approach`."""
        self.advance(to_ms - 1)
        self._approached = to_ms if to_ms > self._context.clock.now else self._approached

    def _set_timer(self) -> None:
        """Have the app wake the program when its next timer is due."""
        due = None if self.running is None else self.running.next_due
        times = [] if due is None else [due]
        if self.timer.snapshot() != times:
            self.timer.restore(times)

    def _process_chunk(self, stream: str, arrivals: Sequence[Arrival]) -> None:
        """Process the events of one chunk with the clock where it is."""
        assert self.running is not None
        now = self._context.clock.now
        self.timer.cancel()
        chunks = self.running.process_chunk(stream, arrivals, now, now - (self._approached == now))
        if chunks is None:
            self.retire(self.running.refused)
            self._context.junction(stream).receive_chunk(arrivals)
            return
        for _, number in self.running.failures:
            lose(self._context, self._elements, self._shape, number, arrivals)
        forget_unused(self.running)
        self._set_timer()
        for target, chunk in chunks:
            _hand_over(self._behind[target], chunk)
        error = self.running.taken_failure() if isinstance(self.running, MixedRunning) else None
        if error is not None:
            raise error

    def _put_out(self, stream: str, chunk: Sequence[Arrival]) -> None:
        """Keep what operators put out until the program has ended, or hand it over where it does not run."""
        if isinstance(self.running, MixedRunning) and self.running.within:
            self.running.put_out(stream, chunk)
        else:
            _hand_over(self._behind[stream], chunk)

    # Who runs the app.

    def _divert(self) -> None:
        """Have the program receive what the operators did."""
        shape = self._shape
        typed = dict.fromkeys(stream for element in shape.looped for stream in streams_of(element))
        for stream in {**typed, **dict.fromkeys(shape.sources)}:
            if own := self._elements.reading(stream):  # else an inner stream
                self._undo.append(self._context.junction(stream).divert(0, own, self._receiver(stream)))
        for stream in self._behind if shape.is_mixed else ():
            junction = self._context.junction(stream)
            begin = 1 if stream in typed else self._elements.reading(stream)  # One receives for all that read it
            end = begin + len(self._behind[stream])
            self._undo.append(junction.divert(begin, end, _receiver_of(stream, self._put_out)))

    def _receiver(self, stream: str) -> Receiver:
        """Return what takes the events of a stream while the program runs the app."""
        if stream in self._shape.sources:
            return _receiver_of(stream, self._process_chunk)
        return _receiver_of(stream, self._returned if stream in self._shape.returned else self._fed)

    def _fed(self, stream: str, chunk: Sequence[Arrival]) -> None:
        """Let the operators run the app: a stream within the program is fed from outside."""
        self.retire(f"the stream {stream} is fed from outside")
        self._context.junction(stream).receive_chunk(chunk)

    def _returned(self, stream: str, chunk: Sequence[Arrival]) -> None:
        """Take what operators put out to a stream that typed queries read."""
        assert isinstance(self.running, MixedRunning)
        if self.running.within:
            self.running.feed(stream, chunk)
        else:
            self._process_chunk(stream, chunk)

    def retire(self, reason: str) -> None:
        """Let the operators run the app for good."""
        log.warning("the compiled program is not used any more: %s", reason)
        restore_operators(self._elements, self.snapshot())
        self.forget()
        self.reason = reason

    def forget(self) -> None:
        """Forget the state: the operators have it, or get another."""
        if self.running is not None:
            return_buckets(self._shape, self._elements)
        self.running = None
        self._set_timer()
        for undo in reversed(self._undo):  # Each brings back the receivers as they were before it
            undo()
        self._undo.clear()

    def snapshot(self) -> dict[tuple[str, str], Any]:
        """Return the state of each element that it runs, by kind and key, as the operators would have it."""
        if self.running is None:
            return {}
        self.running.expire(now := self._context.clock.now)
        return stored_state(self.running, self._shape, self._elements, now - (self._approached == now))

    def wanted(self, places: Collection[tuple[str, str]]) -> Collection[tuple[str, str]]:
        """Return the elements that the program would run, where it is compiled: its code is loaded."""
        compiling = None if self.reason else self.compile()
        if compiling is None or self.program is None or compiling.loaded() is None:
            return ()
        return places_of(self.program, self._shape) & set(places)

    def restore(self, states: Mapping[tuple[str, str], Column]) -> bool:
        """Let the program run the app from these states; tells whether it does, else nothing has changed."""
        if self._compiling is not None and (compiled := self._compiling.loaded()) is not None:
            self._try(compiled, states)
        return self.active

    @contextmanager
    def stores_lent(self, needs: Needs) -> Iterator[None]:
        """Let the operators have the rows that a question between the app's events needs."""
        if self.running is None:
            yield
            return
        with lent_stores(self.running, self._elements, needs, self.retire):
            yield

    def held_rows(self) -> int:
        """Return how many rows the state holds, as `spdist.engine.local.rows.count_rows` counts them."""
        if self.running is None:
            return 0
        self.running.expire(self._context.clock.now)
        return held_rows(self.running)


def _farthest(shape: Shape) -> int:
    """Return how far the clock may go in one step, ms: patterns and processors wake up for each wait on the way."""
    waits = [query.shortest_wait for query in shape.queries if isinstance(query, Matched)]
    waits += [TICK_MS] * shape.reorders
    return min((wait * MOST_PARTIALS for wait in waits if wait is not None), default=ALWAYS)


def _reading(shape: Shape, context: AppContext, elements: AppElements) -> dict[str, int]:
    """Return how many elements of the app read each of its streams."""
    read = {stream for element in shape.elements for stream in streams_of(element)}
    return {stream: elements.reading(stream) for stream in read if stream in context.junctions}


def _behind(shape: Shape, context: AppContext, elements: AppElements) -> dict[str, list[Receiver]]:
    """Return who gets events of streams behind the elements of an app."""
    _are_unwatched(shape, elements)
    read = {stream for element in shape.elements for stream in streams_of(element)}
    found: dict[str, list[Receiver]] = {}
    for stream, junction in context.junctions.items():
        own = elements.reading(stream)
        try:
            behind = junction.behind(own)
        except LookupError:
            raise NotTyped(f"the stream {stream}: who gets it takes one event after the other") from None
        if behind and stream in shape.sources:
            raise NotTyped(f"the stream {stream}, which is read and handed out")
        if behind:
            found[stream] = behind
        if own and stream not in read:
            raise NotTyped(f"the stream {stream}")
    return found


def _are_unwatched(shape: Shape, elements: AppElements) -> None:
    """Raise NotTyped where somebody outside gets what a named window of the program releases."""
    for element in shape.elements:
        if isinstance(element, LoopWindow) and elements.window(element.stream).observers:
            raise NotTyped(f"the named window '{element.stream}': who gets it takes one event after the other")


def _hand_over(receivers: Sequence[Receiver], chunk: Sequence[Arrival]) -> None:
    for receiver in receivers:
        if len(chunk) == 1:
            receiver.receive(*chunk[0])
        else:
            receiver.receive_chunk(chunk)


def _receiver_of(stream: str, process: Callable[[str, Sequence[Arrival]], None]) -> Receiver:
    """Return what receives single events and chunks of a stream, given what processes chunks."""
    return Receiver(lambda timestamp, row: process(stream, [(timestamp, row)]), lambda chunk: process(stream, chunk))


def approached_by(parts: Mapping[str, StreamPart]) -> int | None:
    """Return the time that chunks let the clock come to, ms, where timers that are due then have not fired."""
    last = max(int(part.times[-1]) for part in parts.values())
    until = max(int((part.times if part.until is None else part.until)[-1]) for part in parts.values())
    return last if until < last else None


# Events that a query of a program has failed on: its operators tell the error, and the stream counts them.


def chunk_of(parts: Mapping[str, StreamPart], rank: int) -> list[Arrival]:
    """Return the events of the chunk with a rank."""
    for part in parts.values():
        place = int(part.ranks.searchsorted(rank))
        if place < len(part.ranks) and part.ranks[place] == rank:
            return part.arrivals(place)
    raise IndexError(rank)


def lose(context: AppContext, elements: AppElements, shape: Shape, number: int, arrivals: Sequence[Arrival]) -> None:
    """Count the events of a chunk that the query with a number has failed on, with the error of its operators."""
    read = next(query for query in shape.queries if query.number == number)
    (stream,) = read.streams
    try:
        asked_again(context, elements, read.checked.name, stream)[1](arrivals)
    except Exception as error:
        context.junction(stream).failed(arrivals, error)
