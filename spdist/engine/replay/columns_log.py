"""What a group that runs as Spark Columns was given: messages of its topics, as a log that can be replayed.

Such a group keeps no state, so each message is processed for itself: one message explains all that was put out for it.
Its queries are those of the app, and mean here, in virtual time, what they mean as Columns. Values only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spdist.engine.island.user_topics import kafka_endpoints, map_setting
from spdist.engine.replay.evidence import EventPlace
from spdist.engine.replay.input_log import GivenEvent
from spdist.engine.replay.shard_log import ShardLog
from spdist.errors import MappingError, NotFoundError
from spdist.history import clock_text
from spdist.mapping.mappers import source_mapper
from spdist.operators.base import Arrival, Row
from spdist.planning.columns.realtime import RealtimePlan

__all__ = ["MessageLog", "ResultId", "TopicMessage", "columns_log"]

_ID = re.compile(r"([^/\s]+)/([0-9]{1,10})/([0-9]{1,19})/([0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class ResultId:
    """The id of what such a group has sent: of which message it was made, and which of its results it is.

    Parameters
    ----------
    topic : str
        The message's.
    partition, offset : int
        Where it stands there.
    number : int
        Which result of it, from 0.
    """

    topic: str
    partition: int
    offset: int
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}/{self.number}"

    @classmethod
    def of(cls, text: str) -> ResultId | None:
        """Return the id in a text, None where it is none of this kind.

        Examples
        --------
        >>> ResultId.of("trades/0/42/1")
        ResultId(topic='trades', partition=0, offset=42, number=1)
        """
        found = _ID.fullmatch(text.strip())
        return None if found is None else cls(found[1], *map(int, found.groups()[1:]))


@dataclass(frozen=True, slots=True)
class TopicMessage:
    """A message of a user's topic: where it stands, when it was sent in ms, and its payload."""

    topic: str
    partition: int
    offset: int
    sent: int
    value: bytes


@dataclass(frozen=True, slots=True)
class MessageLog:
    """One message that a group was given.

    Parameters
    ----------
    producer : str
        The group instance.
    plan : RealtimePlan
        How it runs.
    message : TopicMessage
        The message.
    """

    producer: str
    plan: RealtimePlan
    message: TopicMessage

    def log(self) -> ShardLog:
        """Return it as a log."""
        return columns_log(self.plan, [self.message])

    def events(self, id: ResultId, stream: str) -> list[tuple[int, Arrival]]:
        """Return the events of a stream that a result of the message holds, with their numbers among those of it.

        Raises
        ------
        NotFoundError
            The message has no such result, or it is of another stream.
        """
        log = self.log()
        app = log.app()
        results, numbers = 0, Counter[str]()
        found: dict[str, list[tuple[int, Arrival]]] = {}

        def came(own: str, chunk: Sequence[Arrival]) -> None:
            nonlocal results
            placed = list(enumerate(chunk, numbers[own]))
            numbers[own] += len(chunk)
            for output in self.plan.outputs:
                if output.stream == own:
                    # Counted as its id is: a payload for each chunk or each event, of each sink in order.
                    payloads = [placed] if output.form.groups else [[one] for one in placed]
                    if results <= id.number < results + len(payloads):
                        found[own] = payloads[id.number - results]
                    results += len(payloads)

        for own in dict.fromkeys(output.stream for output in self.plan.outputs):
            app.subscribe_chunks(own, lambda chunk, own=own: came(own, chunk))  # type: ignore[misc]
        log.replay(app, log.steps)
        if stream in found:
            return found[stream]
        if found:
            (other,) = found
            raise NotFoundError(
                f"{id} is one of stream '{other}', not of '{stream}'", hint=f"ask for '{other}' instead"
            )
        place = f"{id.topic}, partition {id.partition}, offset {id.offset}"
        raise NotFoundError(
            f"no result {id} of '{stream}' comes out of the message in {place}", hint=f"{results} results of it do"
        )


def columns_log(plan: RealtimePlan, messages: Iterable[TopicMessage], limit: str = "") -> ShardLog:
    """Return what a group was given, from messages of its topics.

    Parameters
    ----------
    plan : RealtimePlan
        How it runs.
    messages : iterable of TopicMessage
        In any order.
    limit : str, optional
        What is said of messages before them.
    """
    # Each is processed at its own time: in their order the clock never goes back.
    ordered = sorted(messages, key=lambda one: (one.sent, one.topic, one.partition, one.offset))
    steps: list[GivenEvent] = []
    places: dict[tuple[str, int], EventPlace] = {}
    positions: Counter[str] = Counter()
    for chunk, (message, stream, rows) in enumerate(_read(plan, ordered)):
        for row in rows:
            position = positions[stream]
            positions[stream] += 1
            steps.append(GivenEvent(stream, message.sent, row, message.sent, chunk, position))
            places[stream, position] = EventPlace(message.topic, message.partition, message.offset)
    start, end = (ordered[0].sent, ordered[-1].sent) if ordered else (0, 0)
    since = f"its topics hold messages since {clock_text(start)}" if ordered else "its topics hold no messages"
    return ShardLog(
        plan.checked,
        tuple(steps),
        start,
        end,
        live=not plan.checked.playback,
        places=places,
        alone=True,
        limit=limit or since,
    )


def _read(plan: RealtimePlan, messages: Iterable[TopicMessage]) -> Iterator[tuple[TopicMessage, str, list[Row]]]:
    """Yield what sources read of messages, chunk by chunk: each source for itself, in the order of the text."""
    endpoints = list(kafka_endpoints(plan.checked, "source"))
    mappers = [source_mapper(map_setting(plan.checked, stream, source)) for stream, source in endpoints]
    for message in messages:
        for source, mapper in zip(plan.inputs, mappers, strict=True):
            if message.topic not in source.topics or message.partition not in (
                source.partitions or (message.partition,)
            ):
                continue
            try:
                chunks = mapper.read(message.value, {}, message.sent, lambda error: None)
            except MappingError:
                continue  # what cannot be read is no event
            for chunk in chunks:
                yield message, source.stream, [row for _, row in chunk]
