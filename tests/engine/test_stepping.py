"""The debugger: steps, breakpoints, the way back, and what it shows."""

from __future__ import annotations

import pytest

import spdist
from spdist.errors import NotFoundError, UndefinedNameError
from spdist.testing import Stepper, VirtualApp

APP = """
@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
@info(name='average') from Readings#window.length(2) select room, avg(degrees) as mean insert into Means;
@info(name='warm') from every m=Means[mean > 30.0] -> not Means[mean < 20.0] for 10 sec
select m.room as room insert into Alerts;
"""
READINGS = [(1000 * n, ("attic", 20.0 + 4 * n)) for n in range(6)]


@pytest.fixture
def stepper() -> Stepper:
    return spdist.run(APP, {"Readings": READINGS}, until=30_000).stepper()


def test_a_step_is_an_event_or_what_is_due(stepper: Stepper) -> None:
    assert (stepper.number, stepper.given, stepper.total, stepper.next_clock) == (0, 0, 6, 0)
    moment = stepper.step()
    assert (moment.number, moment.clock, moment.given[0].row) == (1, 0, ("attic", 20.0))
    assert [(came.stream, came.row) for came in moment.came] == [("Means", ("attic", 20.0))]
    assert str(stepper.step(5)) == "step 6 at 5,000 ms: 1 event of Readings, 1 event came out"
    (attempt,) = stepper.contents().of("warm", "attempts")
    assert [row[:2] for row in attempt.rows] == [("not Means for 10 sec", 14_000), ("not Means for 10 sec", 15_000)]
    alert = stepper.run_until(stream="Alerts")
    assert alert is not None
    assert (alert.number, alert.clock, alert.given, stepper.given) == (7, 14_000, (), 6)
    assert str(alert) == "step 7 at 14,000 ms: due timers, 1 event came out"


def test_at_the_end_it_stays_there(stepper: Stepper) -> None:
    last = stepper.step(100)
    assert (last.number, last.clock, stepper.at_end, stepper.next_clock) == (8, 15_000, True, None)
    assert stepper.clock == 30_000
    assert stepper.run_until(stream="Alerts") is None


def test_breakpoints_are_conditions_on_what_a_step_did(stepper: Stepper) -> None:
    found = stepper.run_until(when=lambda moment: any(came.row[-1] > 25 for came in moment.came))
    assert found is not None
    assert found.number == 3
    with pytest.raises(UndefinedNameError, match="Did you mean 'Alerts'"):
        stepper.run_until(stream="Alert")
    with pytest.raises(TypeError, match="say either"):
        stepper.run_until()
    with pytest.raises(TypeError, match="say where to"):
        stepper.seek(number=1, time=2)


def test_the_way_back(stepper: Stepper) -> None:
    stepper.step(4)
    looked = stepper.contents()
    stepper.step(3)
    assert stepper.back(3).number == 4
    assert stepper.contents() == looked
    assert stepper.seek(time=13_999).number == 6
    assert stepper.seek(event=2).number == 2
    assert stepper.seek(number=0).number == 0
    assert not stepper.contents().of("average", "window")


def test_wake_ups_that_do_nothing_are_no_steps() -> None:
    text = "define stream S (v int); define trigger T at every 1 sec; from S select v insert into Out;"
    stepper = spdist.run(text, {"S": [(0, (1,)), (3_600_000, (2,))]}).stepper()
    while not stepper.at_end:
        stepper.step()
    assert stepper.number == 2


def test_a_test_app_is_gone_through_from_its_start_or_its_last_restore() -> None:
    app = VirtualApp("define stream S (v int); define table T (v int); from S select v insert into T;")
    app.send_together("S", [(1,), (2,)], at=5)
    app.query("delete T on T.v == 1")
    stepper = app.stepper()
    assert stepper.step().what == "2 events of S"
    assert stepper.step().what == "delete T on T.v == 1"
    assert stepper.contents().of("T")[0].rows == ((2,),)
    state = app.snapshot()
    app.restore(state)
    app.send("S", 3)
    again = app.stepper()
    assert again.contents().of("T")[0].rows == ((2,),)
    again.step()
    assert again.contents().of("T")[0].rows == ((2,), (3,))
    assert again.back().number == 0
    assert again.contents().of("T")[0].rows == ((2,),)
    with pytest.raises(NotFoundError):
        VirtualApp(APP).stepper()


def test_what_happens_at_the_start_is_seen() -> None:
    text = "define stream S (v int); define trigger T at 'start'; from T select 'up' as said insert into Out;"
    stepper = spdist.run(text, {"S": [(7, (1,))]}).stepper()
    assert {(came.stream, came.row) for came in stepper.moment.came} == {("Out", ("up",)), ("T", (7,))}


def test_it_shows_the_step_and_what_is_held(stepper: Stepper) -> None:
    stepper.step(2)
    lines = str(stepper).splitlines()
    assert lines[0] == "Rooms: step 2 at 1,000 ms: 1 event of Readings, 1 event came out; 2 of 6 events sent"
    assert lines[2].split() == ["1,000", "in", "Readings", "attic", "24.0"]
    assert "window average length(2): 2 rows" in lines
    html = stepper._repr_html_()
    assert "window average length(2): 2 rows" in html
    assert "Rooms: step 2" in html
