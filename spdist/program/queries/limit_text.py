"""Which rate limit a query has, and what is done when one by time is due."""

from __future__ import annotations

from spdist.program.expressions import NUMBER
from spdist.program.parts import EACH, Block, Most, QueryText, Whole, indent
from spdist.program.queries.chunk_text import Buffers
from spdist.program.queries.rate_text import RateWriter
from spdist.program.queries.snapshot_text import snapshot_writer
from spdist.program.timer_text import NEVER, RATE_LIMIT, TimerWriter

__all__ = ["begins_ticking", "limit_of", "ticking"]


def limit_of(whole: Whole, query: QueryText, results: Buffers, key: str) -> RateWriter:
    """Return what writes the rate limit of a query; for the parameters see `RateWriter`."""
    return (snapshot_writer(query) if query.shows_snapshots else RateWriter)(whole, query, results, key)


def ticking(whole: Whole, query: QueryText, key: str, most: Most) -> list[str]:
    """Return what is done at a tick of a query's rate limit, where so many results can be held back."""
    rate = limit_of(whole, query, Buffers.of_results(whole, query), key or "0")
    types, owner = tuple(query.read.checked.output.types), rate.buffers.owner
    going = rate.going(most)
    whole.count(rate.buffers.room, going)
    # What was held back may be of an earlier call, whose events nobody has any more.
    source, origins = f"{owner}_source", (None,) * len(types)
    block = Block(query.read.checked.target, owner, types, "0", rate.count, source, origins, rate.buffers.room, going)
    return rate.wakes(whole.follows(query, block, key))


def begins_ticking(whole: Whole, query: QueryText, key: str) -> list[str]:
    """Return what lets the time of a limit begin with the key of a partition that is new."""
    if not query.ticks:
        return []
    rate = query.read.checked.query.rate
    assert rate is not None and rate.time is not None
    timer = TimerWriter(whole.arrays, query, key, RATE_LIMIT)
    tick = f"{whole.arrays.declare(f'{query.name}_l_tick', NUMBER, query.instances, NEVER)}[{key}]"
    whole.count(f"dues {query.name}_l", Most({EACH: 1}))
    begins = [f"{tick} = now + {rate.time.milliseconds}", timer.asks(tick)]
    return [f"if {tick} == {NEVER}:", *indent(begins)]
