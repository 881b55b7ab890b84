"""The messages that groups of Spark Columns were given, from the topics that their workers read: for `explaining`.

Kafka holds them as long as its topics say, and nobody else does. Where one is gone, that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spdist.cluster.clients import requests
from spdist.cluster.clients.asking import Request
from spdist.engine.replay.columns_log import MessageLog, ResultId, TopicMessage, columns_log
from spdist.engine.replay.shard_log import ShardLog
from spdist.errors import NotFoundError
from spdist.history import clock_text
from spdist.planning.columns.realtime import RealtimePlan
from spdist.runtime.column_inputs import ColumnInputs, RetainedPartition
from spdist.runtime.realtime_checkpoints import planned

__all__ = ["ColumnsGroup"]

#: So many of the newest messages are looked at where no id says which one is meant.
_MOST = 20_000


class ColumnsGroup:
    """A group instance that runs as Spark Columns.

    Parameters
    ----------
    name : str
        The instance.
    inputs : ColumnInputs
        Which messages are there.
    ask : callable
        Sends a request to its worker.
    scripts : bool
        Whether functions that the app defines in Python are run here.
    """

    def __init__(
        self, name: str, inputs: ColumnInputs, ask: Callable[[Request[Any]], Any], scripts: bool = False
    ) -> None:
        plan = planned(inputs.assignment, "auto", scripts)
        if plan is None:
            raise NotFoundError(f"{name} does not run as Spark Columns any more", hint="try again")
        self._name = name
        self._plan: RealtimePlan = plan
        self._inputs = inputs
        self._ask = ask

    def log(self) -> ShardLog:
        """Return a log of the newest messages."""
        places = {
            (topic, number): held
            for topic, partitions in self._inputs.topics.items()
            for number, held in partitions.items()
        }
        each = max(1, _MOST // max(1, len(places)))
        found: list[TopicMessage] = []
        cut = False
        for (topic, number), held in places.items():
            begin = max(held.oldest, held.end - each)
            cut = cut or begin > held.oldest
            found += self._messages(topic, number, begin, held.end)
        return columns_log(self._plan, found, _limit(self._name, found, places, cut))

    def message(self, id: ResultId) -> MessageLog:
        """Return the message of which a result was made.

        Raises
        ------
        NotFoundError
            The group does not read its topic, or it is not there; says why.
        """
        held = self._inputs.topics.get(id.topic, {}).get(id.partition)
        where = f"topic '{id.topic}', partition {id.partition}"
        if held is None:
            known = ", ".join(f"{topic} {sorted(parts)}" for topic, parts in self._inputs.topics.items())
            raise NotFoundError(f"{id}: {self._name} does not read {where}", hint=f"topics and partitions: {known}")
        if (problem := _absent(id, where, held)) is not None:
            raise problem
        found = [
            one for one in self._messages(id.topic, id.partition, id.offset, id.offset + 1) if one.offset == id.offset
        ]
        if not found:
            raise NotFoundError(
                f"the message at offset {id.offset} of {where} is gone, so nobody can tell what {id} was made of",
                hint="Kafka has left it out, as it compacts the topic",
            )
        return MessageLog(self._name, self._plan, found[0])

    def _messages(self, topic: str, partition: int, begin: int, end: int) -> list[TopicMessage]:
        found: list[TopicMessage] = []
        while begin < end:
            answer = self._ask(requests.held_messages(self._name, topic, partition, begin))
            more = [TopicMessage(topic, partition, *one) for one in answer]
            # Kafka may have compacted away what is left of the range
            if not more:
                break
            found += [one for one in more if one.offset < end]
            begin = more[-1].offset + 1
        return found


def _absent(id: ResultId, where: str, held: RetainedPartition) -> NotFoundError | None:
    """Return why a message cannot be there; None where it should be."""
    if id.offset >= held.end:
        told, hint = (
            f"{where} has no message at offset {id.offset}: it ends before {held.end}",
            "is it of another cluster?",
        )
    elif id.offset < held.begin:
        told = f"Kafka no longer keeps the message that {id} was made of: {where} begins at offset {held.begin} now"
        hint = "how long it keeps messages is set by retention.ms and retention.bytes of the topic"
    elif id.offset < held.first:
        told = f"{id} was made before the app ran as it does now: it reads {where} from offset {held.first} on"
        hint = "an earlier text of the app, or another way to run it, has put that out"
    else:
        return None
    return NotFoundError(told, hint=hint)


def _limit(name: str, found: list[TopicMessage], places: Mapping[tuple[str, int], RetainedPartition], cut: bool) -> str:
    """Return what is said of messages before those that were looked at."""
    since = f" since {clock_text(min(one.sent for one in found))}" if found else ""
    if cut:
        return f"of {name} the newest {len(found):,} messages were looked at{since}: name an older one by its spdist-id"
    gone = [f"{topic} partition {number}" for (topic, number), held in places.items() if held.begin > held.first]
    kept = f"Kafka keeps {len(found):,} messages of {name}{since}"
    return f"{kept}; of {', '.join(gone[:3])} it has deleted older ones" if gone else kept
