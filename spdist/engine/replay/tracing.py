"""Why a deployed app has put something out: from group to group back to what came in from outside.

Each group is replayed alone, from what its state holds. Its causes that other groups have put out are explained further
by those. Values only: whoever asks says where logs come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spdist.engine.replay.causes import Budget, BudgetSpent, minimal_causes
from spdist.engine.replay.columns_log import MessageLog, ResultId
from spdist.engine.replay.equality import same_values
from spdist.engine.replay.evidence import Came, Cause, EventPlace, Evidence, StateBefore, shown
from spdist.engine.replay.input_log import GivenEvent
from spdist.engine.replay.message_ids import MessageId, sent_events
from spdist.engine.replay.shard_log import ShardLog
from spdist.errors import NotFoundError, SpdistError
from spdist.history import clock_text
from spdist.language.checking.checked import CheckedApp
from spdist.language.types import Schema
from spdist.operators.base import Arrival

__all__ = ["Logs", "Which", "trace"]

#: Which event of a stream: its place among those that come out again, its row, some of its values by name; or its time
#: and one of the last two, such as an event that `ClusterClient.read` returns.
Which = int | Sequence[Any] | Mapping[str, Any]
#: So many events that could not be traced further are told one by one.
_TOLD = 5
#: By how much decimals may differ in what is the same event.
_TOLERANCE = 1e-9


class Logs(Protocol):
    """Where the logs of a deployed app's groups come from."""

    def writers(self, stream: str) -> Sequence[str]:
        """Return under which names a stream is put out: those of instances, or of their shards."""
        ...

    def log(self, producer: str) -> ShardLog:
        """Return the log of an instance or shard; raises SpdistError where there is none."""
        ...

    def message(self, id: ResultId, stream: str) -> MessageLog:
        """Return of what a group of Spark Columns has made a result; raises SpdistError where nobody has it."""
        ...


def trace(
    checked: CheckedApp,
    logs: Logs,
    stream: str,
    which: Which = -1,
    *,
    id: str | None = None,
    attributes: Sequence[str] | None = None,
    budget: Budget,
    progress: Callable[[str], None] = lambda text: None,
) -> Evidence:
    """Return the events from outside that caused an event of a deployed app, with their places in topics.

    Parameters
    ----------
    checked : CheckedApp
        The whole app.
    logs : Logs
        What its groups were given.
    stream : str
        Where the event came out.
    which : int, sequence or mapping
        Which of those that come out when what is kept is replayed: see `Which`. Of several that fit the last is meant.
    id : str, optional
        The id of the message that held the event, as receivers see it: `which` is meant among the events in there.
    attributes : sequence of str, optional
        Those whose values have to be the same; by default all.
    budget : Budget
        How many events all replays together may deliver, the first one of each log apart.
    progress : callable, optional
        Is told in words how far it is.

    Raises
    ------
    NotFoundError
        No such event comes out of what is kept.
    SpdistError
        There is no log of a group that puts the stream out.
    """
    search = _Trace(logs, attributes, budget, progress)
    found = (
        search.find(stream, which) if not id else search.find_sent(stream, which, ResultId.of(id) or MessageId.of(id))
    )
    producer, number, event = found
    return search.whole(search.causes(producer, stream, number, event), checked)


