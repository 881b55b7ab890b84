"""Triggers keep their time when their state goes to another process, and their own where an app runs on."""

from __future__ import annotations

import pytest

from spdist.engine.local.app import LocalApp
from spdist.errors import SiddhiTypeError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse

TEXT = """define trigger Boot at 'start';
define trigger Tick at every 1 sec;
define trigger Minute at '0 * * * * ?';
from Boot select 'boot' as name, triggered_time as at insert into Out;
from Tick select 'tick' as name, triggered_time as at insert into Out;
from Minute select 'minute' as name, triggered_time as at insert into Out;"""


def made(text: str = TEXT) -> tuple[LocalApp, list[tuple[object, ...]]]:
    app = LocalApp(check(parse(text), catalog(), text))
    seen: list[tuple[object, ...]] = []
    app.subscribe("Out", lambda _, row: seen.append(row))
    return app, seen


def test_triggers_fire_by_the_apps_clock() -> None:
    app, seen = made()
    app.start(58_300)
    assert seen == [("boot", 58_300)]
    assert app.next_timer == 59_300
    app.advance(61_000)
    assert seen[1:] == [("tick", 59_300), ("minute", 60_000), ("tick", 60_300)]


def test_another_process_goes_on_where_the_state_was_saved() -> None:
    app, _ = made()
    app.start(58_300)
    app.advance(59_500)
    other, seen = made()
    other.restore(app.snapshot())
    other.start(70_000)
    other.advance(60_500)
    assert seen == [("minute", 60_000), ("tick", 60_300)]


def test_an_app_that_runs_keeps_its_own_triggers_and_its_clock() -> None:
    app, _ = made()
    app.start(1_300)
    app.advance(1_400)
    running, seen = made()
    running.start(5_500)
    running.restore(app.snapshot())
    assert running.clock == 5_500
    running.advance(7_000)
    assert seen == [("boot", 5_500), ("tick", 6_500)]


@pytest.mark.parametrize("time", ["noon", "", "* * * * *", "0 0 0 0 0 0", "*/5 * * * * *"])
def test_what_is_no_time_is_refused_before_the_app_runs(time: str) -> None:
    with pytest.raises(SiddhiTypeError):
        made(f"define trigger Tick at '{time}'; from Tick insert into Out;")
