"""How much memory the live state may take: the bound of a process that hosts shards."""

from __future__ import annotations

import psutil

from spdist.errors import StateTooLargeError

__all__ = ["check_memory", "resident_bytes"]

_MIB = 1 << 20


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
    StateTooLargeError
        It is more than it may be. The batches so far are stored: the group goes on from there once it may.
    """
    if resident > most:
        raise StateTooLargeError(
            f"{name} occupies {resident // _MIB:,} MiB, more than the {most // _MIB:,} MiB it may; its state is kept",
            hint="raise spark.maxStateMemory, split the app by key (spark.shards), or shorten its windows",
        )
