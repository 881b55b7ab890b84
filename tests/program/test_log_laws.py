"""Lines of the log: a program writes those that operators write, in their order."""

from __future__ import annotations

from random import Random

import pytest

from spdist.program.machine.compiler import interpreted
from tests.program.drawn_apps import START_MS, STREAM, drawn_events
from tests.program.watched import Watched, checked_app

#: Lines of events of a source, of what a query puts out, also when a timer is due, and of one that an event is lost by.
LOGGED = f"""{STREAM}
from S#log(sym)[volume > 0]#log('WARN', str:concat('x', kind))#log('off', 'never') select sym, kind insert into Mid;
from S#window.time(60) select sym, count() as n insert expired events into Late;
from Late#log('a late one', true)[n > 0]#log() select sym insert into Out1;
partition with (sym of Mid) begin
from Mid#log('ERROR', kind, false)#window.length(2) select kind, count() as n insert into Out2;
end;
from S[str:length(sym) > 0]#log('long') select sym insert into Out3;
from S#pol2Cart(1.0, 2.0)[ok]#log(kind) select x insert into Out4;
"""


#: The same where operators bring events while the loop runs.
TICKED = f"""define trigger Tick at every 7 milliseconds; {LOGGED}
from Tick#log('tick') select triggered_time as t insert into Ticks; from Ticks#log('behind') select t insert into Out5;
"""


@pytest.mark.parametrize("app", [LOGGED, TICKED])
def test_lines_of_the_log_are_those_that_operators_write(app: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1, "spdist.app")
    checked, random = checked_app(app), Random(3)
    apps = Watched(checked), Watched(checked, interpreted)
    for one in apps:
        one.app.start(START_MS)
        one.begin()
    time, seen = START_MS, 0
    for step in range(60):
        events = drawn_events(random, 8, time)
        time, lines = max([time, *(at for at, _ in events)]), []
        for one in apps:
            caplog.clear()
            if step % 3 or not events:
                one.run(events) if events else one.app.advance(time)
            else:
                one.chunk(events[:1], time)
                one.app.advance(time + 70)
            lines.append([(line.levelno, line.getMessage()) for line in caplog.records if line.name == "spdist.app"])
        assert lines[0] == lines[1]
        seen += len(lines[0])
    assert apps[0].chunks == apps[1].chunks
    assert apps[1].app.programmed is not None and apps[1].app.programmed.active
    assert seen > 1000
