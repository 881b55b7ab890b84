"""Apps that have all of a subject, small enough to be compiled: what drawn apps rarely bring together."""

from __future__ import annotations

from tests.program.drawn_apps import STREAM

__all__ = ["ARRANGED"]

#: Results of a chunk in an order, cut, and one for each group.
ARRANGED = f"""{STREAM}
from S#window.lengthBatch(5) select sym, price, volume order by sym desc, price limit 3 offset 1 insert into Out1;
from S#window.length(2) select kind, total, ok order by kind, ok desc limit 2 insert all events into Out2;
from S#window.timeBatch(40) select sym, sum(volume) as v group by sym order by v desc limit 2 insert into Out3;
from S#window.timeBatch(700) select rate, sym order by rate desc insert all events into Mid;
from Mid select sym, rate group by sym offset 1 insert into Out4;
partition with (kind of S) begin
from S#window.lengthBatch(3) select ok, price, volume group by ok, volume order by volume limit 2
insert expired events into Out5;
from S#window.length(1) select count() as n limit 0 insert all events into Out6;
end;
"""
