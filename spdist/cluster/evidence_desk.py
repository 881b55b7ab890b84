"""What a node gives to those who ask why a group has put something out: the inputs that the group's state holds.

The files of a state never change, and reading them touches neither the group nor its process. The replay is done by
whoever asks (`spdist.cluster.explaining`).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

from spdist.cluster.keeper import Keeper
from spdist.cluster.slots import Slots
from spdist.config import Config

__all__ = ["EvidenceDesk"]

Json = dict[str, Any]
#: Bytes of one answer; a single file that is larger comes alone.
_PAGE = 1 << 20


class EvidenceDesk:
    """Reads the stored state of the groups of a node.

    Parameters
    ----------
    keeper : callable
        Returns the groups.
    config : Config
        Says where state is kept.
    """

    def __init__(self, keeper: Callable[[], Keeper], config: Config) -> None:
        self._keeper = keeper
        self._config = config
        self._slots = Slots(8, "requests for the inputs of groups")

    def inputs(self, name: str) -> Json:
        """Return which inputs of a group instance are kept: files by shard, and what has processed them.

        Raises
        ------
        NotFoundError
            The instance is not here, or has no state yet.
        StateError
            Its state cannot be read.
        """
        from spdist.engine.places import place_of
        from spdist.runtime.kept_inputs import kept_inputs

        self._keeper().group(name)
        with self._slots:
            kept = kept_inputs(place_of(self._config.state_persistence.location), name)
        return {**kept.to_dict(), "mergeWait": self._config.spark.merge_wait_ms}

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
        from spdist.engine.places import place_of
        from spdist.runtime.kept_inputs import read_files

        self._keeper().group(name)
        with self._slots:
            found = read_files(place_of(self._config.state_persistence.location), name, layout, shard, names, _PAGE)
        return {"contents": [base64.b64encode(one).decode("ascii") for one in found]}
