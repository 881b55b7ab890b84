"""Events are shared out to destinations as Siddhi does it, on every machine alike."""

from __future__ import annotations

import pytest

from spdist.language.types import Schema
from spdist.operators.core.distribution import distribution, java_hash

SCHEMA = Schema.of([("k", "string"), ("f", "float")])
CHUNK = [(1, ("a", 1.5)), (2, ("b", 1.5)), (3, ("c", 0.1))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello world", 1794106052),
        ("polygenelubricants", -(2**31)),
        ("ü", 252),
        ("𝄞", 1772394),
    ],
)
def test_texts_hash_as_in_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_round_robin_goes_on_where_it_was() -> None:
    strategy = distribution("roundRobin", 3, None, SCHEMA)
    assert [strategy.share_out(CHUNK)[0][0] for _ in range(4)] == [0, 1, 2, 0]
    other = distribution("roundRobin", 3, None, SCHEMA)
    other.restore(strategy.snapshot())
    assert other.share_out(CHUNK) == [(1, CHUNK)]


def test_broadcast_goes_everywhere() -> None:
    strategy = distribution("broadcast", 2, None, SCHEMA)
    strategy.restore(strategy.snapshot())
    assert strategy.share_out(CHUNK) == [(0, CHUNK), (1, CHUNK)]


def test_partitioned_keeps_equal_keys_together() -> None:
    strategy = distribution("partitioned", 2, "k", SCHEMA)
    assert strategy.share_out(CHUNK) == [(1, [CHUNK[0], CHUNK[2]]), (0, [CHUNK[1]])]
    by_float = distribution("partitioned", 64, "f", SCHEMA)
    assert [place for place, _ in by_float.share_out(CHUNK)] == [java_hash("1.5") % 64, java_hash("0.1") % 64]
