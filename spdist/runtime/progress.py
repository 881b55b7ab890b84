"""What Spark tells of a query, in our words: counters, and why it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from spdist.engine.spark.carried import carried_error
from spdist.errors import EngineError, ErrorKind, SpdistError

__all__ = ["NewestCounted", "counters_of", "first_line", "is_away", "is_full", "reason_of", "rejected_of"]


class NewestCounted:
    """Finds the newest progress of a query that has our counters: an idle query reports without.

    State
    -----
    What was found last, and by which report of the query.
    """

    def __init__(self) -> None:
        self._known: tuple[Any, Any] = (None, None)

    def of(self, query: Any) -> Any:
        """Return it, None where there is none. May be called from several threads."""
        last = query.lastProgress
        if last is None or counters_of(last):
            return last
        key = last.runId, last.timestamp
        known, found = self._known
        # To ask for all of them takes eight times as long, and a status is asked for several times a second.
        if known != key:
            found = next((progress for progress in reversed(query.recentProgress) if counters_of(progress)), None)
            self._known = key, found
        return found


def counters_of(progress: Any) -> Any:
    """Return the counters in a progress; nothing where it has none."""
    from spdist.engine.spark.streaming_query import OBSERVED

    return (progress.observedMetrics or {}).get(OBSERVED)


def rejected_of(counters: Any, streams: Sequence[str]) -> dict[str, int]:
    """Return how many messages the counters of a query tell to be rejected, by stream, of those that others feed."""
    from spdist.engine.spark.tasks import rejected_column

    return {stream: counters[rejected_column(number)] for number, stream in enumerate(streams)}


_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): ")


#: What ends a query that reads Kafka while no broker answers.
_AWAY = re.compile(r"TransportUnavailableError: Kafka at .* does not answer while (?:asking|connecting|reading)")


def is_away(error: BaseException) -> bool:
    """Tell whether a query ended because no broker answered who reads from Kafka."""
    # What Spark tells of a query that failed names no classes; the trace of its cause does.
    trace = getattr(getattr(error, "_cause", None), "_stackTrace", None)
    return _AWAY.search(f"{error}\n{trace}") is not None


#: What Python, SQLite and the JVM raise where a disk takes no more: full, over a quota, or read-only for now.
_FULL = re.compile(
    r"No space left on device|database or disk is full|Disk quota exceeded|Read-only file system|readonly database"
)


def is_full(error: BaseException) -> bool:
    """Tell whether something ended because a disk took nothing any more: once it does again all goes on."""
    trace = getattr(getattr(error, "_cause", None), "_stackTrace", None)
    return _FULL.search(f"{error}\n{trace}") is not None


def reason_of(error: BaseException, name: str) -> SpdistError:
    """Return the cause behind an error of group instance `name`, free of Spark's wrapping.

    An error that was raised in a Python process of Spark arrives as text; where it was one of ours it becomes that
    again, by what the text carries (`spdist.engine.spark.carried`).
    """
    if isinstance(error, SpdistError):
        return error
    text = str(error)
    if (carried := carried_error(text)) is not None:
        return carried
    # Of a Python traceback the last line says what happened; of anything else the first.
    told = next((line for line in reversed(text.splitlines()) if _RAISED.match(line)), first_line(error))
    return EngineError(f"group {name} failed: {told}", code=ErrorKind.QUERY_FAILED)


def first_line(error: BaseException) -> str:
    """Return what an error says in one line."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))
