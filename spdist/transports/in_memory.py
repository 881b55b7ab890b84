"""Topics within one process: what is published is there immediately, with everything that follows from it.

A broker is an object that is handed to the apps which are to hear each other; nothing is shared otherwise.

Source: io.siddhi.core.util.transport.InMemoryBroker, described in our own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["IN_MEMORY", "InMemoryBroker"]

#: The type of its sources and sinks.
IN_MEMORY = "inMemory"

#: Takes a payload and the properties that came with it.
Subscriber = Callable[[Any, Mapping[str, Any]], None]

_NOTHING: Mapping[str, Any] = {}


class InMemoryBroker:
    """Hands payloads to those who subscribed to their topic.

    State
    -----
    The subscribers; no payload is kept.

    Examples
    --------
    >>> broker = InMemoryBroker()
    >>> broker.subscribe("bills", lambda payload, properties: print(payload))
    >>> broker.publish("bills", "10.5")
    10.5
    True
    """

    def __init__(self) -> None:
        self._subscribers: dict[str, list[Subscriber]] = {}

    def subscribe(self, topic: str, subscriber: Subscriber) -> None:
        """Call `subscriber` with each payload of a topic from now on, after those who subscribed before."""
        self._subscribers.setdefault(topic, []).append(subscriber)

    def unsubscribe(self, topic: str, subscriber: Subscriber) -> None:
        """Stop calling `subscriber`; does nothing where it is not subscribed."""
        kept = self._subscribers.get(topic, [])
        if subscriber in kept:
            kept.remove(subscriber)

    def publish(self, topic: str, payload: Any, properties: Mapping[str, Any] = _NOTHING) -> bool:
        """Hand a payload to the subscribers of a topic, in their order; returns when all have dealt with it.

        Parameters
        ----------
        topic : str
            Any text; a topic without subscribers loses the payload.
        payload : Any
            What the mapping of a sink made, or what a test sends to a source.
        properties : mapping of str to Any
            What sources read as ``trp:name``.

        Returns
        -------
        bool
            Whether somebody subscribes to the topic.
        """
        # A copy, as who gets a payload may subscribe or leave meanwhile.
        subscribers = tuple(self._subscribers.get(topic, ()))
        for subscriber in subscribers:
            subscriber(payload, properties)
        return bool(subscribers)
