"""Going through an app step by step, looking at each, changes nothing; and one finds back to each step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.engine.local.contents import OperatorContent
from spdist.engine.replay import stepping
from spdist.testing import Stepper, VirtualApp
from tests.properties.siddhi_apps import DEFINITIONS, Sample, samples
from tests.properties.test_cause_laws import START, meetings

laws = settings(max_examples=80)


@pytest.fixture(autouse=True, scope="module")
def few_snapshots() -> Iterator[None]:
    """Snapshots are few enough for some to go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepping, "_EVERY", 3)
        patch.setattr(stepping, "_MOST_KEPT", 4)
        yield


def driven(sample: Sample) -> VirtualApp:
    app = VirtualApp(sample.text, start=START)
    for stream, timestamp, row in sample.events:
        app.send(stream, *row, at=timestamp)
    app.advance(to=sample.end)
    return app


@laws
@given(samples() | meetings())
def test_stepping_and_looking_at_each_step_is_a_plain_run(sample: Sample) -> None:
    app = driven(sample)
    stepper = app.stepper()
    came, clock, given = list(stepper.moment.came), stepper.clock, 0
    while not stepper.at_end:
        assert str(stepper.contents(most=3)).startswith("SiddhiApp at ")
        before = stepper.next_clock
        moment = stepper.step()
        came += moment.came
        given += len(moment.given)
        assert (moment.clock, stepper.given) == (before, given)
        assert moment.clock >= clock
        clock = moment.clock
    assert stepper.step() is stepper.moment
    assert given == stepper.total == len(sample.events)
    assert [(one.stream, one.timestamp, one.row) for one in came] == [
        (seen.stream, seen.timestamp, seen.row) for seen in app.history if not seen.sent
    ]
    assert stepper._app.snapshot() == app.snapshot()


def kept(stepper: Stepper) -> list[OperatorContent]:
    """What is held at a step; a join may go over to windows that need no timers."""
    return [part for part in stepper.contents().parts if part.kind != "timers"]


@laws
@given(samples() | meetings(), st.data())
def test_each_step_is_found_again_forwards_and_back(sample: Sample, data: st.DataObject) -> None:
    stepper = driven(sample).stepper()
    seen = [(stepper.moment, stepper.given, kept(stepper))]
    while not stepper.at_end:
        seen.append((stepper.step(), stepper.given, kept(stepper)))
    for _ in range(4):
        number = data.draw(st.integers(0, len(seen) - 1), label="step")
        assert (stepper.seek(number=number), stepper.given, kept(stepper)) == seen[number]
        event = data.draw(st.integers(0, stepper.total), label="event")
        assert stepper.seek(event=event) == next(moment for moment, given, _ in seen if given == event)
        time = data.draw(st.integers(START, sample.end), label="time")
        last = max((m for m, *_ in seen if m.clock <= time), key=lambda moment: moment.number, default=seen[0][0])
        assert stepper.seek(time=time) == last
        assert stepper.back(2).number == max(0, last.number - 2)


@laws
@given(samples(late=False), st.sampled_from(["length(3)", "time(60)", "timeLength(100, 2)"]), st.booleans())
def test_what_comes_out_is_the_sum_of_what_is_shown(sample: Sample, window: str, partitioned: bool) -> None:
    query = f"@info(name='q') from A#window.{window} select sum(v) as s, count() as n insert into Out;"
    if partitioned:
        query = f"partition with (id of A) begin {query} end;"
    stepper = driven(Sample(DEFINITIONS + query, sample.events, sample.end)).stepper()
    while not stepper.at_end:
        moment = stepper.step()
        if not moment.given or moment.given[0].stream != "A" or (partitioned and moment.given[0].row[0] is None):
            continue
        ((total, count),) = [came.row for came in moment.came]
        key = moment.given[0].row[0] if partitioned else None
        (part,) = stepper.contents(100, key).of("q", "window")
        values = [row[part.names.index("v")] for row in part.rows]
        assert count == len(values) == part.total
        assert (total or 0) == sum(value for value in values if value is not None)
