"""The memory of a process that hosts shards: how much it may take, what nobody need look through or import."""

from __future__ import annotations

import gc
import sys
from importlib.abc import MetaPathFinder
from typing import Any

import psutil
import pyarrow as pa

from spdist.errors import ErrorKind, StateError

__all__ = ["arrow_without_pandas", "check_memory", "collect_rarely", "resident_bytes", "set_aside"]

_MIB = 1 << 20
#: Objects made between two looks for those that only refer to each other.
_LOOK_EACH = 50_000
#: Batches between two looks at what has been set aside.
_LOOK_AT_ALL_EACH = 500


def resident_bytes() -> int:
    """Return how much memory this process occupies."""
    resident: int = psutil.Process().memory_info().rss  # not once: this one may have been forked since
    return resident


def check_memory(name: str, resident: int, most: int) -> None:
    """Refuse to go on with live state that has grown too large, before the machine begins to swap or kills somebody.

    Parameters
    ----------
    name : str
        Whose state it is.
    resident, most : int
        Bytes that the process occupies, and may occupy.

    Raises
    ------
    StateError
        It is more than it may be. The batches so far are stored: the group goes on from there once it may.
    """
    if resident > most:
        raise StateError(
            f"{name} occupies {resident // _MIB:,} MiB, more than the {most // _MIB:,} MiB it may; its state is kept",
            hint="raise spark.maxStateMemory, split the app by key (spark.shards), or shorten its windows",
            code=ErrorKind.STATE_TOO_LARGE,
        )


def collect_rarely() -> None:
    """Look more rarely than Python does by itself for objects that only refer to each other.

    Almost nothing that a batch makes does that: looking for it at each turn costs a third of the time.
    """
    gc.set_threshold(_LOOK_EACH, 20, 100)


def set_aside(batch: int) -> None:
    """Take what is there for what stays, at the beginning of a batch: nobody looks whether it refers to itself.

    Spark's worker looks through all objects after each task, while nothing else can go on: a tenth of a second for the
    modules alone, and more for the state. So it finds what the batch has made. Of what has been set aside that which is
    only kept by itself is found once in many batches.
    """
    if batch and batch % _LOOK_AT_ALL_EACH == 0:
        # What is frozen is in no generation: `collect` does not see it
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def arrow_without_pandas() -> None:
    """Keep pyarrow from importing pandas in this process, where nobody needs it.

    It would, the first time a list becomes an array: 45 MB of memory and half a second of start for each of the many
    small processes that Spark starts. Once it has looked in vain it does not look again.
    """
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, hidden := _Hidden())
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(hidden)


class _Hidden(MetaPathFinder):
    """Makes pandas look as if it were not installed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Refuse pandas, know nothing else."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is hidden while pyarrow looks for it", name=fullname)
