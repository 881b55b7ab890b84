"""Windows that a condition over their events bounds, for apps whose streams have the attributes of S."""

from __future__ import annotations

from tests.program.drawn_apps import STREAM, WITH_OBJECTS

__all__ = ["BOUND", "BOUND_BATCHES", "BOUND_SIDES", "BOUND_TOTALS"]

#: Windows that the oldest events leave until a condition holds: by totals, by their ends, by single events.
BOUND = f"""{STREAM}
from S#window.expression('count() <= 3') select sym, volume, count() as n, sum(volume) as v group by sym
insert all events into Out1;
from S[not (kind is null)]#window.expression('last.total - first.total < 10L or count() < 2')[volume > 0 or ok]
select sym, max(price) as p, sum(total) as t group by sym having not (p is null) insert into Mid;
from Mid#window.expression('eventTimestamp(last) - eventTimestamp(first) < 60 and sum(t) > -99L')
select sym, p, t, count() as n insert all events into Out2;
from S#window.expression('volume < 3') select sym, kind, volume group by sym order by volume limit 3
insert expired events into Out3;
from S#window.expression('ok or first.sym == sym') select sym, min(total) as m output last every 40 milliseconds
insert all events into Out4;
from S#window.expression('sum(volume) < 5') select kind, count() as n group by kind output snapshot every 60 millisec
insert into Out5;
from S#test:times(volume, kind)#window.expression('sum(times) < 4L and copy is null') select copy, times
insert all events into Out6;
@purge(enable='true', interval='40 millisec', idle.period='50 millisec') partition with (kind of S) begin
from S#window.expression('max(price) - min(price) < 3.0') select sym, stdDev(rate) as d, count() as n
insert all events into #I;
from #I#window.expression('last.n >= first.n') select sym, d, sum(n) as n insert all events into Out7;
end;
"""
#: The same where they leave together, with the event that ends a batch and without, and where they pass.
BOUND_BATCHES = f"""{STREAM}
from S#window.expressionBatch('count() <= 2') select sym, volume, count() as n, sum(volume) as v group by sym
insert all events into Out1;
from S#window.expressionBatch('last.sym == first.sym', volume > 0)[ok or volume > 0] select sym, kind, max(price) as p
group by kind insert into Mid;
from Mid#window.expressionBatch('not (p > 1.0)', true) select sym, kind, p order by p limit 2 insert all events
into Out2;
from S#window.expressionBatch('sum(volume) < 4', ok, true) select kind, total, count() as n group by kind
insert all events into Out3;
from S#window.expressionBatch('volume < 3', false, true) select sym, volume, sum(total) as t insert into Out4;
from S#window.expressionBatch('count() < 4', true) select kind, min(rate) as r group by kind
output snapshot every 70 milliseconds insert into Out5;
from S#window.expressionBatch('eventTimestamp(last) - eventTimestamp(first) < 40') select eventTimestamp() as at, sym
output first every 3 events insert all events into Out6;
@purge(enable='true', interval='40 millisec', idle.period='50 millisec') partition with (sym of S) begin
from S#window.expressionBatch('max(total) - min(total) < 9L', volume > 0) select kind, count() as n, avg(price) as p
insert all events into #I;
from #I#window.expressionBatch('first.n == 1L', n > 1L, true) select kind, sum(n) as n insert expired events into Out7;
from S[ok]#window.expressionBatch('count() < 3', true, true) select total, max(price) as p insert all events into Out8;
end;
"""
#: Conditions whose totals are not asked for with each event, all kinds of them, and such as nulls leave open.
BOUND_TOTALS = f"""{STREAM}
from S#window.expression('count() <= 4 and sum(volume) < 12') select sym, count() as n insert all events into Out1;
from S#window.expression('ok or min(price) < 2.0 or not (max(volume) != 5)') select sym, volume insert all events
into Out2;
from S#window.expression('ifThenElse(ok, count() < 4, sum(total) > 2L)') select sym, sum(rate) as r
insert all events into Out3;
from S#window.expression('volume > 0 and rate < sum(rate) + avg(rate)') select sym, rate insert all events into Out4;
from S#window.expression('coalesce(sum(total), 1L) > -5L and stdDev(price) is null or count() < 3') select total
insert all events into Out5;
from S#window.expression('and(volume > -2) and or(kind is null)') select kind, volume insert all events into Out6;
from S#window.expression('maxForever(volume) < 9 or S.volume % 2 == 0') select volume insert all events into Out7;
from S#window.expressionBatch('count() <= 3 and max(rate) - min(rate) < 20.0f') select sym, rate insert all events
into Out8;
from S#window.expressionBatch('ok and avg(price) > 0.5 or sum(total) is null', volume > 0) select sym, price
insert all events into Out9;
from S#window.expressionBatch('min(volume) <= first.volume and minForever(total) < 3L', true, true)
select sym, volume insert all events into Out10;
from S#window.expressionBatch('currentTimeMillis() - eventTimestamp(first) < 40L') select sym, kind
insert all events into Out11;
"""
#: Named windows and sides of joins, with objects.
BOUND_SIDES = f"""{WITH_OBJECTS}
define window W {WITH_OBJECTS[WITH_OBJECTS.index("(") : -1]} expression('count() <= 3 and volume < 9');
define window V {WITH_OBJECTS[WITH_OBJECTS.index("(") : -1]} expressionBatch('count() <= 2', ok) output all events;
define window U {WITH_OBJECTS[WITH_OBJECTS.index("(") : -1]} expressionBatch('sum(volume) < 4', false, true);
from S[ok or volume > 0] select * insert into A;
from S select * insert into W;
from A select * insert into V;
from A select * insert into U;
from W select sym, more, sum(volume) as v, count() as n group by sym insert all events into Out1;
from W select kind, stdDev(rate) as d, stdDev(volume) as e insert expired events into Out9;
from W select sym, stdDev(rate) as d group by sym insert expired events into Out10;
from V select kind, total, count() as n insert all events into Out2;
from U select sym, volume insert expired events into Out3;
from W as w join S#window.expressionBatch('count() < 3') as s on w.kind == s.kind
select w.sym as a, s.total as t, s.more as m insert all events into Out4;
from S#window.expression('last.sym == first.sym') as l full outer join V as r on l.kind == r.kind
select l.sym as a, r.volume as v, count() as n, max(r.price) as p group by r.sym insert all events into Out5;
from U as u left outer join S#window.expression('ok or volume > 0') as s on u.sym == s.sym
select u.sym as a, s.kind as k insert into Out6;
partition with (sym of S) begin
from S#window.expression('count() < 4') as l join S#window.expressionBatch('last.kind == first.kind', ok) as r
select l.sym as a, sum(r.total) as t group by r.kind insert all events into Out7;
from S#window.expressionBatch('count() < 3', false, true) as l join S#window.length(2) as r on l.ok == r.ok
select l.volume as v, r.volume as w insert all events into Out8;
end;
"""
