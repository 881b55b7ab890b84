"""Law: cutting the input into batches, and going on from a snapshot anywhere, changes nothing."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

HANDLERS = [
    "#window.session(100L, k)",
    "#window.session(100L, k, 60L)",
    "#window.cron('*/1 * * * * ?')",
    "#window.sort(3, v, 'desc', k)",
    "#window.frequent(2, k)",
    "#window.lossyFrequent(0.4, 0.3, k)",
    "#window.expression('count() <= 3 and last.v - first.v < 5')",
    "#window.expression(e)",
    "#window.expressionBatch('sum(v) < 9', v > 2)",
    "#window.expressionBatch(e, false, true)",
    "#window.unique:ever(k)",
    "#window.unique:first(k, v)",
    "#window.unique:length(k, 2)",
    "#window.unique:time(k, 150)",
    "#window.unique:lengthBatch(k, 2)",
    "#window.unique:firstLengthBatch(k, 2)",
    "#window.unique:timeBatch(k, 200)",
    "#window.unique:firstTimeBatch(k, 200, 0)",
    "#window.unique:timeLengthBatch(k, 200, 2)",
    "#window.unique:externalTimeBatch(k, at, 200, 0, 150)",
    "#unique:deduplicate(k, 150L)",
    "#reorder:kslack(at, 250L)",
    "#reorder:akslack(at, v, 3L, 250L)",
]
RATES = [
    "",
    "output last every 3 events",
    "output all every 300 milliseconds",
    "output snapshot every 250 milliseconds",
]

EVENTS = st.lists(
    st.tuples(
        st.integers(0, 120), st.sampled_from("abc"), st.integers(1, 5), st.sampled_from(["count() <= 2", "sum(v) < 7"])
    ),
    max_size=20,
)


def app(handler: str, rate: str, partitioned: bool) -> LocalApp:
    query = f"from S{handler} select k, sum(v) as total group by k {rate} insert all events into Out;"
    if partitioned:
        query = f"partition with (k of S) begin {query} end;"
    text = f"define stream S (k string, v int, at long, e string); {query}"
    return LocalApp(check(parse(text), catalog(), text))


def observed(made: LocalApp, out: list[Any]) -> LocalApp:
    made.subscribe("Out", lambda timestamp, row: out.append((timestamp, row)))
    return made


@pytest.mark.parametrize("handler", HANDLERS)
@settings(max_examples=25, deadline=None)
@given(events=EVENTS, cuts=st.sets(st.integers(0, 20)), rate=st.sampled_from(RATES), partitioned=st.booleans())
def test_pieces_and_snapshots_are_invisible(
    handler: str, events: list[Any], cuts: set[int], rate: str, partitioned: bool
) -> None:
    now, timestamps, rows = 1000, [], []
    for step, key, value, text in events:
        now += step
        timestamps.append(now)
        rows.append((key, value, now - 7 * value, text))
    whole: list[Any] = []
    plain = observed(app(handler, rate, partitioned), whole)
    plain.start(1000)
    for timestamp, row in zip(timestamps, rows, strict=True):
        plain.send("S", timestamp, row)
    plain.advance(now + 2000)

    pieces: list[Any] = []
    made = observed(app(handler, rate, partitioned), pieces)
    made.start(1000)
    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    for start, end in pairwise(edges):
        made.send_batch("S", timestamps[start:end], rows[start:end])
        stored = made.snapshot()
        made = observed(app(handler, rate, partitioned), pieces)
        made.restore(stored)
    made.advance(now + 2000)
    assert pieces == whole