@dataclass
class _Trace:
    """One search.

    State
    -----
    The logs that were looked at and what comes out of them, the evidence of each group and event, the causes from
    outside with how they came in, and what could not be traced further.
    """

    logs: Logs
    attributes: Sequence[str] | None
    budget: Budget
    progress: Callable[[str], None]
    known: dict[str, ShardLog] = field(default_factory=dict)
    came: dict[tuple[str, str], list[tuple[int, Arrival]]] = field(default_factory=dict)
    found: list[Evidence] = field(default_factory=list)
    roots: list[tuple[Cause, GivenEvent]] = field(default_factory=list)
    between: list[Came] = field(default_factory=list)
    untraced: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    #: What is told first.
    named: list[str] = field(default_factory=list)

    def log(self, producer: str) -> ShardLog:
        """Return the log of a producer, which is asked for once."""
        if producer not in self.known:
            self.progress(f"reading what {producer} was given")
            self.known[producer] = self.logs.log(producer)
        return self.known[producer]

    # --- which event
    def find(self, stream: str, which: Which) -> tuple[str, int, Arrival]:
        """Return which of all events that come out is meant: whose it is, its number there, and the event."""
        chosen: list[tuple[int, int, str, Arrival]] = []
        since: dict[int, str] = {}
        for writer in self.logs.writers(stream):
            log = self.log(writer)
            since[log.start] = log.since
            fits = _fitting(which, log.checked.streams[stream])
            came = enumerate(_came(log, stream))
            chosen += [(clock, n, writer, event) for n, (clock, event) in came if fits(event)]
            # Logs are large: only that of the latest event so far is kept.
            self.known = {one: log for one, log in self.known.items() if chosen and one == max(chosen, key=_when)[2]}
        chosen.sort(key=_when)
        place = which if isinstance(which, int) else -1
        if not -len(chosen) <= place < len(chosen):
            raise _missing(stream, which, len(chosen), since)
        _, number, writer, event = chosen[place]
        self.known[writer], number = self.log(writer).part(stream, number)
        return writer, number, event

    def find_sent(self, stream: str, which: Which, id: MessageId | ResultId) -> tuple[str, int, Arrival]:
        """Return which event is meant of those that a message held; see `find`."""
        producer, held = self._result(stream, id) if isinstance(id, ResultId) else self._sent_as(stream, id)
        fits = _fitting(which, self.known[producer].checked.streams[stream])
        chosen = [one for one in held if fits(one[1])]
        place = which if isinstance(which, int) else -1
        if not -len(chosen) <= place < len(chosen):
            told = f"event {which}" if isinstance(which, int) else f"event {_told(which)}"
            raise NotFoundError(f"the message {id} of '{stream}' has no {told}", hint=f"it holds {len(held):,} events")
        if len(held) > 1:
            number = held.index(chosen[place]) + 1
            self.named.append(f"message {id} holds {len(held):,} events of '{stream}': this is number {number}")
        return producer, *chosen[place]

    def _result(self, stream: str, id: ResultId) -> tuple[str, list[tuple[int, Arrival]]]:
        """Return who has sent a result that Spark Columns have made of one message, and the events in it."""
        found = self.logs.message(id, stream)
        self.known[found.producer] = found.log()
        return found.producer, found.events(id, stream)

    def _sent_as(self, stream: str, id: MessageId) -> tuple[str, list[tuple[int, Arrival]]]:
        """Return who has sent a message, and the events in it."""
        writers = self.logs.writers(stream)
        producer = next((one for one in writers if id.is_of(one)), None)
        if producer is None:
            others = ", ".join(writers[:_TOLD]) + (", …" if len(writers) > _TOLD else "")
            raise NotFoundError(
                f"{id} is no message of '{stream}' of this app as it runs now",
                hint=f"its ids begin with the name of who puts it out: {others}",
            )
        log = self.log(producer)
        self.progress(f"{producer}: looking for message {id} in {len(log.steps):,} events")
        return producer, sent_events(log, producer, stream, id)

    def _put_out(self, producer: str, stream: str) -> list[tuple[int, Arrival]]:
        """Return all that comes out of a log on a stream; see `_came`."""
        if (producer, stream) not in self.came:
            self.came[producer, stream] = _came(self.log(producer), stream)
        return self.came[producer, stream]

    # --- its causes
    def causes(self, producer: str, stream: str, number: int, event: Arrival) -> Evidence:
        """Return the evidence of one event of one group, and trace its causes further."""
        log, first = self.log(producer), not self.found
        evidence = minimal_causes(
            log,
            stream,
            number,
            expected=event,
            # They name attributes of the stream that was asked for; another one has others.
            attributes=self.attributes if first else None,
            # Of what other groups were given: all their events that are explained are among those.
            came=self.came.get((producer, stream)),
            budget=self.budget,
            progress=lambda text: self.progress(f"{producer}: {text}"),
        )
        self.found.append(evidence)
        given = {(one.stream, one.position): one for one in log.given()}
        copies = _copies(log, evidence.causes)
        for cause in evidence.causes:
            place = cause.stream, cause.position
            instead = f"{stream}: {cause.without}" if cause.without and not first else cause.without
            self._further(replace(cause, without=instead), given[place], log.producer(cause.place), copies[place])
        return evidence

    def _further(self, cause: Cause, given: GivenEvent, producer: str, copies: int) -> None:
        """Explain a cause by the group that has put it out; one that came from outside is a cause of the whole.

        It is the last of so many equal events.
        """
        key = repr(_event_key(given, cause.place))
        # An event may be a cause of several, and groups may feed each other in a circle: each is explained once.
        if key in self.seen:
            return
        self.seen.add(key)
        if not producer:
            self.roots.append((cause, given))
            return
        number, why = None, ""
        try:
            log = self.log(producer)
            if (producer, cause.stream) not in self.came:
                self.budget.spend(len(log.steps))
            number = _number(self._put_out(producer, cause.stream), cause, copies)
            why = f"of what {producer} was given before {clock_text(log.start)} nothing is kept"
        except BudgetSpent:
            why = "the budget was spent"
        except SpdistError as error:
            why = error.message
        if number is None:
            self.roots.append((cause, given))
            self.untraced.append(f"{cause.stream} at {clock_text(cause.timestamp)} is not traced further: {why}")
            return
        self.between.append(Came(cause.stream, cause.timestamp, cause.row))
        self.causes(producer, cause.stream, number, (cause.timestamp, cause.row))

    # --- together
    def whole(self, evidence: Evidence, checked: CheckedApp) -> Evidence:
        """Return the evidence of the whole app, given that of the group that has put the event out."""
        # Chunks of several groups tell no order; of one they do.
        self.roots.sort(key=lambda one: (one[1].clock, one[1].chunk, one[1].position))
        through = [came for one in reversed(self.found) for came in one.through]
        made = replace(
            evidence,
            app=checked.name,
            causes=tuple(cause for cause, _ in self.roots),
            intervals=tuple(_once(one for found in reversed(self.found) for one in found.intervals)),
            through=tuple(_once([*self.between, *through])),
            sent=len(self._sent(evidence.clock) | {_event_key(given, cause.place) for cause, given in self.roots}),
            replays=sum(one.replays for one in self.found),
            minimal=all(one.minimal for one in self.found),
            schemas=dict(checked.streams),
            states=self._states(),
            notes=tuple(self._notes()),
        )
        return made if len(self.found) == 1 or self.untraced else self._checked_whole(made, checked)

    def _checked_whole(self, made: Evidence, checked: CheckedApp) -> Evidence:
        """Drop what the whole app can do without: what one group needs another one may make of something else."""
        log, event = self._whole_log(checked, made.clock), made.event
        names = checked.streams[event.stream].names
        compared = [n for n, name in enumerate(names) if self.attributes is None or name in self.attributes]
        # The whole app begins empty here: what needed the state of a group does not come out of it again.
        came = [] if any(one.needed for one in made.states) else log.events(event.stream)
        number = next((n for n, one in enumerate(came) if _is_same(event, one, compared)), None)
        if number is None:
            told = "it was found group by group: each cause is needed for what its group has put out"
            return replace(made, notes=(*made.notes, told))
        again = minimal_causes(
            log, event.stream, number, attributes=self.attributes, budget=self.budget, progress=self.progress
        )
        without = {(one.stream, one.place or one.position): one.without for one in again.causes}
        places = [(one.stream, one.place or n) for n, one in enumerate(made.causes)]
        causes = [
            replace(cause, without=without[place])
            for cause, place in zip(made.causes, places, strict=True)
            if place in without
        ]
        return replace(
            made, causes=tuple(causes), replays=made.replays + again.replays, minimal=made.minimal and again.minimal
        )

    def _whole_log(self, checked: CheckedApp, end: int) -> ShardLog:
        """Return a log of the whole app with the causes alone."""
        came = list(enumerate(self.roots))
        steps = [replace(given, chunk=n, position=n, before_timers=False) for n, (_, given) in came]
        places = {(given.stream, n): cause.place for n, (cause, given) in came if cause.place is not None}
        start = min(log.start for log in self.known.values())
        live = not checked.playback
        return ShardLog(checked, tuple(steps), min(start, end), end, live=live, places=places)

    def _states(self) -> tuple[StateBefore, ...]:
        """Return the state of each group once: the one that was needed, where there is one."""
        states: dict[str, StateBefore] = {}
        for one in (state for found in self.found for state in found.states):
            if one.needed or one.name not in states:
                states[one.name] = one
        return tuple(states.values())

    def _notes(self) -> Iterator[str]:
        yield from self.named
        yield from self.untraced[:_TOLD]
        if len(self.untraced) > _TOLD:
            yield f"{len(self.untraced) - _TOLD:,} more events are not traced further"

    def _sent(self, until: int) -> set[tuple[str, EventPlace | int]]:
        """Return which events from outside had come in, of the logs that were looked at."""
        return {
            _event_key(given, place)
            for log in self.known.values()
            for given in log.given(until)
            for place in [log.place(given)]
            if not log.producer(place)
        }


