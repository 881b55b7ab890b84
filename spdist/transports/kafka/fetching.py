"""Messages of a part of a topic, many together: what a task reads itself where offsets say what its batch has.

The client over asyncio keeps connections, logs in, and knows the leaders; requests and answers are Kafka's own, and
what a broker sends becomes columns without an object for each message (`record_batches`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    KafkaError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
    for_code,
)
from aiokafka.protocol.fetch import FetchRequest

from spdist.errors import TransportError
from spdist.transports.kafka.extents import KafkaExtents
from spdist.transports.kafka.options import KafkaInput, KafkaSettings, asyncio_options, python_options
from spdist.transports.kafka.record_batches import FetchedMessages, compile_later, following_offset, messages_of
from spdist.transports.kafka.transport import unanswered
from spdist.transports.kafka.zookeeper import bootstrap_servers
from spdist.transports.loops import end_other_tasks, run_loop

__all__ = ["KafkaFetcher", "KafkaReader"]

# It tells of every connection that is not there; what comes of it is ours to say.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)

#: Bytes that a broker sends together, but for a batch that is larger alone: about what makes two records of ours, the
#: first of which is processed while the second is read.
_FETCH_BYTES = 4 << 20
#: Bytes that are kept of what brokers have sent beyond what was asked for.
_KEPT_BYTES = 64 << 20
#: How long a broker waits for messages: they are there when they are asked for.
_WAIT_MS = 200
#: Until who has no leader, or no broker, is asked again.
_PAUSE_S = 0.1
_END_S = 2.0
#: Readers see what is committed.
_COMMITTED = 1
_REFUSED = (
    AuthenticationFailedError,
    ClusterAuthorizationFailedError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

#: From which offset on a broker has sent something, what, and which transactions in it were aborted.
_Sent = tuple[int, bytes, list[tuple[int, int]]]


class KafkaFetcher:
    """Reads messages of one Kafka cluster by their offsets.

    Parameters
    ----------
    settings : KafkaSettings
        Where the brokers are, and how long to try where none answers.

    State
    -----
    A thread with connections, from the first call on. What a forked process inherits opens its own. Of each partition
    what a broker sent beyond the end that was asked for last, for who goes on there: together up to 64 MiB.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._options = python_options(settings.properties)
        self._checked = settings.properties.get("check.crcs", "true").strip().lower() != "false"
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._client: Any = None
        #: From which offset on, and what a broker has sent; whoever goes on anywhere else, asks.
        self._kept: dict[tuple[str, int], tuple[int, Future[_Sent]]] = {}

    def messages(
        self, topic: str, partition: int, begin: int, end: int, *, keys: bool = False, headers: bool = False
    ) -> Iterator[FetchedMessages]:
        """Return the messages of offsets from `begin` on and before `end`, in order: whoever asks again gets the same.

        Those of aborted transactions are left out. The first are fetched from now on, and what comes next while this is
        worked at.

        Parameters
        ----------
        topic : str
            As Kafka calls it.
        partition : int
            Which partition.
        begin, end : int
            The offsets; 0 stands for the oldest message that is kept.
        keys, headers : bool
            Whether they are wanted.

        Raises
        ------
        TransportUnavailableError
            No broker has answered for as long as the settings say.
        TransportError
            Messages were deleted, a batch is damaged, or the brokers refuse.
        """
        fetching = self._sent(topic, partition, begin, end) if begin < end else None

        def following() -> Iterator[FetchedMessages]:
            sent = fetching
            while sent is not None:
                at, raw, aborted = sent.result()
                behind = following_offset(raw, at)
                if behind > end:
                    self._keep(topic, partition, end, sent)
                # The next part is asked for before this one is read, so that the broker sends while columns are made.
                sent = self._begun(self._fetched(topic, partition, behind, end)) if behind < end else None
                # What was kept was asked for from an earlier offset on, and a broker sends whole batches.
                first = max(at, begin)
                found = messages_of(raw, first, end, aborted, keys=keys, headers=headers, checked=self._checked)
                if len(found):
                    yield found

        return following()

    def _sent(self, topic: str, partition: int, begin: int, end: int) -> Future[_Sent]:
        """Return what a broker has sent for `begin`, or will send."""
        # Taken out: what is used is kept anew by `_keep` where something of it is left.
        kept_from, kept = self._kept.pop((topic, partition), (-1, None))
        if kept is not None and kept_from == begin and self._pid == os.getpid():
            return kept
        return self._begun(self._fetched(topic, partition, begin, end))

    def _keep(self, topic: str, partition: int, begin: int, sent: Future[_Sent]) -> None:
        """Keep what was sent beyond the end for who goes on at `begin`, where there is room."""
        if sum(len(one.result()[1]) for _, one in self._kept.values()) + len(sent.result()[1]) <= _KEPT_BYTES:
            self._kept[topic, partition] = begin, sent

    def close(self) -> None:
        """Close the connections and end the thread."""
        self._kept.clear()
        loop, self._loop = self._loop, None
        # A thread does not come along with a fork: the loop of the parent would never answer.
        if loop is None or self._pid != os.getpid():
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._ended(), loop).result(2 * _END_S)
        loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join(_END_S)

    def _begun(self, coroutine: Coroutine[Any, Any, _Sent]) -> Future[_Sent]:
        if self._loop is None or self._pid != os.getpid():
            compile_later()
            self._pid, self._client, self._loop = os.getpid(), None, asyncio.new_event_loop()
            self._thread = threading.Thread(target=run_loop, args=(self._loop,), name="kafka fetcher", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def _fetched(self, topic: str, partition: int, offset: int, end: int) -> _Sent:
        """Return what a broker sends from an offset on, at least one whole batch: from where, and what was aborted."""
        patience_s = self._settings.patience_ms / 1000
        deadline = time.monotonic() + patience_s
        place, told = TopicPartition(topic, partition), ""
        while True:
            try:
                # A client whose task for metadata has failed would wait for ever; half the time is left for another.
                raw, aborted = await asyncio.wait_for(self._asked(place, offset), patience_s / 2)
                if following_offset(raw, offset) > offset:
                    return offset, raw, aborted
                told = "it sends nothing"
            except OffsetOutOfRangeError as error:
                first = await self._first(place)
                # 0 stands for the oldest message that is kept, which is another one where some were deleted.
                if offset == 0 < first < end:
                    offset = first
                    continue
                gone = f"{offset} to {min(first, end) - 1}" if first > offset else f"from {offset} on"
                raise TransportError(
                    f"topic {topic!r} partition {partition}: messages {gone} were deleted before they were read",
                    hint="Kafka keeps them for retention.ms and retention.bytes of the topic",
                ) from error
            except _REFUSED as error:
                raise TransportError(
                    f"Kafka at {self._settings.bootstrap_servers} refuses while reading: {_worded(error)}",
                    hint="are name, password and certificates in the properties right?",
                ) from error
            except (KafkaError, OSError, TimeoutError) as error:
                told = _worded(error)
                # The leader may be another broker now.
                await self._looked_again()
            if time.monotonic() > deadline:
                raise unanswered(self._settings, f"reading topic {topic!r}", told)
            await asyncio.sleep(_PAUSE_S)

    async def _asked(self, place: TopicPartition, offset: int) -> tuple[bytes, list[tuple[int, int]]]:
        client = await self._connected()
        await client.add_topic(place.topic)
        leader = client.cluster.leader_for_partition(place)
        # What the client knows of a partition that has no leader, or that it has not been told of.
        if leader is None or leader == -1:
            raise KafkaError(f"{place.topic} partition {place.partition} has no leader")
        request = FetchRequest(
            max_wait_time=_WAIT_MS,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation_level=_COMMITTED,
            topics=[(place.topic, [(place.partition, offset, _FETCH_BYTES)])],
        )
        response = await client.send(leader, request)
        ((_, ((_, error_code, _, *rest),)),) = response.topics
        if error_code:
            raise for_code(error_code)()
        # Behind the ends and the beginning of the partition, as far as the version of the answer has them.
        aborted = rest[-3] if response.API_VERSION >= 11 else rest[-2]
        return rest[-1] or b"", list(aborted or ())

    async def _first(self, place: TopicPartition) -> int:
        """Return the offset of the oldest message that is kept."""

        def asked() -> int:
            extents, one = KafkaExtents(self._settings), (place.topic, place.partition)
            try:
                return extents.extents([one])[one][0]
            finally:
                extents.close()

        # The other client blocks, and this loop is to go on.
        return await asyncio.to_thread(asked)

    async def _connected(self) -> Any:
        if self._client is None:
            servers = [one.strip() for one in bootstrap_servers(self._settings).split(",") if one.strip()]
            client = AIOKafkaClient(bootstrap_servers=servers, **asyncio_options(self._options))
            try:
                await client.bootstrap()
            # Also when the wait for it was cancelled: its connections would stay open.
            except BaseException:
                await client.close()
                raise
            self._client = client
        return self._client

    async def _looked_again(self) -> None:
        """Ask who leads the partitions now; where nobody says it, connect anew the next time."""
        if self._client is None:
            return
        try:
            known = await asyncio.wait_for(self._client.force_metadata_update(), _END_S)
        except (KafkaError, OSError, TimeoutError):
            known = False
        if not known:
            await self._dropped()

    async def _ended(self) -> None:
        """Close the connections, and end what is still asked for."""
        await self._dropped()
        await end_other_tasks()

    async def _dropped(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(KafkaError, OSError, TimeoutError):
                await asyncio.wait_for(client.close(), _END_S)


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
        # The properties are not in the repr of the settings, as passwords may be among them.
        key = repr((settings, sorted(settings.properties.items())))
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = KafkaFetcher(settings)
        return fetcher.messages(one.name, partition, begin, end, keys=one.keys, headers=not one.users)

    def close(self) -> None:
        """Close the connections."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()


def _worded(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
