"""What a node logs: as text for people at a terminal, as one JSON object a line for machines, the last of it kept.

Fields in addition to the message say what a record is about. They are given with it (``extra={"group": …}``), or for
all that a thread logs inside `about`. What is secret on this node is masked wherever a record leaves it.
"""

from __future__ import annotations

import json
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

__all__ = ["JsonFormatter", "Mask", "RecordRing", "TextFormatter", "about", "structured"]

#: What a record may be about.
FIELDS = ("app", "group", "worker", "term", "user", "address", "method", "path", "outcome")
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: Secrets that are shorter are not masked: they stand in many a word.
_SHORTEST = 4
_MASKED = "*****"
_context: ContextVar[Mapping[str, object]] = ContextVar("spdist_log_context", default=MappingProxyType({}))


@contextmanager
def about(**fields: object) -> Iterator[None]:
    """Add `fields`, of `FIELDS`, to what this thread logs inside."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


class Mask:
    """Replaces secrets in texts.

    Parameters
    ----------
    secrets : iterable of str
        Those of this node; of fewer than 4 characters none is replaced.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        # Longest first: the first alternative that matches wins, and one secret may be the beginning of another.
        known = sorted({one for one in secrets if len(one) >= _SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        """Return `text` without secrets."""
        return text if self._pattern is None else self._pattern.sub(_MASKED, text)


def structured(record: logging.LogRecord, node: str, mask: Mask) -> dict[str, Any]:
    """Return a record as JSON has it: time (ISO 8601, UTC), level, logger, message, node, and what it is about."""
    context = _context.get()
    known: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": record.levelname,
        "logger": record.name,
        "message": mask(record.getMessage()),
        "node": node,
    }
    for field in FIELDS:
        value = getattr(record, field, None) or context.get(field)
        if value:
            known[field] = mask(value) if isinstance(value, str) else value
    if record.exc_info:
        known["exception"] = mask(logging.Formatter().formatException(record.exc_info))
    return known


class JsonFormatter(logging.Formatter):
    """One JSON object a line; see `structured`."""

    def __init__(self, node: str, mask: Mask) -> None:
        super().__init__()
        self._node = node
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        return json.dumps(structured(record, self._node, self._mask), ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """Lines for people."""

    def __init__(self, mask: Mask) -> None:
        super().__init__(_TEXT)
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines, without the end of the last."""
        return self._mask(super().format(record))


class RecordRing(logging.Handler):
    """Keeps the last records of this process, structured.

    Parameters
    ----------
    node : str
        Id of this node.
    mask : Mask
        What is secret here.
    kept : int
        How many.

    State
    -----
    So many records, each with at most 4000 characters of text and as many of traceback.
    """

    def __init__(self, node: str, mask: Mask, kept: int) -> None:
        super().__init__(logging.INFO)
        self._node = node
        self._mask = mask
        self._records: deque[tuple[int, int, dict[str, Any]]] = deque(maxlen=kept)

    def attach(self) -> None:
        """Begin to keep what spdist logs."""
        logger = logging.getLogger("spdist")
        # Without a level of its own the logger has that of the root, WARNING, which leaves INFO out.
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def detach(self) -> None:
        """Keep nothing more; what was kept stays."""
        logging.getLogger("spdist").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        try:
            known = structured(record, self._node, self._mask)
            for key in ("message", "exception"):
                if key in known:
                    known[key] = known[key][:4000]
            self._records.append((int(record.created * 1000), record.levelno, known))
        # As logging's own handlers: what cannot be kept must not fail whoever logs it.
        except Exception:
            self.handleError(record)

    def read(
        self,
        *,
        app: str | None = None,
        group: str | None = None,
        level: int = logging.NOTSET,
        since_ms: int = 0,
        limit: int = 100,
    ) -> list[dict[str, Any]]:
        """Return the newest `limit` records about `app` and `group`, of `level` or above, since then; newest first."""
        # `emit` runs under this lock, too: a deque that grows while it is copied raises.
        self.acquire()
        try:
            records = list(self._records)
        finally:
            self.release()
        found = (
            known
            for at_ms, of, known in reversed(records)
            if at_ms >= since_ms
            and of >= level
            and (app is None or known.get("app") == app)
            and (group is None or known.get("group") == group)
        )
        return [known for known, _ in zip(found, range(limit), strict=False)]
