"""Stream processors: handlers with state and timers of their own, such as ``#unique:deduplicate``.

They stand where stream functions stand, but may hold events back, drop them, or put them into another order. Those of
users are registered with `spdist.extension.stream_processor`.

Source: io.siddhi.core.query.processor.stream.StreamProcessor, described in our own words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spdist.operators.base import Event, Timer, VirtualClock, accept_former_names
from spdist.operators.core.arguments import Arguments

__all__ = ["ProcessorSetting", "Processors", "StreamProcessor"]


@dataclass(slots=True)
class ProcessorSetting:
    """What a stream processor is made from; made anew for each partition key.

    Parameters
    ----------
    constants : tuple
        The arguments' values where they are literals (time literals in ms), None where they are not.
    arguments : Callable[[int, Row], tuple]
        Computes all arguments of an event, from its timestamp and row.
    clock : VirtualClock
        The app's time.
    timer : Callable
        Makes a timer from the function to wake.
    emit : Callable[[list[Event]], None]
        Takes each chunk that is let through: kind, timestamp and row, with the appended values at the row's end.
    """

    constants: tuple[Any, ...]
    arguments: Arguments
    clock: VirtualClock
    timer: Callable[[Callable[[int], None]], Timer]
    emit: Callable[[list[Event]], None]


class StreamProcessor(ABC):
    """A handler with state: takes chunks and releases chunks, immediately or when a timer is due."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        accept_former_names(cls, {"take": "process_events"})

    def __init__(self, setting: ProcessorSetting) -> None:
        self.arguments = setting.arguments
        self.clock = setting.clock
        self.emit = setting.emit

    def start(self) -> None:
        """Begin: the app, or the key of the partition, starts now."""
        return

    @abstractmethod
    def process_events(self, events: Sequence[Event]) -> None:
        """Process the events of one chunk; behind a window also expired ones and RESETs."""

    @abstractmethod
    def snapshot(self) -> Any:
        """Return the state as plain data."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Take over the state of a snapshot."""


class Processors:
    """The stream processors of one instance of a query.

    Parameters
    ----------
    timer : Callable
        Makes their timers.
    """

    def __init__(self, timer: Callable[[Callable[[int], None]], Timer]) -> None:
        self.timer = timer
        self.made: list[StreamProcessor] = []

    def start(self) -> None:
        """Begin."""
        for processor in self.made:
            processor.start()

    def snapshot(self) -> Any:
        """Return the states as plain data."""
        return [processor.snapshot() for processor in self.made]

    def restore(self, state: Any) -> None:
        """Take over the states of a snapshot."""
        for processor, its in zip(self.made, state, strict=True):
            processor.restore(its)
