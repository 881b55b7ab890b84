"""What a user's source received and cannot read as events: what ``on.error`` says is done with it."""

from __future__ import annotations

import logging
from typing import Any

from spdist.language.types import Schema
from spdist.transports.base import NO_CLOCK, Record, Transport
from spdist.transports.errors import append_error, error_entry
from spdist.transports.options import Options
from spdist.transports.outlets import fault_topic
from spdist.transports.payload import Events, Payload

__all__ = ["Rejects"]

log = logging.getLogger(__name__)

#: So many are logged one by one, then one in `_EACH`.
_FIRST, _EACH = 10, 1000


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
    How many were logged.
    """

    def __init__(
        self, transport: Transport, app: str, stream: str, options: Options, faults: Schema | None = None
    ) -> None:
        self._transport = transport
        self._app = app
        self._stream = stream
        self._on_error = options.choice("on.error", "LOG", ("LOG", "STREAM", "STORE", "WAIT", "RETRY"))
        self._faults = faults
        self._warned = 0

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
        if self._on_error == "STORE":
            entry = error_entry(self._stream, "source", str(error), payload=payload)
            append_error(self._transport, self._app, entry, producer, seq)
        elif self._on_error == "STREAM" and self._faults and self._transport.partitions(self._fault_topic):
            row = (*[None] * (len(self._faults) - 1), str(error))
            value = Payload(self._faults).encode(Events.of([(now, row)]))
            self._transport.append([Record(self._fault_topic, 0, value, 1, producer, seq, NO_CLOCK)])
        else:
            self._warned += 1
            if self._warned <= _FIRST or self._warned % _EACH == 0:
                log.warning("the @source of stream '%s' drops what it cannot read: %s", self._stream, error)

    @property
    def _fault_topic(self) -> str:
        return fault_topic(self._app, self._stream)
