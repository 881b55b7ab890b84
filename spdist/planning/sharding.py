"""Which attribute of each input stream splits an app into shards that need not know of each other, or why none does.

A shard is the whole app for a share of the keys. That gives what one shard gives where nothing sees events of two keys:
whatever keeps events stands inside ``partition with (attribute of S)``, all partitions agree on the attributes, and
outside of partitions each event is looked at alone. An attribute is followed back from a partition to the streams that
come from outside, through queries that hand it on unchanged.

Equal are the events, and their order for each key. Events that upstream put out as one chunk are one here only as far
as they follow one another in the same shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from spdist.language import ast
from spdist.language.checking.checked import CheckedApp, CheckedPartition, CheckedQuery
from spdist.language.checking.scope import Scope

__all__ = ["Sharding", "sharding"]


#: Functions that draw each value from what the app has drawn before.
_DRAWN = {"UUID", "math:rand"}
#: Windows that keep the end of the open period for all keys of a partition.
_ONE_PERIOD = {"timeBatch"}

#: What an attribute is that a query computes: of no stream.
_NOWHERE = ("", "")


@dataclass(frozen=True, slots=True)
class Sharding:
    """How an app is split.

    Parameters
    ----------
    keys : mapping of str to str or None
        For each input stream the attribute by whose value its events are split; None where any share will do.
    reasons : tuple of str
        Why it cannot be split, a sentence each; empty where it can.
    """

    keys: Mapping[str, str | None]
    reasons: tuple[str, ...] = ()

    @property
    def possible(self) -> bool:
        """Whether the app can be split."""
        return not self.reasons


def sharding(checked: CheckedApp, inputs: Iterable[str]) -> Sharding:
    """Find out how an app can be split by key.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    inputs : iterable of str
        The streams that come from outside of it.
    """
    search = _KeySearch(checked)
    search.collect()
    inputs = tuple(inputs)
    keys = {stream: search.needed.get(stream) for stream in inputs}
    return Sharding(keys, tuple(dict.fromkeys(search.reasons)))


class _KeySearch:
    """Collects by which attribute each stream must be split, and what stands against it."""

    def __init__(self, checked: CheckedApp) -> None:
        self.checked = checked
        self.needed: dict[str, str] = {}
        self._followed: set[str] = set()
        self.reasons: list[str] = []
        self._stored = {*checked.tables, *checked.windows, *checked.aggregations}
        #: The queries of a partition by what they write.
        self._within: dict[int, dict[str, list[CheckedQuery]]] = {}
        #: Who puts events into a stream of the app.
        self._writers: dict[str, list[CheckedQuery]] = {}
        for query in self._all_queries():
            if query.target in checked.streams:
                self._writers.setdefault(query.target, []).append(query)

    def collect(self) -> None:
        checked = self.checked
        triggers = [d.name for d in checked.app.definitions if isinstance(d, ast.TriggerDefinition)]
        self.reasons += [f"trigger '{name}' would fire in every shard" for name in triggers]
        self.reasons += [f"aggregation '{name}' sees the events of all keys" for name in checked.aggregations]
        for query in checked.queries:
            self._check_alone(query)
        for number, partition in enumerate(checked.partitions, 1):
            self._check_partition(partition, f"partition {number}")
        for query in self._all_queries():
            self._check_shared(query)

    def _all_queries(self) -> Iterator[CheckedQuery]:
        for element in self.checked.elements:
            yield from element.queries if isinstance(element, CheckedPartition) else (element,)

    # ------------------------------------------------------------------------------------- what stands against it
    def _check_alone(self, query: CheckedQuery) -> None:
        """See to it that a query outside of partitions looks at each event alone."""
        if (what := _keeps_events(query.query)) is not None:
            self.reasons.append(f"query '{query.name}' is outside of partitions and {what}")

    def _check_partition(self, partition: CheckedPartition, place: str) -> None:
        for purge in ast.find_annotations(partition.partition.annotations, "purge"):
            if (purge.get("enable") or "").lower() == "true":
                self.reasons.append(f"{place} has @purge, which looks for idle keys when events of any key come")
        for query in partition.queries:
            for id in sorted(_called(query) & _ONE_PERIOD):
                self.reasons.append(f"query '{query.name}' has a {id} window, whose period is one for all keys")
            for source in query.scope.sources:
                if source.stream_id in self.checked.streams and source.stream_id not in partition.keys:
                    self.reasons.append(f"query '{query.name}' brings events of '{source.stream_id}' to all keys")
        for stream, key in partition.keys.items():
            if key.value is None:
                self.reasons.append(f"{place} splits '{stream}' by ranges")
            elif not isinstance(key.value, ast.Variable):
                self.reasons.append(f"{place} splits '{stream}' by an expression; only an attribute can be hashed")
            else:
                self._need(stream, key.value.name)

    def _check_shared(self, query: CheckedQuery) -> None:
        used = {source.stream_id for source in query.scope.sources} | {query.target}
        used |= {node.table for node in query.query.walk() if isinstance(node, ast.In)}
        used |= {node.name for node in query.query.walk() if isinstance(node, ast.StreamRef) and not node.inner}
        # A table or named window of another shard would be another one
        for name in sorted(used & self._stored):
            self.reasons.append(f"query '{query.name}' uses '{name}', which is one for all keys")
        for id in sorted(_called(query) & _DRAWN):
            self.reasons.append(f"query '{query.name}' uses {id}(), which would give the same in several shards")

    # ------------------------------------------------------------------------------------------- following a key
    def _need(self, stream: str, attribute: str) -> None:
        """Note that the events of `stream` with one value of `attribute` must all be in one shard.

        The attribute is followed back through all queries that hand it on, without recursion, however many they are.
        """
        waiting = [(stream, attribute)]
        while waiting:
            stream, attribute = waiting.pop()
            known = self.needed.setdefault(stream, attribute)
            if known != attribute:
                self.reasons.append(f"'{stream}' would have to be split by '{known}' and by '{attribute}'")
            if known != attribute or stream in self._followed:
                continue
            self._followed.add(stream)
            # A fault arises in the shard of the event that failed, so the stream of that event is split in the same way
            needed = [(stream[1:], attribute)] if stream.startswith("!") else []
            for writer in self._writers.get(stream, ()):
                # What a partition puts out is in the shard of its key, so nothing else may be followed back through it
                origin = None if writer.partition is not None else self._followed_back(writer, attribute)
                if origin is not None:
                    needed.append(origin)
                elif writer.partition is None or not self._is_key(writer.partition, writer, attribute):
                    self.reasons.append(
                        f"'{stream}' must be split by '{attribute}', which query '{writer.name}' does not hand on as "
                        "it is"
                    )
            # The last one is taken first: reversed, reasons come in the order of the text
            waiting += reversed(needed)

    def _followed_back(self, writer: CheckedQuery, attribute: str) -> tuple[str, str] | None:
        """Return the stream and attribute that a query hands on under this name."""
        origin = _origin(writer, attribute)
        if origin is None or origin[0] not in self.checked.streams:
            return None
        stream, name = origin
        # one that is not of the stream is appended by a stream function
        return None if self.checked.streams[stream].index(name) is None else origin

    def _is_key(self, number: int, writer: CheckedQuery, attribute: str) -> bool:
        """Whether what a query of a partition puts out under this name is the key of its instance."""
        partition = self.checked.partitions[number]
        within = self._within.get(number)
        if within is None:
            within = self._within[number] = {}
            for query in partition.queries:
                within.setdefault(query.target, []).append(query)
        done: set[tuple[str, str]] = set()
        #: the way back that is being followed, each place on it with the queries still to be looked at
        way: dict[tuple[str, str], Iterator[CheckedQuery]] = {("", attribute): iter([writer])}
        while way:
            place, queries = next(reversed(way.items()))
            origin = next((_origin(query, place[1]) or _NOWHERE for query in queries), None)
            if origin is None:
                del way[place]
                done.add(place)
                continue
            stream, name = origin
            if stream in partition.keys:
                value = partition.keys[stream].value
                if not isinstance(value, ast.Variable) or value.name != name:
                    return False
            # A circle of inner streams has no beginning at which a key could enter
            elif origin in way or stream not in partition.inner or stream not in within:
                return False
            elif origin not in done:
                way[origin] = iter(within[stream])
        return True


def _called(query: CheckedQuery) -> set[str]:
    """Return the ids of all functions and windows of a query."""
    return {node.id for node in query.query.walk() if isinstance(node, ast.FunctionCall)}


def _origin(query: CheckedQuery, attribute: str) -> tuple[str, str] | None:
    """Return the stream and attribute that an output attribute of a query is, None where it is computed."""
    position = query.output.index(attribute)
    if position is None:
        return None
    scope: Scope = query.scope
    items = query.query.select.items
    try:
        if not items:
            reference = scope.star()[position]
        else:
            expression = items[position].expression
            if not isinstance(expression, ast.Variable):
                return None
            reference = scope.resolve(expression)
    except (IndexError, ValueError, LookupError):
        return None
    # The list of all values of a counted element is no value that could be hashed
    if reference.multiple:
        return None
    return scope.sources[reference.source].stream_id, scope.name_of(reference)


def _keeps_events(query: ast.Query) -> str | None:
    """Say what of a query depends on more than one event; None where nothing does."""
    from spdist.extension import is_registered

    select = query.select
    match query.input:
        case ast.JoinInput():
            return "is a join"
        case ast.PatternInput(kind=kind):
            return f"is a {kind}"
        case ast.SingleInput(window=window) if window is not None:
            return f"has a window ({window.id})"
    if query.rate is not None:
        return "limits its rate"
    if select.group_by or select.order_by or select.limit is not None or select.offset is not None:
        return "groups, sorts or limits rows"
    for node in query.walk():
        if isinstance(node, ast.StreamFunction) and is_registered("stream processor", node.call.id):
            return f"uses {node.call.id}, which keeps events"
        if isinstance(node, ast.FunctionCall) and is_registered("aggregator", node.id):
            return f"aggregates ({node.id})"
    return None
