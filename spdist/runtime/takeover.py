"""Becoming the owner of the states of the instances that share a query, and what the query is to know then."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.runtime.kafka_inputs import KafkaReads, UserReader, reads_before, reads_known
from spdist.runtime.shard_states import InstanceState
from spdist.transports.base import Transport

if TYPE_CHECKING:
    from spdist.engine.shards.shards import ShardSettings
    from spdist.engine.spark.query import QuerySettings
    from spdist.engine.spark.session import SparkHost

__all__ = ["Takeover"]


class Takeover:
    """Takes the states of some instances over for one start of their query.

    Parameters
    ----------
    name : str
        Of the instances together.
    states : sequence of InstanceState
        Where the states are.
    host : SparkHost
        Where the query runs.
    partitions : int
        How many Spark partitions host the shards.
    transport : Transport
        Of the instances' topics.
    """

    def __init__(
        self, name: str, states: Sequence[InstanceState], host: SparkHost, partitions: int, transport: Transport
    ) -> None:
        self._name = name
        self._states = states
        self._host = host
        self._partitions = partitions
        self._transport = transport

    def take(
        self, owner: str, files: Path, reads: KafkaReads, may: Callable[[], AbstractContextManager[bool]]
    ) -> QuerySettings | None:
        """Become the owner; None where the group was told to end meanwhile.

        Parameters
        ----------
        owner : str
            A new one.
        files : Path
            A directory of this start.
        reads : KafkaReads
            What is read from Kafka.
        may : callable
            Whether the state may be opened now; the group cannot be told to end before that is done.
        """
        shards: list[ShardSettings] = []
        config = self._host.config
        for followed in (one for state in self._states for one in state.followed()):
            if not self._close(followed, files, may):
                return None
        for state in self._states:
            before = reads_before(state, reads, config.transports, config.script.python_enabled, self._host.allowed)
            opened = _open(state, owner, before, may)
            if opened and not state.fits:
                settings = self._settings(opened, files, 1, before)
                state.move(settings, reads, UserReader(settings, self._transport).read)
                # The move has made a layout that nobody owns yet
                opened = _open(state, owner, reads, may)
            if not opened:
                return None
            shards += opened
        return self._settings(shards, files, self._partitions, reads)

    def _close(self, state: InstanceState, files: Path, may: Callable[[], AbstractContextManager[bool]]) -> bool:
        """Have an instance that is no more put out what it may not have published; False where the group is to end."""
        config = self._host.config
        scripts, allowed = config.script.python_enabled, self._host.allowed
        reads = reads_known(state.assignment, state.positions(), config.transports, scripts, allowed)
        opened = _open(state, f"{self._name}/{uuid.uuid4().hex}", reads, may)
        if opened:
            settings = self._settings(opened, files, 1, reads)
            state.move(settings, reads, UserReader(settings, self._transport).read)
        return bool(opened)

    def _settings(
        self, shards: Sequence[ShardSettings], files: Path, partitions: int, reads: KafkaReads
    ) -> QuerySettings:
        from spdist.engine.spark.query import QuerySettings

        config = self._host.config.spark
        return QuerySettings(
            name=self._name,
            shards=tuple(shards),
            partitions=partitions,
            topics=self._host.topics,
            kafka=reads.inputs,
            stop_flag=str(files / "stop"),
            checkpoint=str(files / "checkpoint"),
            merge_wait_ms=config.merge_wait_ms,
            tick_interval_ms=config.tick_interval_ms,
            max_batch_events=config.max_batch_events,
            scripts=self._host.config.script.python_enabled,
            max_state_bytes=config.max_state_bytes,
            slow_event_ms=config.slow_event_ms,
            allowed=self._host.allowed_for_tasks,
            copies=str(self._host.copies),
        )


def _open(
    state: InstanceState, owner: str, reads: KafkaReads, may: Callable[[], AbstractContextManager[bool]]
) -> tuple[ShardSettings, ...]:
    with may() as allowed:
        return state.open(owner, reads) if allowed else ()
