"""Which event of a log is meant, and whether it is there again when only a part of the log is replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spdist.engine.replay.equality import same_values
from spdist.engine.replay.evidence import Came, value_text
from spdist.engine.replay.input_log import InputLog
from spdist.errors import NotFoundError, StateError
from spdist.history import clock_text
from spdist.language.checking.scope import undefined
from spdist.operators.base import Arrival, Row

__all__ = ["Aim", "came_instead", "find_aim"]

#: Of running totals the last digits depend on what has left them.
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Aim:
    """The event that is to be there.

    Parameters
    ----------
    event : Came
        It.
    clock : int
        The app's time when it came out, ms.
    compared : tuple of int
        The positions of the values that have to be the same.
    copies : int
        How many such events there had been then, itself included.
    """

    event: Came
    clock: int
    compared: tuple[int, ...]
    copies: int = 0

    def fits(self, timestamp: int, row: Row) -> bool:
        """Tell whether an event is one of them."""
        own = self.event
        return timestamp == own.timestamp and all(same_values(own.row[i], row[i], _TOLERANCE) for i in self.compared)


def find_aim(
    log: InputLog,
    stream: str,
    which: int | Sequence[Any],
    expected: Arrival | None,
    attributes: Sequence[str] | None,
    came: Sequence[tuple[int, Arrival]] | None = None,
) -> Aim:
    """Find an event among those that come out of a log, which is replayed where it is not known what does.

    The rest is as of `spdist.engine.replay.causes.minimal_causes`.
    """
    if stream not in log.checked.streams:
        raise undefined("stream", stream, None, log.checked.streams)
    names = log.checked.streams[stream].names
    for name in attributes or ():
        if name not in names:
            raise undefined("attribute", name, None, names)
    out = _until(log, stream, which) if came is None else came
    if isinstance(which, Sequence):
        number = next((i for i, (_, (_, row)) in enumerate(out) if same_values(which, row)), len(out))
    else:
        number = which + len(out) if which < 0 else which
    if not 0 <= number < len(out):
        what = f"row {tuple(which)!r}" if isinstance(which, Sequence) else f"event {which}"
        told = f"'{stream}' has no {what}: {len(out):,} events come out"
        raise NotFoundError(told, hint="the first one is 0, the last one -1")
    clock, (timestamp, row) = out[number]
    event = Came(stream, timestamp, row)
    if expected is not None and not same_values(expected, (event.timestamp, event.row), _TOLERANCE):
        raise StateError(
            f"replayed, event {number} of '{stream}' is {event.row!r} at {clock_text(event.timestamp)}, "
            f"not {expected[1]!r} at {clock_text(expected[0])}",
            hint="the app depends on what is not recorded: a database, or a function with a state of its own",
        )
    compared = tuple(i for i, name in enumerate(names) if attributes is None or name in attributes)
    aim = Aim(event, clock, compared)
    return replace(aim, copies=sum(aim.fits(*one) for _, one in out[: number + 1]))


def _until(log: InputLog, stream: str, which: int | Sequence[Any]) -> list[tuple[int, Arrival]]:
    """Replay a log until an event comes out; return all that came out by then, each with the app's time."""
    came: list[tuple[int, Arrival]] = []
    app = log.app()

    def is_out() -> bool:
        if isinstance(which, Sequence):
            # Only to stop early: where several came together, the first one that fits is looked for behind the replay.
            return any(same_values(which, row) for _, (_, row) in came[-1:])
        return len(came) > which >= 0

    app.subscribe(stream, lambda timestamp, row: came.append((app.clock, (timestamp, row))))
    log.replay(app, log.steps, done=is_out)
    return came


def came_instead(event: Came, names: Sequence[str], instead: Sequence[Arrival], known: Sequence[Arrival]) -> str:
    """Say what came out in place of an event.

    Parameters
    ----------
    event : Came
        The event.
    names : sequence of str
        Its attributes.
    instead : sequence of (timestamp, row)
        What came out at its time or with its values.
    known : sequence of (timestamp, row)
        Likewise, where it came out: none of this came in its place.
    """
    left, new = list(known), []
    for one in instead:
        if one in left:
            left.remove(one)
        else:
            new.append(one)
    together = [row for timestamp, row in new if timestamp == event.timestamp]
    if together:
        row = max(together, key=lambda row: sum(map(same_values, event.row, row)))
        differing = [i for i in range(len(row)) if not same_values(event.row[i], row[i])]
        return ", ".join(f"{names[i]}={value_text(row[i])}" for i in differing) or "the same, but less often"
    others = [timestamp for timestamp, row in new if same_values(event.row, row)]
    return f"the same at {clock_text(max(others))}" if others else "nothing"
