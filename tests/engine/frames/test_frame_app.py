"""Rows through the app of a shard: late ones, many results, objects, and values that Spark's columns cannot hold."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from spdist.engine.frames.app import FrameApp
from spdist.engine.frames.plan import FramePlan
from spdist.engine.frames.spans import Spans, covered, reach
from spdist.engine.frames.transforming import run_shards
from spdist.engine.frames.wire import value_column
from spdist.errors import MappingError
from tests.engine.frames.pipeline import came, planned, wire
from tests.program.interpreted_programs import programs

DEFINED = "define stream S (k string, v long); "


def run(text: str, *rows: tuple[int, tuple[Any, ...]], plan: FramePlan | None = None) -> list[Any]:
    plan = plan or planned(DEFINED + text, ("S",), ("Out",), 1)
    given = wire(plan, [(0, ts, n, row) for n, (ts, row) in enumerate(rows)])
    return list(run_shards(plan, iter([given])))


def values(batches: list[Any], name: str) -> list[Any]:
    return [value for batch in batches for value in batch[name].to_pylist()]


def test_results_go_on_before_they_become_many(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "define table T (k string, n long); from S[v == 0L] select k, v as n insert into T; "
    text += "from S[v > 0L] join T on S.k == T.k select S.v as v insert into Out;"
    plan = planned(DEFINED + text, ("S",), ("Out",), 1)
    same, events = 100, 3_000
    rows = [(0, n, n, ("x", max(0, n - same + 1))) for n in range(same + events)]
    delivered, plain = [0], FrameApp._deliver

    def deliver(app: FrameApp, batch: Any) -> None:
        delivered[0] += batch.num_rows
        plain(app, batch)

    monkeypatch.setattr(FrameApp, "_deliver", deliver)
    seen, most = 0, 0
    for batch in run_shards(plan, iter([wire(plan, rows)])):
        seen += batch.num_rows
        assert batch.num_rows <= 10_000
        most = max(most, (delivered[0] - same) * same - seen)
    assert seen == events * same
    assert most < 110_000  # of 300,000


@pytest.mark.parametrize(
    "text",
    [
        "from S[v > 1L] select k, v insert into Out; from S#window.time(0) select k, v insert into Out;",
        "from S select k, list:create(v, k) as o insert into Out;",
        "from S[v > 1L] select k, list:create(v) as o insert into Out; "
        "from S#window.time(0) select k, list:create(k) as o insert into Out;",
    ],
)
def test_rows_come_out_of_a_program_as_of_operators(text: str) -> None:
    rows = [(n, ("ab"[n % 2], n % 4)) for n in range(40)]
    plan, found = planned(DEFINED + text, ("S",), ("Out",), 1), []
    for there in (False, True):
        with programs(there):
            found.append(came(plan, run(text, *rows, plan=plan))["Out"])
    assert found[0] == found[1]
    assert len(found[0]) >= 40


def test_a_stream_that_is_fed_and_written_comes_out_once() -> None:
    text = DEFINED + "define stream Out (k string, v long); from S select k, v * 2L as v insert into Out;"
    plan = planned(text, ("S", "Out"), ("Out",), 1)
    given = wire(plan, [(0, 5, 0, ("a", 1)), (1, 5, 0, ("b", 3)), (1, 7, 1, ("c", 4))])
    assert came(plan, run_shards(plan, iter([given]))) == {"Out": [(5, ("a", 2)), (5, ("b", 3)), (7, ("c", 4))]}


def test_objects_are_their_json_as_they_were_when_they_came_out() -> None:
    text = (
        DEFINED
        + """from S select list:create(v) as o, k insert into M; from M select o, k insert into Out;
    from M select list:add(o, 7L) as o, map:create('a', k) as m insert into Second;"""
    )
    plan = planned(text, ("S",), ("Out", "Second"), 1)
    made = came(plan, run(text, (1, ("x", 5)), plan=plan))
    assert made == {"Out": [(1, ("[5]", "x"))], "Second": [(1, ("[5,7]", '{"a":"x"}'))]}


@pytest.mark.parametrize(
    ("expression", "value", "said"),
    [
        ("cast(v, 'int')", 2**31, "'w' of 'Out' is int, but what came out is 2147483648"),
        ("cast(v, 'string')", 5, "'w' of 'Out' is string, but what came out is 1"),
    ],
)
def test_a_value_that_is_not_as_declared_is_said_with_what_to_write(expression: str, value: int, said: str) -> None:
    with pytest.raises(MappingError, match=rf"{said}\n.*write convert\(w, '"):
        run(f"from S select {expression} as w insert into Out;", (1, ("x", 1)), (2, ("x", value)))


def test_numbers_become_the_numbers_of_the_column() -> None:
    made = run("from S select cast(v, 'double') as d, convert(v, 'float') as f insert into Out;", (1, ("x", 2**60)))
    assert values(made, "d") == [float(2**60)]
    assert made[0].schema.field("f").type == pa.float32()


def test_times_that_no_timestamp_can_say_are_refused() -> None:
    with pytest.raises(MappingError, match="farther away than 70,000 years by the column 'ts'"):
        run("from S select v insert into Out;", (2**61 // 1000 + 1, ("x", 1)))


def test_rows_without_a_time_are_refused_with_what_to_write() -> None:
    plan = planned(DEFINED + "from S select v insert into Out;", ("S",), ("Out",), 1)
    given = wire(plan, [(0, 5, 0, ("a", 1))])
    missing = given.set_column(0, "time", pa.array([None], pa.int64()))
    with pytest.raises(MappingError, match=r"rows of the frame of 'S' have no time in the column 'ts'\n.*isNotNull"):
        list(run_shards(plan, iter([missing])))


def test_maps_and_structs_are_dictionaries() -> None:
    text = "define stream S (o object); from S select map:get(o, 'a') as a, o insert into Out;"
    plan = planned(text, ("S",), ("Out",), 1)
    kinds = {"m": pa.map_(pa.string(), pa.list_(pa.int32())), "s": pa.struct([("a", pa.string())])}
    columns = {"m": [{"a": [1, None]}, None], "s": [{"a": "x"}, {"a": None}]}
    for name, kind in kinds.items():
        given = [list(one.items()) if name == "m" and one else one for one in columns[name]]
        batch = pa.record_batch(
            {
                "time": pa.array([1000, 2000], pa.int64()),
                "stream": pa.array([0, 0], pa.int8()),
                value_column(0, 0): pa.array(given, kind),
            }
        )
        made = list(run_shards(plan, iter([batch])))
        assert values(made, "o")[0] == ('{"a":[1,null]}' if name == "m" else '{"a":"x"}')


def test_an_empty_batch_gives_what_time_alone_brings() -> None:
    text = "define trigger T at every 1 sec; define stream S (v int); from T select 1 as one insert into Out;"
    plan = planned(text, ("S",), ("Out",), 1, until=5_000)
    assert len(came(plan, run_shards(plan, iter(())))["Out"]) == 0  # it begins where it ends
    assert list(run_shards(planned(text, ("S",), ("Out",), 1), iter(()))) == []


def test_intervals_are_what_gaps_leave() -> None:
    import numpy

    for seed in range(200):
        draw = random.Random(seed)
        times = sorted(draw.randrange(60) for _ in range(draw.randrange(1, 12)))
        shuffled = draw.sample(times, len(times))
        spans, most = Spans(5), 5
        while shuffled:
            part, shuffled = shuffled[:3], shuffled[3:]
            spans.add(numpy.array(part, numpy.int64))
        apart = [times[0]] + [later for before, later in pairwise(times) if later - before > most]
        assert [begin for begin, _ in spans.intervals] == apart
        assert spans.intervals[-1][1] == times[-1]
        clock: int | None = None
        for time in times:
            clock = time if clock is None else clock if time - clock > most else time
        assert reach(spans.intervals, None, most) == clock


def test_what_intervals_cover_together() -> None:
    assert covered([0, 5, 20, 3], [10, 6, 21, 3]) == [(0, 10), (20, 21)]
    assert covered([], []) == []
