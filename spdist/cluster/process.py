"""What managers and workers have in common as processes: where others reach them, their times and logs, their end."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

import psutil

from spdist.cluster.elections.election import ElectionTiming
from spdist.cluster.elections.timing import WorkerTiming, failover_doubt
from spdist.config import Config, Secret
from spdist.errors import ClusterError, SpdistError
from spdist.logs import JsonFormatter, Mask, RecordRing, TextFormatter

__all__ = ["END_WITH", "advertised", "kept_log", "start_logging", "times_doubt", "wait_for_end"]

#: Environment variable with the id of a process that a node shall not outlive.
END_WITH = "SPDIST_END_WITH"

_log = logging.getLogger("spdist.cluster")
_LOOK_S = 0.5


def advertised(config: Config, port: int) -> str:
    """Return the base URL at which others reach this node: ``httpsInterface``, with the real `port` for its 0."""
    interface = config.deployment.https_interface
    return (interface if interface.port else replace(interface, port=port)).url


def start_logging(config: Config) -> None:
    """Log to standard error from here on, as ``logging.format`` says, unless this process logs elsewhere already."""
    mask = Mask(_secrets(config))
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter(config.carbon.id, mask) if config.logging.format == "json" else TextFormatter(mask)
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def kept_log(config: Config) -> RecordRing:
    """Return what keeps the last records of a node; it is not attached yet."""
    return RecordRing(config.carbon.id, Mask(_secrets(config)), config.logging.kept)


def _secrets(of: object) -> Iterator[str]:
    """Yield all secrets in settings."""
    if isinstance(of, Secret):
        yield of.reveal()
    elif is_dataclass(of):
        for one in fields(of):
            yield from _secrets(getattr(of, one.name))
    elif isinstance(of, tuple | Mapping):
        for value in of.values() if isinstance(of, Mapping) else of:
            yield from _secrets(value)


def tell_notes(config: Config) -> None:
    """Log which settings are not used, and why: who starts a node with a file of WSO2's asks nobody else."""
    for note in config.notes:
        _log.warning("%s", note)


def times_doubt(config: Config) -> str:
    """Return `failover_doubt` of a manager's settings."""
    deployment, cluster = config.deployment, config.cluster
    return failover_doubt(
        ElectionTiming(cluster.heartbeat_interval_ms, cluster.heartbeat_max_retry),
        WorkerTiming.from_config(deployment.heartbeat_interval_ms, deployment.heartbeat_max_retry),
    )


def wait_for_end(stop: threading.Event, failure: Callable[[], BaseException | None]) -> None:
    """Return when `stop` is set or a process that this node belongs to has gone.

    That is papermill or Jupyter, if it is a notebook, and the one that the environment variable `END_WITH` names:
    without them nobody is there who could stop it. A node that was started from a shell goes on without that shell.

    Meanwhile Python's collector passes over what the node has loaded by now, as that stays: looking through it again
    and again holds up all threads of a manager for 50 to 250 ms each time, heartbeats included.

    Parameters
    ----------
    stop : threading.Event
        Set by whoever stops this node.
    failure : callable
        Returns the error that has ended the node's work, None while it works.

    Raises
    ------
    SpdistError
        The node has failed.
    """
    needed = {_notebook_server(), int(os.environ.get(END_WITH, "0"))} - {0}
    processes = list(_found(needed))
    gc.collect()
    gc.freeze()
    try:
        _watch(stop, failure, processes, len(needed))
    finally:
        gc.unfreeze()


def _found(pids: Iterable[int]) -> Iterator[psutil.Process]:
    """Yield the processes that are there."""
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield psutil.Process(pid)


def _watch(
    stop: threading.Event, failure: Callable[[], BaseException | None], processes: list[psutil.Process], needed: int
) -> None:
    while not stop.wait(_LOOK_S):
        error = failure()
        if isinstance(error, SpdistError):
            raise error
        if error is not None:
            raise ClusterError(f"this node has failed: {error!r}", hint="its log has the details") from error
        # Fewer than needed: one had gone before it could be watched
        if len(processes) < needed or not all(_lives(process) for process in processes):
            _log.warning("a process that this node belongs to has gone, so it stops")
            return


def _notebook_server() -> int:
    """Return the process that has started this one as the kernel of a notebook, 0 if this is none.

    jupyter_client names it in the kernel's environment. Programs that a notebook starts inherit that, but have another
    parent.
    """
    parent = os.getppid()
    return parent if os.environ.get("JPY_PARENT_PID") == str(parent) else 0


def _lives(process: psutil.Process) -> bool:
    try:
        # A zombie has its id until its parent asks how it ended, which may be never
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
