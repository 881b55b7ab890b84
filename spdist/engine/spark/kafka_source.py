"""Topics in Kafka as a part of our source: it says which messages a batch has, and the tasks fetch them by themselves.

So messages go from the brokers to the process that needs them, without the JVM between them, and whoever repeats a
batch reads the same ones again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from spdist.engine.shards.state import Positions
from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.kafka.extents import KafkaExtents
from spdist.transports.kafka.options import KafkaSettings

if TYPE_CHECKING:
    from spdist.transports.kafka.fetching import KafkaFetcher
    from spdist.transports.kafka.record_batches import FetchedMessages

__all__ = ["KafkaInput", "KafkaPlan", "KafkaReader", "Planned", "ranges_of"]

#: Of messages that hold many events, thousands where somebody is far behind, so many fewer make a batch.
_PACKED = 1000
#: How long brokers are waited for: those of a user, of whom a query that has ended can say why nothing comes, and those
#: between groups, whose status says so meanwhile; there Kafka's clients wait as long by themselves.
_PATIENCE_MS, _BETWEEN_GROUPS_MS = 15_000, 60_000
#: How long one question may take: the query can be stopped between two.
_ASK_MS = 2_000

#: By our name of a topic and partition, as text, an offset.
Offsets = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class KafkaInput:
    """A topic in Kafka that a query reads.

    Parameters
    ----------
    settings : KafkaSettings
        Where the brokers are.
    name : str
        How Kafka calls it.
    packed : bool
        Whether a message holds many events: then fewer of them make a batch.
    users : bool
        Whether a user's own source reads it: then messages are no records of ours.
    keys : bool
        Whether that source looks at the keys of messages.
    """

    settings: KafkaSettings
    name: str
    packed: bool = False
    users: bool = False
    keys: bool = False

    @property
    def patience_ms(self) -> int:
        """How long to try where no broker answers."""
        given = self.settings.properties.get("default.api.timeout.ms", "")
        if given.strip().isdecimal():
            return int(given)
        return _PATIENCE_MS if self.users else max(_BETWEEN_GROUPS_MS, self.settings.patience_ms)

    def most_messages(self, most_events: int) -> int:
        """Return how many messages of such topics a batch may have that has so many events at most."""
        return max(4, most_events // _PACKED) if self.packed else most_events


class Brokers(Protocol):
    """Who knows where partitions begin and end; see `KafkaExtents`."""

    def extents(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]: ...

    def ends(self, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]: ...


@dataclass(frozen=True, slots=True)
class Planned:
    """What of Kafka a batch may have: up to which offsets, how many messages that are, and how many wait behind it."""

    ends: Offsets
    messages: int
    behind: int


@dataclass(slots=True)
class KafkaPlan:
    """Plans what a batch reads of Kafka.

    Parameters
    ----------
    inputs : mapping of str to KafkaInput
        By our names of the topics.
    start : Positions
        The partitions to read, and where to begin.
    most_events : int
        Bound of events in a batch.
    asked : mapping of str to Brokers, optional
        By servers and properties who is asked.

    State
    -----
    Connections, and since when nobody can tell.
    """

    inputs: Mapping[str, KafkaInput]
    start: Positions
    most_events: int
    asked: dict[str, Brokers] = field(default_factory=dict)
    _since: float | None = None

    @classmethod
    def read(cls, file: str) -> KafkaPlan:
        """Return what `write` was told."""
        data = json.loads(Path(file).read_text(encoding="utf-8"))
        inputs = {
            topic: KafkaInput(**one | {"settings": KafkaSettings(**one["settings"])})
            for topic, one in data["inputs"].items()
        }
        start = {t: {int(p): offset for p, offset in parts.items()} for t, parts in data["start"].items()}
        return cls(inputs, start, data["most_events"])

    def write(self, file: Path) -> str:
        """Write all of this into a file that nobody else may read, as passwords may be in it; return its name."""
        inputs = {topic: asdict(one) for topic, one in self.inputs.items()}
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as private:
            json.dump({"inputs": inputs, "start": self.start, "most_events": self.most_events}, private)
        return str(file)

    def initial(self) -> Offsets:
        """Return where reading begins."""
        return {topic: {str(number): at for number, at in parts.items()} for topic, parts in self.start.items()}

    def plan(self, starts: Offsets) -> Planned | None:
        """Return up to where the batch from `starts` on may read; None while nobody can tell, for a time.

        Raises
        ------
        TransportUnavailableError
            No broker has answered for longer than that.
        TransportError
            A topic was deleted, or ends before `starts` for longer than that: it was made anew.
        """
        try:
            extents = self._extents(starts)
            # A broker that leads since a moment ago may not know yet how far its topics go.
            short = next((place for place, (at, end) in extents.items() if end < at), None)
            problem = None if short is None else self._made_anew(short, *extents[short])
        except TransportUnavailableError as error:
            problem = error
        if problem is not None:
            now = time.monotonic()
            self._since = self._since or now
            if now - self._since > min(one.patience_ms for one in self.inputs.values()) / 1000:
                raise problem
            return None
        self._since = None
        ends: Offsets = {topic: dict(parts) for topic, parts in starts.items()}
        messages = behind = 0
        for packed in (False, True):
            own = [place for place in extents if self.inputs[place[0]].packed is packed]
            waiting = {place: max(0, extents[place][1] - extents[place][0]) for place in own}
            total = sum(waiting.values())
            most = self.inputs[own[0][0]].most_messages(self.most_events) if own else 0
            for place in own:
                share = waiting[place] if total <= most else -(-waiting[place] * most // total)
                if share:
                    ends[place[0]][place[1]] = extents[place][0] + share
                messages += share
                behind += waiting[place] - share
        return Planned(ends, messages, behind)

    def _extents(self, starts: Offsets) -> dict[tuple[str, str], tuple[int, int]]:
        """Return from where each partition is to be read, and where it ends."""
        found: dict[tuple[str, str], tuple[int, int]] = {}
        clusters: dict[str, list[tuple[str, str]]] = {}
        for topic, parts in starts.items():
            settings = self.inputs[topic].settings
            known = clusters.setdefault(repr((settings, sorted(settings.properties.items()))), [])
            known += [(topic, number) for number in parts]
        for cluster, places in clusters.items():
            asked = self.asked.get(cluster)
            if asked is None:
                settings = self.inputs[places[0][0]].settings
                asked = self.asked[cluster] = KafkaExtents(replace(settings, patience_ms=_ASK_MS))
            names = {place: (self.inputs[place[0]].name, int(place[1])) for place in places}
            new = [name for (topic, number), name in names.items() if not starts[topic][number]]
            begins = {name: begin for name, (begin, _) in asked.extents(new).items()} if new else {}
            ends = asked.ends(list(names.values()))
            for (topic, number), name in names.items():
                found[topic, number] = max(starts[topic][number], begins.get(name, 0)), ends[name]
        return found

    def _made_anew(self, place: tuple[str, str], at: int, end: int) -> TransportError:
        told = f"was made anew: it ends with message {end - 1}, and {at - 1} was read"
        hint = "give the app a new name, or read another topic"
        return TransportError(f"topic '{self.inputs[place[0]].name}' {told}", hint=hint)


class KafkaReader:
    """Fetches in a task what a batch has of Kafka.

    Parameters
    ----------
    inputs : mapping of str to KafkaInput
        By our names of the topics.

    State
    -----
    Connections, opened when they are used.
    """

    def __init__(self, inputs: Mapping[str, KafkaInput]) -> None:
        self._inputs = inputs
        self._fetchers: dict[str, KafkaFetcher] = {}

    def messages(self, topic: str, partition: int, begin: int, end: int) -> Iterator[FetchedMessages]:
        """Return the messages of some offsets in order, see `KafkaFetcher.messages`; `topic` is our name."""
        one = self._inputs[topic]
        settings = replace(one.settings, patience_ms=one.patience_ms)
        key = repr((settings, sorted(settings.properties.items())))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            # The client takes its time to load: only where Kafka is read.
            from spdist.transports.kafka.fetching import KafkaFetcher

            fetcher = self._fetchers[key] = KafkaFetcher(settings)
        return fetcher.messages(one.name, partition, begin, end, keys=one.keys, headers=not one.users)

    def close(self) -> None:
        """Close the connections."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()


def ranges_of(starts: Mapping[str, Mapping[str, int]], ends: Mapping[str, Mapping[str, int]]) -> Iterator[Any]:
    """Yield topic, partition, and from where to where, of each partition of which a batch has something."""
    for topic, parts in ends.items():
        for number, end in parts.items():
            begin = starts[topic][number]
            if begin < end:
                yield topic, int(number), begin, end