def _event_key(given: GivenEvent, place: EventPlace | None) -> tuple[str, EventPlace | int]:
    return given.stream, place or given.position


def _when(one: tuple[int, int, str, Arrival]) -> tuple[int, int]:
    return one[:2]


def _came(log: ShardLog, stream: str) -> list[tuple[int, Arrival]]:
    """Return all events of a stream when a log is replayed, each with the app's time."""
    came: list[tuple[int, Arrival]] = []
    app = log.app()
    app.subscribe(stream, lambda timestamp, row: came.append((app.clock, (timestamp, row))))
    log.replay(app, log.steps)
    return came


def _copies(log: ShardLog, causes: Sequence[Cause]) -> dict[tuple[str, int], int]:
    """Return, by stream and position of each cause, how many equal events its group had been given by its producer."""
    at: dict[tuple[str, int], list[GivenEvent]] = {}
    for one in log.given():
        at.setdefault((one.stream, one.timestamp), []).append(one)
    return {
        (cause.stream, cause.position): sum(
            one.position <= cause.position
            and same_values(one.row, cause.row)
            and log.producer(log.place(one)) == log.producer(cause.place)
            for one in at[cause.stream, cause.timestamp]
        )
        for cause in causes
    }


def _number(came: Sequence[tuple[int, Arrival]], cause: Cause, copies: int) -> int | None:
    """Return the number of the last of so many events that are equal to a cause."""
    for number, (_, event) in enumerate(came):
        copies -= event[0] == cause.timestamp and same_values(event[1], cause.row, _TOLERANCE)
        if copies == 0:
            return number
    return None


