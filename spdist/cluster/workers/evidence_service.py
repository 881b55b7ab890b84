"""What a node gives to those who ask why a group has put something out: the inputs that the group's state holds.

The files of a state never change, and reading them touches neither the group nor its process. A group that runs as
Spark Columns has no state: of it, messages are read from its topics. The replay is done by whoever asks
(`spdist.cluster.clients.explaining`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spdist.cluster.managers.slots import CallerSlots
from spdist.cluster.workers.group_supervisor import GroupSupervisor
from spdist.config import Config
from spdist.config.allowed import Allowed, allowed_of

if TYPE_CHECKING:
    from spdist.engine.shards.places import Place

__all__ = ["EvidenceService"]

Json = dict[str, Any]
#: Bytes of one answer; a single file that is larger comes alone.
_PAGE = 1 << 20


class EvidenceService:
    """Reads the stored state of the groups of a node.

    Parameters
    ----------
    supervisor : callable
        Returns the groups.
    config : Config
        Says where state is kept.
    """

    def __init__(self, supervisor: Callable[[], GroupSupervisor], config: Config) -> None:
        self._supervisor = supervisor
        self._config = config
        self._slots = CallerSlots(8, "requests for the inputs of groups")

    def inputs(self, name: str) -> Json:
        """Return which inputs of a group instance are kept: files by shard, and what has processed them.

        Of one that runs as Spark Columns ``topics`` says instead which messages of its topics are there.

        Raises
        ------
        NotFoundError
            The instance is not here, or has no state yet.
        StateError
            Its state cannot be read.
        TransportUnavailableError
            The brokers of its topics do not answer.
        """
        from spdist.runtime.column_inputs import column_inputs
        from spdist.runtime.stored_inputs import stored_inputs

        self._supervisor().group(name)
        with self._slots:
            kept = column_inputs(self._location, name, *self._settings) or stored_inputs(self._location, name)
        return {**kept.to_dict(), "mergeWait": self._config.spark.merge_wait_ms}

    def messages(self, name: str, topic: str, partition: int, offset: int) -> Json:
        """Return messages that an instance of Spark Columns reads, from an offset on, values in base 64: at least one.

        Raises
        ------
        NotFoundError
            The instance is not here, is not of this kind now, or reads no such topic.
        TransportUnavailableError
            The brokers do not answer.
        """
        from spdist.runtime.column_inputs import read_messages

        self._supervisor().group(name)
        with self._slots:
            found = read_messages(self._location, name, (topic, partition, offset), _PAGE, *self._settings)
        return {"messages": [[one.offset, one.sent, _text(one.value)] for one in found]}

    def files(self, name: str, layout: str, shard: int, names: Sequence[str]) -> Json:
        """Return the contents of the first of some of these files, in base 64: at least one of them.

        Raises
        ------
        NotFoundError
            The instance is not here, a name is that of no such file, or a file is gone since the state has gone on: ask
            again which there are.
        StateError
            A file is too large, or cannot be read.
        """
        from spdist.runtime.stored_inputs import read_files

        self._supervisor().group(name)
        with self._slots:
            found = read_files(self._location, name, layout, shard, names, _PAGE)
        return {"contents": [_text(one) for one in found]}

    @property
    def _location(self) -> Place:
        from spdist.engine.shards.places import place_of

        return place_of(self._config.state_persistence.location)

    @property
    def _settings(self) -> tuple[bool, Allowed]:
        """Whether functions in Python are known, and what apps may refer to of this node."""
        return self._config.script.python_enabled, allowed_of(self._config)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
