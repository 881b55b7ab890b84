"""Apps that have all of joins, small enough to be compiled: what drawn joins rarely bring together."""

from __future__ import annotations

from tests.program.drawn_apps import STREAM

#: Joins by keys and without, outer ones, one way, of a side without window, with totals and a rate limit.
JOINS = f"""{STREAM}
from S[ok or volume > 0] select * insert into A;
from S[not ok] select * insert into B;
from A#window.length(4) as a join B#window.time(60) as b on a.kind == b.kind and a.price != b.price
select a.sym as sym, b.total as total, a.price as price insert all events into Out1;
from A#window.timeLength(900, 3) as a join B#window.length(2) as b on b.ok == (a.price > 9.0)
select b.sym as sym, count() as n, max(a.rate) as r, distinctCount(a.kind) as k group by b.sym having n > 0
insert all events into Out2;
from B as b unidirectional left outer join A#window.length(3) as a on a.sym == b.sym
select b.sym as sym, a.volume as v, a is null as none output last every 3 events insert expired events into Out3;
"""
#: Joins of a stream with itself, and in a partition.
JOINS_OF_ONE = f"""{STREAM}
from S[ok]#window.length(3) as a full outer join S#window.time(60) as b on a.total > b.total
select a.sym as sym, b.total as t, a is null as none insert all events into Out1;
partition with (kind of S) begin
from S#window.length(4) as a join S[volume > 0]#window.length(2) as b on a.sym == b.sym
select a.sym as sym, sum(b.volume) as v group by a.sym insert all events into #J;
from #J#window.length(2) select sym, sum(v) as v output all every 2 events insert into Out2;
end;
"""
#: Sides that release batches: next to windows that slide, of a stream with itself, in a partition.
JOINS_OF_BATCHES = f"""{STREAM}
from S select * insert into A;
from S[volume > 0]#window.lengthBatch(3) as l join S#window.length(5) as r on l.sym == r.sym
select l.sym as a, r.price as b insert all events into Out1;
from S#window.lengthBatch(2) as l left outer join A#window.lengthBatch(3) as r on l.kind == r.kind
select l.sym as a, r.price as b order by b desc limit 2 offset 1 insert into Out2;
from S#window.timeBatch(50) as l join A#window.time(900) as r on l.kind == r.kind
select l.sym as a, r.price as b insert expired events into Out3;
from S#window.length(4) as l full outer join A#window.timeBatch(70, 13) as r on l.ok == r.ok
select l.sym as a, r.price as b limit 3 insert all events into Out4;
partition with (sym of S, sym of A) begin
from S#window.timeBatch(60) as l unidirectional join A#window.timeBatch(90) as r
select l.sym as a, l.rate as b, r.price as c group by r.price insert into Out5;
end;
"""
#: Totals of joins that begin anew: with each batch, each chunk, and each event of a side without window.
JOINS_RENEWED = f"""{STREAM}
from S select * insert into A;
from S[ok]#window.lengthBatch(2) as l left outer join A#window.length(4) as r on l.kind == r.kind
select l.sym as a, count() as n, sum(r.volume) as v group by l.sym insert all events into Out1;
from S as l join A#window.time(300) as r on l.sym == r.sym
select r.kind as b, count() as n, max(r.price) as p group by r.kind insert into Out2;
from S#window.lengthBatch(3) select * insert into B;
from B#window.batch() as l join A#window.lengthBatch(2, true) as r on l.kind == r.kind
select l.kind as a, distinctCount(r.sym) as n, avg(r.rate) as m group by l.kind insert into Out3;
from B#window.batch(2) as l full outer join A#window.timeBatch(60, true) as r on l.ok == r.ok
select r.sym as a, l.price as b, count() as n insert all events into Out4;
partition with (sym of S, sym of A) begin
from S#window.length(0) as l left outer join A#window.length(3) as r on l.kind == r.kind
select l.kind as a, count() as n, maxForever(r.price) as p group by l.kind insert all events into Out7;
from S#window.lengthBatch(0) as l full outer join A#window.length(3) as r on l.sym == r.sym
select l.sym as a, sum(l.total) as t, r.price as p insert into Out8;
from S#window.length(2) as l join A#window.lengthBatch(0) as r on l.kind == r.kind
select l.sym as a, r is null as g insert into Out10;
from S#window.timeLength(50, 0) as l join A#window.sort(0, price) as r on l.kind == r.kind
select l.sym as a, count() as n, sum(r.volume) as v insert all events into Out9;
from S#window.timeLength(50, 0) as l join A#window.length(4) as r on l.kind == r.kind
select l.sym as a, count() as n, sum(r.volume) as v insert all events into Out9;
from S#window.timeBatch(60) as l join A as r select l.kind as a, sum(l.total) as t, min(r.rate) as m
group by l.kind insert into Out5;
end;
"""
#: Joins that name behind the selection what they read: who is missing, and an order by what is not selected.
JOINS_OF_NAMES = f"""{STREAM}
from S[ok] select * insert into A;
from S#window.length(3) as l full outer join A#window.length(4) as r on l.kind == r.kind
select l.volume as v, l.kind as k having r is null or l.total > r.total order by r.total desc, l.sym limit 3
insert all events into Out1;
from S#window.length(5) as l left outer join A#window.time(300) as r on l.sym == r.sym
select l.volume as v, count() as n group by l.kind having not (r is null) order by r.price desc limit 2
insert into Out2;
"""
#: Sides that hold what comes first in an order, or the events of a time that an attribute says; none of these is null.
JOINS_OF_HELD = f"""{STREAM}
from S[ok] select * insert into A;
from S#window.sort(3, price, 'desc', sym) as l join A#window.length(3) as r on l.kind == r.kind
select l.price as p, r.sym as b insert all events into Out1;
from S#window.externalTime(total, 900) as l left outer join A as r on l.sym == r.sym
select l.sym as a, r.volume as v, count() as n insert into Out2;
from A#window.time(300) as l full outer join S#window.externalTimeBatch(total, 60) as r on l.kind == r.kind
select l.sym as a, r.sym as b, sum(r.volume) as v insert all events into Out3;
from S#window.externalTimeBatch(total, 40, 7L) as l join A#window.length(2) as r on l.ok == r.ok
select l.sym as a, r.price as p order by p limit 2 insert into Out4;
from S#window.externalTimeBatch(total, 90) as l join S#window.sort(2, volume) as r on l.sym != r.sym
select l.kind as a, count() as n, max(r.total) as t group by l.kind insert into Out5;
from S#window.externalTimeBatch(total, 500, 0, 40) as l left outer join A#window.length(3) as r on l.kind == r.kind
select l.sym as a, r.price as p, count() as n insert all events into Out7;
from A#window.length(2) as l join S#window.externalTimeBatch(total, 800, 0, 30) as r on l.ok == r.ok
select l.sym as a, r.total as t insert into Out8;
partition with (sym of S) begin
from S#window.externalTime(total, 700) as l join S#window.sort(2, kind, 'desc', rate) as r
select r.kind as a, l.total as t insert expired events into Out6;
end;
"""
#: Sides that have one event of each key, also next to one another, of a stream with itself, and in a partition.
JOINS_OF_KEYS = f"""{STREAM}
from S[ok] select * insert into A;
from S[volume > 0] select * insert into B;
from S#window.unique:ever(sym) as l join A#window.length(6) as r on l.kind == r.kind
select l.sym as a, r.volume as v, count() as n, distinctCount(r.kind) as k group by l.sym insert all events into Out1;
from A#window.unique:first(price) as l full outer join B#window.unique:ever(volume) as r on l.kind != r.kind
select l.price as p, r.volume as v, l is null as none insert all events into Out2;
from S#window.unique:length(kind, 2) as l left outer join A#window.time(300) as r on l.ok == r.ok
select l.kind as a, r.price as p, sum(r.total) as t insert all events into Out3;
from S[price > 0.0]#window.unique:time(kind, 300) as l join S#window.unique:time(rate, 900) as r on l.sym == r.sym
select l.kind as a, r.rate as b, count() as n group by r.rate insert all events into Out4;
from S#window.unique:first(kind) as l join A#window.lengthBatch(3) as r on l.sym == r.sym
select l.kind as a, r.price as p insert all events into Out5;
partition with (sym of S, sym of B) begin
from S#window.unique:length(volume, 3) as l join B#window.unique:time(kind, 700) as r
select l.volume as v, r.kind as k, r.price as p insert all events into Out6;
from S#window.unique:ever(kind) as l left outer join B#window.unique:first(volume, ok) as r on l.total != r.total
select l.kind as k, r.volume as v, count() as n insert all events into Out7;
end;
"""
#: Sides that hold keys that come often, next to batches that show who was looked at.
JOINS_OF_FREQUENT = f"""{STREAM}
from S[ok] select * insert into A;
from S#window.frequent(2, sym) as l join A#window.lengthBatch(2) as r on l.kind == r.kind
select l.sym as a, r.volume as v, count() as n insert all events into Out1;
from A#window.lossyFrequent(0.3, 0.1, kind) as l left outer join S#window.frequent(3, sym) as r on l.ok == r.ok
select l.kind as a, r.price as p, r.sym as b insert all events into Out2;
from S#window.frequent(4) as l join S#window.length(3) as r on l.volume != r.volume
select l.volume as v, r.price as p limit 4 insert all events into Out3;
partition with (sym of S, sym of A) begin
from S#window.frequent(2, kind) as l join A#window.time(300) as r
select l.kind as a, r.price as p, sum(r.volume) as v insert all events into Out4;
end;
"""
#: Sides that release batches with one event of each key; of a length the other side finds those that wait.
JOINS_OF_RELEASED_KEYS = f"""{STREAM}
from S[ok] select * insert into A;
from S#window.unique:lengthBatch(price, 4) as l join A#window.length(3) as r on l.kind == r.kind
select l.price as p, r.sym as b, count() as n insert all events into Out1;
from A#window.unique:firstLengthBatch(kind, 2) as l full outer join S#window.unique:lengthBatch(volume, 3) as r
on l.ok == r.ok select l.kind as a, r.volume as v, r.price as p insert into Out2;
from S#window.unique:timeBatch(sym, 60) as l full outer join A#window.length(4) as r on l.kind == r.kind
select l.sym as a, count() as n, max(r.price) as p insert into Out3;
from A#window.unique:firstTimeBatch(volume, 90, 7) as l left outer join S#window.timeBatch(70) as r on l.sym == r.sym
select l.volume as v, r.kind as k, sum(r.total) as t insert all events into Out4;
from S#window.unique:timeLengthBatch(kind, 200, 2) as l join S#window.unique:lengthBatch(sym, 2) as r
select l.kind as a, r.sym as b insert into Out5;
from S#window.unique:externalTimeBatch(kind, total, 60) as l join A#window.length(3) as r on l.sym != r.sym
select l.kind as a, l.total as t, r.price as p, count() as n insert into Out6;
partition with (sym of S, sym of A) begin
from S#window.unique:timeBatch(kind, 90) as l full outer join A#window.unique:lengthBatch(price, 2) as r
select l.kind as a, r.price as p, count() as n insert all events into Out7;
end;
"""
#: Sides that hold events back, or until a session is over, which nobody finds.
JOINS_OF_LATE = f"""{STREAM}
from S[ok] select * insert into A;
from S#window.delay(60) as l join A#window.length(3) as r on l.kind == r.kind
select l.sym as a, r.price as p, count() as n, max(r.volume) as v group by l.sym insert all events into Out1;
from A#window.length(4) as l full outer join S#window.delay(300) as r on l.sym == r.sym and l.price != r.price
select l.price as p, r.volume as v, eventTimestamp() as at insert into Out2;
from S#window.delay(40) as l join S#window.delay(90) as r on l.kind == r.kind and l.ok == r.ok
select l.sym as a, r.sym as b order by b limit 3 insert into Out3;
from S#window.session(60L, sym) as l left outer join A#window.time(300) as r on l.kind == r.kind
select l.sym as a, r.price as p, sum(r.volume) as v insert all events into Out4;
from A#window.lengthBatch(2) as l join S#window.session(200L) as r
select l.sym as a, r.price as p insert all events into Out5;
partition with (sym of S, sym of A) begin
from S#window.delay(90) as l join A#window.session(70L, kind) as r on l.kind == r.kind
select l.kind as a, r.price as p, count() as n insert all events into Out6;
end;
"""
#: More pairs for one event than there was ever room for, of as many groups.
PAIRS_OF_MANY = f"""{STREAM}
from S[ok is null or ok] select * insert into A;
from S[ok is null or not ok] select * insert into B;
from A#window.length(30) as a join B#window.length(30) as b
select a.price as p, b.volume as v, a.rate as r, b.total as t insert into J;
from J#window.length(200) select p, v, r, t, count() as n, min(r) as lo group by p, v, r, t insert into Out1;
from J#window.time(900) select v, distinctCount(p) as d insert expired events into Out2;
"""
#: More pairs for one event than there was ever room for, which go into tables and look into them.
PAIRS_IN_TABLES = f"""{STREAM}
@PrimaryKey('p', 'k') define table T (p string, k string, r float);
define table L (p string, v int, t long);
from S[ok is null or ok] select * insert into A;
from S[ok is null or not ok] select * insert into B;
from A#window.length(30) as a join B#window.length(30) as b
select a.sym as p, b.kind as k, b.volume as v, a.rate as r, b.total as t insert into J;
from J[not ((L.v == v and L.p == p) in L)] select p, v, t insert into L;
from J[k == 'a'] select p, k, r insert into T;
from J[(T.p == p) in T] select p, k, r update or insert into T on T.p == p and T.k == k;
from J[t > 3] delete L on L.t == t;
from J as j left outer join T on T.p == j.p and T.k == j.k
select j.p as p, T.r as r, T is null as none insert into Mid;
from Mid#window.length(40) select p, count() as n group by p insert into Out1;
from J select v, t insert into Out2;
"""
