"""How much memory processes use, and how much a worker may: the limit it is given, its container's, its machine's."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

__all__ = ["Usage", "container_limit", "memory_of", "worker_memory"]

#: Share of the machine's memory that stays free, for the system and for what groups will still need.
_SPARE = 0.1
_CGROUPS = Path("/sys/fs/cgroup")


class Usage(NamedTuple):
    """What a worker may use, and what it uses, bytes."""

    limit: int
    used: int


def memory_of(processes: Iterable[psutil.Process]) -> int:
    """Return the resident memory of processes in bytes.

    On Linux a page that several processes share counts once in all (proportional set size), elsewhere for each.
    """
    total = 0
    for process in processes:
        with suppress(psutil.Error):
            full = process.memory_full_info()
            total += getattr(full, "pss", full.rss)
    return total


def worker_memory(configured: int = 0) -> Usage:
    """Return what this process and all that it has started use, and may use.

    Parameters
    ----------
    configured : int
        ``spark.memoryLimit``, bytes; 0 for what machine and container allow, less a tenth.

    Returns
    -------
    Usage
        The limit is never more than what others on this machine have left free.
    """
    me = psutil.Process()
    used = memory_of([me, *me.children(recursive=True)])
    machine = psutil.virtual_memory()
    container = container_limit()
    whole = machine.total if container is None else min(machine.total, container)
    # What this worker has already is not available any more, and yet its own
    left = used + max(0, machine.available - int(machine.total * _SPARE))
    return Usage(min(configured or int(whole * (1 - _SPARE)), left), used)


def container_limit(root: Path = _CGROUPS, own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Return the least memory limit of the control groups that this process is in, bytes; None where there is none.

    Parameters
    ----------
    root : Path
        Where control groups are mounted; version 2, or version 1 with its controller ``memory``.
    own : Path
        Says which ones this process is in.
    """
    found = []
    with suppress(OSError, ValueError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            top, file = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
            place = top / path.lstrip("/")
            # In a container the path is that of the host, and the group's own files are at the top.
            for directory in {top, *(one for one in (place, *place.parents) if one.is_relative_to(top))}:
                with suppress(OSError, ValueError):
                    found.append(int((directory / file).read_text(encoding="ascii")))
    limit = min(found, default=None)
    # Version 1 says "none" with a number that no machine has.
    return None if limit is None or limit >= 1 << 60 else limit
