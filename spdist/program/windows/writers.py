"""Which class writes a window, in a query and on a side of a join."""

from __future__ import annotations

from spdist.program.windows.batch_text import BatchWriter, ChunkWriter
from spdist.program.windows.bound_text import BoundBatchWriter, BoundWriter
from spdist.program.windows.cron_text import CronWriter
from spdist.program.windows.delay_text import DelayWriter
from spdist.program.windows.external_text import ExternalBatchWriter, ExternalWriter
from spdist.program.windows.frequent_text import FrequentWriter
from spdist.program.windows.kinds import Batched, Cron, Frequent, Kept, Sessions, Sliding
from spdist.program.windows.passing_text import EachWriter, PassingWriter
from spdist.program.windows.period_text import PeriodWriter
from spdist.program.windows.session_text import SessionWriter
from spdist.program.windows.sorted_text import SortedWriter
from spdist.program.windows.text import WindowWriter
from spdist.program.windows.unique_text import (
    UniqueBatchWriter,
    UniqueExternalWriter,
    UniqueLengthWriter,
    UniquePeriodWriter,
    UniqueTimeWriter,
    UniqueWriter,
)

__all__ = ["batch_writer", "sliding_writer"]


def sliding_writer(window: Sliding) -> type[WindowWriter]:
    """Return what writes a window that events leave one by one."""
    if isinstance(window, Frequent):
        return FrequentWriter
    if window.unique is not None:
        return UniqueTimeWriter if window.span else UniqueLengthWriter if window.length else UniqueWriter
    if window.is_empty:
        return PassingWriter
    if window.bound is not None:
        return BoundWriter
    if window.time is not None:
        return ExternalWriter
    if isinstance(window, Sessions):
        return SessionWriter
    return SortedWriter if window.orders else WindowWriter


def batch_writer(window: Kept) -> type[BatchWriter]:
    """Return what writes a window that has results for events later than they come, or lets them leave together."""
    if isinstance(window, Cron):
        return CronWriter
    if window.unique is not None:
        timed = UniqueExternalWriter if window.time is not None else UniquePeriodWriter
        return timed if window.span else UniqueBatchWriter
    if isinstance(window, Sliding) and window.gathers:
        return BoundBatchWriter
    if isinstance(window, Batched) and window.chunked:
        return ChunkWriter
    if not window.span:
        return BatchWriter if window.length > 0 else EachWriter
    if window.time is not None:
        return ExternalBatchWriter
    return PeriodWriter if isinstance(window, Batched) else DelayWriter
