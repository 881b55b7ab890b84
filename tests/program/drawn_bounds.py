"""Random windows that a condition over their events bounds."""

from __future__ import annotations

from random import Random

__all__ = ["drawn_bound"]

_ENDS = (
    "last.total - first.total < 10L",
    "last.volume - first.volume <= 5",
    "eventTimestamp(last) - eventTimestamp(first) < 60",
    "eventTimestamp(last) - eventTimestamp(first) < 700",
    "last.sym == first.sym",
    "first.kind is null",
    "price >= first.price",
    "not (last.kind != 'x')",
)
_TOTALS = (
    "count() <= 1",
    "count() <= 2",
    "count() < 5",
    "sum(volume) < 12",
    "sum(price * 2.0) is null",
    "avg(rate) > 0.1",
    "max(price) - min(price) < 3.0",
    "min(total) >= 0L",
    "stdDev(total) < 9.0",
    "maxForever(volume) < 5",
    "and(volume > -2)",
    "rate <= sum(rate)",
)
_OWN = ("ok", "volume < 5", "not (kind is null)", "eventTimestamp() % 2L == 0L", "sym != 'b'")


def drawn_bound(random: Random) -> str:
    """Return a window ``expression`` or ``expressionBatch`` over events that have the attributes of S."""
    condition = _drawn(random, 2)
    if random.random() < 0.5:
        return f'expression("""{condition}""")'
    options = random.choice(("", "", ", true", ", volume > 0", ", false, true", ", ok, true", ", true, false"))
    return f'expressionBatch("""{condition}"""{options})'


def _drawn(random: Random, depth: int) -> str:
    form = random.random() if depth else 0.0
    if form < 0.45:
        return random.choice((*_ENDS, *_TOTALS, *_TOTALS, *_OWN))
    left, right = _drawn(random, depth - 1), _drawn(random, depth - 1)
    if form < 0.9:
        return f"({left} {random.choice(('and', 'or'))} {right})"
    return f"ifThenElse({left}, {right}, {_drawn(random, depth - 1)})"
