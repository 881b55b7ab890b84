"""Whatever Spark does with the rows in between, an app over frames gives what it gives in virtual time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.app import LocalApp, run
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
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


def sent(checked: CheckedApp, parts: Sequence[Sequence[Given]], outputs: Sequence[str] = ()) -> Came:
    """What comes out where the rows of each part are sent in order of time."""
    app, made = LocalApp(checked), {name: [] for name in outputs or outputs_of(checked)}
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


DAY_MS = 86_400_000
JUMPY = """@app:playback
@OnError(action='STREAM') define stream A (id string, v int);
define stream B (id string, v int);
partition with (id of A, id of B) begin
    from every e1=A -> not B[v > e1.v] for 2 sec select e1.id as id, e1.v as v insert into Out;
end;
"""


@laws
@given(
    st.lists(
        st.tuples(st.sampled_from([0, 1, 1_000, -3_000, 200 * DAY_MS, 400 * DAY_MS]), st.integers(0, 9)), max_size=20
    ),
    st.integers(1, 4),
    _draws,
    st.lists(st.integers(0, 20), max_size=3),
)
def test_shards_refuse_what_lies_too_far_ahead_of_the_clock_of_all(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    shards: int,
    draw: random.Random,
    cuts: list[int],
) -> None:
    rows: list[Given] = []
    for n, (gap, v) in enumerate(steps):
        rows.append((v % 2, max(0, rows[-1][1] + gap) if rows else 0, n, (f"k{v % 3}", v)))
    plan = planned(JUMPY, STREAMS, ("Out", "!A"), shards)
    names = ("Out", "!A")
    ends = sorted(cuts)
    parts = [rows[begin:end] for begin, end in zip([0, *ends], [*ends, len(rows)], strict=True)]
    query = Query(plan, tmp_path_factory.mktemp("query"), draw)
    batches = [batch for part in parts for batch in query.micro_batch(part)]
    checked = check(parse(JUMPY), catalog(), JUMPY)
    agree(came(plan, batches), sent(checked, parts, names), shards)
    agree(came(plan, run_as_batch(plan, rows, draw)), sent(checked, [rows], names), shards)


@pytest.mark.parametrize("shards", [1, 2, 4])
@pytest.mark.parametrize("others", [0, 1])
def test_what_waits_since_a_late_row_does_not_end_with_its_micro_batch(
    tmp_path: Path, shards: int, others: int
) -> None:
    late = 200 * DAY_MS - 3_000
    begins: list[Given] = [(0, 0, 0, ("k0", 0)), (0, 200 * DAY_MS, 1, ("k0", 0))]
    waits: list[Given] = [(others, late, 2, ("k1", 1)), (0, late, 3, ("k2", 2))]
    ends: list[Given] = [(0, late + 2_000, 4, ("k0", 3))]
    plan = planned(JUMPY, STREAMS, ("Out", "!A"), shards)
    query = Query(plan, tmp_path / "query", random.Random(1))
    made = [[(row[0], ts) for ts, row in came(plan, query.micro_batch(part))["Out"]] for part in (begins, waits, ends)]
    assert made[:2] == [[("k0", 2_000)], []]
    assert ("k2", late + 2_000) in made[2]