def _is_same(event: Came, other: Arrival, compared: Sequence[int]) -> bool:
    timestamp, row = other
    return timestamp == event.timestamp and all(same_values(event.row[n], row[n], _TOLERANCE) for n in compared)


def _fitting(which: Which, schema: Schema) -> Callable[[Arrival], bool]:
    """Return what tells whether an event is one of those that are meant."""
    if isinstance(which, int):
        return lambda event: True
    if isinstance(which, Mapping):
        if unknown := sorted(which.keys() - set(schema.names)):
            raise NotFoundError(f"the stream has no attribute {unknown[0]}", hint=f"it has: {schema}")
        wanted = [(schema.names.index(name), value) for name, value in which.items()]
        return lambda event: all(same_values(value, event[1][place]) for place, value in wanted)
    if _is_event(which):
        timestamp, row = which
        fits = _fitting(row, schema)
        return lambda event: event[0] == timestamp and fits(event)
    return lambda event: same_values(tuple(which), event[1])


def _is_event(which: Sequence[Any]) -> bool:
    """Tell whether it is an event with its time, as reading a stream gives it, and no row."""
    return len(which) == 2 and type(which[0]) is int and isinstance(which[1], tuple | list | Mapping)


def _missing(stream: str, which: Which, count: int, since: Mapping[int, str]) -> NotFoundError:
    kept = f"{since[min(since)]}; what came out before cannot be explained"
    if isinstance(which, int):
        return NotFoundError(f"'{stream}' has no event {which}: {count:,} come out of what is kept", hint=kept)
    return NotFoundError(f"no event {_told(which)} of '{stream}' comes out of what is kept", hint=kept)


def _told(which: Sequence[Any] | Mapping[str, Any]) -> str:
    if isinstance(which, Mapping):
        return shown(tuple(which), tuple(which.values()))
    return f"{_told(which[1])} at {clock_text(which[0])}" if _is_event(which) else repr(tuple(which))


def _once(found: Iterable[Any]) -> list[Any]:
    """Return values in order, each once; rows may hold what cannot be hashed."""
    kept: dict[str, Any] = {}
    for one in found:
        kept.setdefault(repr(one), one)
    return list(kept.values())
