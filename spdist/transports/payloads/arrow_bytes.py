"""Arrow batches as bytes: how columns are kept and sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["arrow_bytes"]


def arrow_bytes(batch: Any) -> bytes:
    """Return an Arrow batch as a stream of its own in Arrow's IPC format, its schema included."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written
