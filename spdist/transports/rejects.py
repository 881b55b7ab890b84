"""What others have sent and cannot be read as events: it is counted, and ``on.error`` of a source says what is done."""

from __future__ import annotations

from typing import Any

from spdist.language.types import Schema
from spdist.mapping.columns import Events
from spdist.mapping.rejected import RejectCounter
from spdist.transports.base import NO_CLOCK, Record, Transport
from spdist.transports.errors import append_error, error_entry
from spdist.transports.options import Options
from spdist.transports.payloads.payload import Payload

__all__ = ["Rejects", "fault_topic"]


class Rejects:
    """Keeps, sends or counts what cannot be read.

    Parameters
    ----------
    transport : Transport
        Of the embedded topics: the error store and fault streams are there.
    app, stream : str
        Whose source it is.
    options : Options
        Of the source; ``on.error`` is LOG (the default), STREAM or STORE. WAIT and RETRY, which could go on for ever
        with a payload that stays as it is, do as LOG does.
    faults : Schema, optional
        Attributes of the fault stream ``!S``, where there is one.

    State
    -----
    How many there were.
    """

    def __init__(
        self, transport: Transport, app: str, stream: str, options: Options, faults: Schema | None = None
    ) -> None:
        self._transport = transport
        self._app = app
        self._stream = stream
        self._on_error = options.choice("on.error", "LOG", ("LOG", "STREAM", "STORE", "WAIT", "RETRY"))
        self._faults = faults
        self._counter = RejectCounter(f"the @source of stream '{stream}'")

    @property
    def count(self) -> int:
        """How many messages, and events of messages, were rejected."""
        return self._counter.count

    def reject(self, payload: Any, error: Exception, now: int, producer: str = "", seq: int = 0) -> None:
        """Deal with a payload, or with an event of it.

        Parameters
        ----------
        payload : Any
            What was received.
        error : Exception
            Why it cannot be read.
        now : int
            The time that it has, ms.
        producer, seq
            As in a record, where it may be rejected again after a failure: it is kept or sent once.
        """
        # A fault stream that nobody reads has no topic: then it is logged, as nothing else would tell of it.
        to_faults = self._on_error == "STREAM" and self._faults and self._transport.partitions(self._fault_topic)
        self._counter.add(error, told=self._on_error != "STORE" and not to_faults)
        if self._on_error == "STORE":
            entry = error_entry(self._stream, "source", str(error), payload=payload)
            append_error(self._transport, self._app, entry, producer, seq)
        elif to_faults and self._faults:
            # There is no event to show: only `_error`, the last attribute, has a value.
            row = (*[None] * (len(self._faults) - 1), str(error))
            value = Payload(self._faults).encode(Events.of([(now, row)]))
            self._transport.append([Record(self._fault_topic, 0, value, 1, producer, seq, NO_CLOCK)])

    @property
    def _fault_topic(self) -> str:
        return fault_topic(self._app, self._stream)


def fault_topic(app: str, stream: str) -> str:
    """Return the topic through which events come back to the fault stream of `stream`."""
    return f"{app}.!{stream}"
