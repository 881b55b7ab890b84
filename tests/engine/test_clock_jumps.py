"""A clock that jumps over years costs no more than what comes out; periods of no length are refused."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from spdist.engine.local.app import run
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators import timers
from spdist.operators.base import Timer, Timers
from spdist.operators.patterns import repeated_absences as pattern_rests

_STREAMS = "define stream S (k string, v int, at long);\ndefine stream B (k string, v int, at long);\n"
_BEGAN = 1_600_000_000_000
_LATER = _BEGAN + 75 * 31_557_600_000
#: So many wake-ups may come while the clock goes on by 75 years, or by a day.
_FEW = 200


def woken(text: str, events: dict[str, list[tuple[int, tuple[Any, ...]]]]) -> tuple[int, list[Any]]:
    """How many wake-ups came, and what was put out."""
    count = 0
    drain = Timers._drain

    def counted(self: Timers, timer: Timer) -> None:
        nonlocal count
        count += 1
        drain(self, timer)

    with patch.object(Timers, "_drain", counted):
        out = run(text if "@app" in text else _STREAMS + text, events)["O"]
    return count, out


@pytest.mark.parametrize("to", [_BEGAN + 86_400_000, _LATER])
@pytest.mark.parametrize(
    "text",
    [
        "from S#window.timeBatch(1) select v insert all events into O;",
        "from S#window.timeBatch(1, 0) select v insert into O;",
        "from S#window.unique:timeBatch(k, 1) select v insert into O;",
        "from S#window.externalTimeBatch(at, 10, 0, 1) select v insert into O;",
        "from S select v output all every 1 millisec insert into O;",
        "from S select k, v group by k output last every 1 millisec insert into O;",
        "from S#window.time(50) select v output snapshot every 1 millisec insert into O;",
        "from S#window.time(50) select sum(v) as v output snapshot every 1 millisec insert into O;",
        "from S#window.cron('* * * * * ?') select v insert into O;",
        "from S#window.session(5 sec, k) select v insert all events into O;",
        "from S#window.delay(5) select v insert into O;",
        "from S#reorder:kslack(at, 5L) select v insert into O;",
        "define trigger T at every 1 millisec; from S select v insert into O;",
        "define aggregation G from S select sum(v) as s aggregate every sec...year; from S select v insert into O;",
        "define window W (k string, v int, at long) timeBatch(1); from S insert into W; from W select v insert into O;",
        "from every not B for 1 millisec, e2=S select e2.v as v insert into O;",
        "from not B for 1 millisec, e2=S select e2.v as v insert into O;",
        "from every not B for 1 millisec, e2=S within 5 sec select e2.v as v insert into O;",
        "from every (not B for 1 millisec and e2=S) select e2.v as v insert into O;",
        "from every (not B for 1 millisec or e2=S), e3=S select e3.v as v insert into O;",
        "from every (not B for 2 millisec or not S for 3 millisec), e3=S select e3.v as v insert into O;",
        "from every (not B for 1 millisec -> e2=S) select e2.v as v insert into O;",
        "partition with (k of S) begin from S#window.timeBatch(1) select v insert into O; end;",
        "partition with (k of S) begin from every not S[v == 7] for 1 millisec, e2=S "
        "select e2.v as v insert into O; end;",
        "@purge(enable='true', interval='1 millisec', idle.period='1 millisec') partition with (k of S) "
        "begin from S select v output last every 1 millisec insert into O; end;",
    ],
)
def test_periods_in_which_nothing_comes_out_cost_nothing(text: str, to: int) -> None:
    events = {"S": [(_BEGAN, ("a", 1, _BEGAN)), (_BEGAN + 3, ("b", 2, _BEGAN + 3)), (to, ("a", 3, to))]}
    count, _ = woken(text, events)
    assert count < _FEW


@pytest.mark.parametrize(
    "text",
    [
        "define trigger T at every 1 millisec; from T select triggered_time insert into O;",
        "from S#window.length(2) select v output snapshot every 1 millisec insert into O;",
        "from every not B for 1 millisec select 1 as one insert into O;",
        "from every not B for 1 millisec -> e2=S select e2.v as v insert into O;",
        "from every (not B for 1 millisec and e2=S), e3=S select e3.v as v insert into O;",
        "from every (not B for 2 millisec and not S for 3 millisec), e3=S select e3.v as v insert into O;",
        "partition with (k of S) begin from every not S[v == 7] for 1 millisec select 1 as one insert into O; end;",
    ],
)
def test_what_comes_out_or_is_kept_for_each_period_is_bounded(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "MOST_FIRINGS", 500)
    monkeypatch.setattr(pattern_rests, "MOST_PARTIALS", 2000)
    row = ("a", 1, _BEGAN)
    count, out = woken(text, {"S": [(_BEGAN, row), (_LATER, row), (_LATER + 1, row)]})
    assert 40 < count < 2000
    assert len(out) < 2000
    assert not out or out[-1][0] >= _BEGAN


def test_what_an_absence_puts_out_for_each_period_comes_out() -> None:
    events = {"S": [(0, ("a", 1, 0))], "B": [(86_400_000, ("a", 1, 0))]}
    _, out = woken("from every not S for 10 sec select 1 as one insert into O;", events)
    assert len(out) == 8640
    _, out = woken("from every not S for 10 sec -> e2=B select e2.v as v insert into O;", events)
    assert len(out) == 8640


def test_a_cron_trigger_whose_years_end_on_the_way_loses_no_event() -> None:
    ending = "define trigger T at '0 0 12 * * ? 2020-2024'; define trigger U at every 1 millisec; "
    count, out = woken(f"{ending}from S select v insert into O;", {"S": [(_BEGAN, ("a", 1, 0)), (_LATER, ("a", 2, 0))]})
    assert [row for _, row in out] == [(1,), (2,)]
    assert count < _FEW


def test_an_app_whose_first_event_is_long_after_time_0_begins_there() -> None:
    text = (
        f"@app:playback(idle.time='100 millisecond', increment='1 sec') {_STREAMS}"
        "from every not S for 1 sec, e2=B select e2.v as v insert into O;"
    )
    events = [(_BEGAN + n * 1000, ("a", n, 0)) for n in (0, 3, 4)]
    count, out = woken(text, {"B": events})
    assert [row for _, row in out] == [(3,), (4,)]
    assert count < _FEW


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("from S#window.timeBatch(0) select v insert into O;", 25),
        ("from S#window.timeBatch(0 sec) select v insert into O;", 25),
        ("from S#window.timeBatch(-1, 400) select v insert into O;", 25),
        ("from S#window.externalTimeBatch(at, 0 sec, 0) select v insert into O;", 37),
        ("from S#window.unique:timeBatch(k, 0) select v insert into O;", 35),
        ("from S#window.unique:timeLengthBatch(k, 0, 2) select v insert into O;", 41),
        ("define window W (v int) timeBatch(0); from S select v insert into W;", 35),
        ("from every not S for 0 sec select 1 as v insert into O;", 12),
        ("from every not S for 0 sec -> e2=B select 1 as v insert into O;", 12),
        ("from every not S for 0 sec, e2=B select 1 as v insert into O;", 12),
        ("from not S for 0 sec and e2=B select 1 as v insert into O;", 6),
        ("from every (e2=B or not S for 0 sec) select 1 as v insert into O;", 21),
        ("define trigger T at every 0 sec; from S select v insert into O;", 27),
        ("from S select v output last every 0 sec insert into O;", 17),
        ("@purge(enable='true', interval='0 sec', idle.period='1 sec') partition with (k of S) "
         "begin from S select v insert into O; end;", 1),
    ],
)  # fmt: skip
def test_periods_of_no_length_are_refused_where_they_stand(text: str, column: int) -> None:
    whole = _STREAMS + text
    with pytest.raises(SiddhiAppError) as refused:
        check(parse(whole), catalog(), whole)
    assert refused.value.span is not None
    assert (refused.value.span.line, refused.value.span.column) == (3, column)


@pytest.mark.parametrize(
    "text",
    [
        "from S#window.time(0) select v insert all events into O;",
        "from S#window.delay(-5) select v insert into O;",
        "from S#window.externalTime(at, 0) select v insert into O;",
        "from S#window.session(0L) select v insert into O;",
        "from not S for 0 sec select 1 as v insert into O;",
        "from not S for 0 sec or e2=B select 1 as v insert into O;",
        "from every e1=S -> not B for 0 sec select e1.v as v insert into O;",
    ],
)
def test_waits_of_no_length_that_end_are_taken_as_siddhi_does(text: str) -> None:
    count, out = woken(text, {"S": [(1000, ("a", 1, 1000)), (2000, ("a", 2, 2000)), (3000, ("a", 3, 3000))]})
    assert out
    assert count < _FEW
