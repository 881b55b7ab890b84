"""Between data frames and events: what streams take from pandas, polars, Arrow and files, and what results become."""

from __future__ import annotations

from spdist.frames.events import StreamEvents, arrow_table
from spdist.frames.files import check_suffix, write_file
from spdist.frames.reading import read_events, read_streams, to_events, to_frame
from spdist.frames.times import TimeUnit, instant, written_instant
from spdist.frames.values import to_row

__all__ = [
    "StreamEvents",
    "TimeUnit",
    "arrow_table",
    "check_suffix",
    "instant",
    "read_events",
    "read_streams",
    "to_events",
    "to_frame",
    "to_row",
    "write_file",
    "written_instant",
]
