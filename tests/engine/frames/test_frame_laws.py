"""Whatever Spark does with the rows in between, an app over frames gives what it gives in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local import LocalApp, run
from spdist.extension import catalog
from spdist.language.checked import CheckedApp
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.planning.sharding import sharding
from tests.engine.frames.pipeline import Came, Given, Query, by_stream, came, planned, run_as_batch
from tests.properties.siddhi_apps import Sample, samples

laws = settings(max_examples=60)
STREAMS = ("A", "B")
#: What Spark chooses by itself.
_draws = st.integers(0, 2**32).map(random.Random)


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


def given_rows(sample: Sample) -> list[Given]:
    return [(STREAMS.index(stream), ts, n, row) for n, (stream, ts, row) in enumerate(sample.events)]


def splits(checked: CheckedApp) -> bool:
    return sharding(checked, STREAMS).possible


def outputs_of(checked: CheckedApp) -> list[str]:
    return [name for name in ("Out", "Counts") if name in checked.streams]


def sent(checked: CheckedApp, parts: Sequence[Sequence[Given]]) -> Came:
    """What comes out where the rows of each part are sent in order of time."""
    app, made = LocalApp(checked), {name: [] for name in outputs_of(checked)}
    for name, into in made.items():
        app.subscribe(name, lambda ts, row, into=into: into.append((ts, row)))
    for part in parts:
        for number, ts, _, row in sorted(part, key=lambda one: (one[1], one[0], one[2])):
            app.send(STREAMS[number], ts, row)
    return made


def agree(found: Came, expected: Came, shards: int) -> None:
    assert found.keys() == expected.keys()
    for name, events in expected.items():
        if shards == 1:
            assert repr(found[name]) == repr(events)
        else:
            assert Counter(map(repr, found[name])) == Counter(map(repr, events))


@laws
@given(samples(), st.integers(2, 4), _draws)
def test_a_batch_gives_what_virtual_time_gives(sample: Sample, shards: int, draw: random.Random) -> None:
    checked = check(parse(sample.text), catalog(), sample.text)
    count = shards if splits(checked) else 1
    rows = given_rows(sample)
    expected = run(sample.text, by_stream(STREAMS, rows), until=sample.end)
    plan = planned(sample.text, STREAMS, outputs_of(checked), count, until=sample.end)
    agree(came(plan, run_as_batch(plan, rows, draw)), expected, count)


@laws
@given(samples(), st.integers(2, 4), _draws, st.lists(st.integers(0, 25), max_size=5))
def test_a_stream_gives_what_virtual_time_gives_however_it_is_cut_repeated_and_restarted(
    tmp_path_factory: pytest.TempPathFactory, sample: Sample, shards: int, draw: random.Random, cuts: list[int]
) -> None:
    checked = check(parse(sample.text), catalog(), sample.text)
    count = shards if splits(checked) else 1
    rows = given_rows(sample)
    ends = sorted(cuts)
    parts = [rows[begin:end] for begin, end in zip([0, *ends], [*ends, len(rows)], strict=True)]
    plan = planned(sample.text, STREAMS, outputs_of(checked), count)
    query = Query(plan, tmp_path_factory.mktemp("query"), draw)
    batches = [batch for part in parts for batch in query.micro_batch(part)]
    agree(came(plan, batches), sent(checked, parts), count)
