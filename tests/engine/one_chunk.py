"""One chunk for an app, with the clock where it is."""

from __future__ import annotations

from collections.abc import Sequence

from spdist.engine.island.hosted import HostedApp
from spdist.operators.base import Arrival
from spdist.operators.core.junction import ObserverFailed

__all__ = ["deliver_now"]


def deliver_now(app: HostedApp, stream: str, arrivals: Sequence[Arrival]) -> None:
    """Have a stream receive one chunk, whatever its timestamps are: no time passes, and none becomes a column."""
    junction = app._context.junction(stream)
    far = len(arrivals) > 1 or arrivals[0][0] - app.clock > app.jumps.limit
    if far and app.jumps.refuses(stream, arrivals):
        return
    try:
        if len(arrivals) == 1:
            junction.receive(*arrivals[0])
        else:
            junction.receive_chunk(arrivals)
    except ObserverFailed as failed:
        raise failed.cause from None
