"""Apps that have all of a subject, small enough to be compiled: what drawn apps rarely bring together."""

from __future__ import annotations

from tests.program.drawn_apps import STREAM, WITH_OBJECTS

__all__ = [
    "ARRANGED",
    "BATCHES",
    "BEHIND",
    "BEHIND_COPIES",
    "BEHIND_KNOWN",
    "BEHIND_UNIQUE",
    "CHUNKS",
    "EXPANDED",
    "EXTERNAL",
    "HAVING",
    "LATE",
    "LIMITED",
    "PIECES",
    "PURGED",
    "SESSIONS",
    "SEVERAL",
    "SEVERAL_KEYS",
    "SHARED",
    "SNAPSHOTS",
    "SNAPSHOTS_OF_BATCHES",
    "SNAPSHOTS_OF_PAIRS",
    "SORTED",
    "TEXTS",
    "TICKING",
    "TRUTHS",
    "UNIQUE",
    "UNIQUE_JOINED",
    "UNIQUE_MORE",
]

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
#: Windows that release batches, with what leaves them and without.
BATCHES = f"""{STREAM}
from S#window.lengthBatch(3) select sym, avg(price) as a, distinctCount(kind) as d, max(eventTimestamp()) as t
group by sym insert into Out1;
from S#window.timeBatch(40) select sym, max(price) as a group by sym insert all events into Out2;
"""
#: Filters behind windows: those that events leave one by one, and that release batches.
BEHIND = f"""{STREAM}
from S#window.length(3)[price > 0.0] select sym, sum(volume) as v, max(price) as p group by sym
insert all events into Out1;
from S[not (kind is null)]#window.time(60)[ok][volume > 0 or kind == 'x'] select kind, count() as n,
distinctCount(sym) as d, total group by kind insert into Mid;
from Mid#window.timeLength(900, 2)[n > 1] select kind, sum(total) as t insert expired events into Out2;
from S#window.delay(40)[not ok] select sym, sum(total) as t group by sym having t > 0L insert into Out3;
from S#window.lengthBatch(3)[ok] select sym, count() as n, sum(volume) as v group by sym insert into Out4;
from S#window.lengthBatch(2)[volume > 0] select kind, max(price) as p, distinctCount(sym) as n insert all events
into Out5;
from S#window.timeBatch(40)[not ok] select avg(rate) as r, distinctCount(kind) as d insert into Out6;
from S#window.unique:ever(sym)[volume >= 0] select kind, count() as n, min(price) as p group by kind
insert all events into Out7;
from S#window.unique:length(kind, 2)[str:concat(sym, 'x') != 'ax'] select sym, sum(total) as t group by sym
insert all events into Out8;
from S#window.unique:time(rate, 300)[ok] select rate, kind, sum(volume) as v group by kind insert all events into Out9;
from S#window.unique:lengthBatch(sym, 3)[volume > 0] select sym, price order by price insert all events into Out10;
partition with (kind of S) begin
from S#window.session(60L, sym)[price < 2.0] select sym, sum(volume) as v group by sym insert all events into Out11;
from S#window.lengthBatch(3, true)[ok] select total, rate group by rate insert all events into Out12;
from S#window.batch()[volume > 0] select volume, kind order by volume insert expired events into Out13;
from S#window.timeBatch(700, true)[not ok] select sym, rate insert all events into Out14;
from S#window.length(2)[price is null or price > 1.0] select total, count() as n having sum(total) > 0L
insert all events into Out15;
end;
"""
#: Filters behind windows where the copy of an event that lets totals begin anew is one of an event that may be gone.
BEHIND_COPIES = f"""{STREAM}
from S#window.lengthBatch(3, true)[ok] select sym, count() as n, sum(volume) as v group by sym insert into Out1;
from S#window.lengthBatch(1, true)[volume > 0] select sum(total) as t, max(price) as p insert all events into Out2;
from S[volume > 0]#window.timeBatch(90, true)[ok][kind != 'x'] select kind, sum(volume) as v group by kind
insert into Out3;
from S#window.timeBatch(60, 7, true)[not ok] select count() as n, distinctCount(sym) as d
insert expired events into Out4;
from S#window.batch()[volume > 0] select kind, sum(volume) as v, max(rate) as r insert expired events into Out5;
from S#window.batch(2)[ok] select sym, count() as n insert into Out6;
from S#window.lengthBatch(2, true)[ok] select sym, count() as n output snapshot every 70 milliseconds insert into Out11;
partition with (sym of S) begin
from S#window.timeBatch(70, true)[kind == 'x' or ok] select kind, count() as n group by kind insert into Out12;
from S#window.batch()[ok] select count() as n insert all events into Out13;
end;
"""
#: The same by attributes that are never null.
BEHIND_KNOWN = f"""{STREAM}
from S#window.sort(3, price, 'desc', total)[ok] select sym, sum(volume) as v group by sym insert all events into Out1;
from S#window.externalTime(total, 60)[volume > 0][price != 1.5] select sym, max(rate) as r group by sym
insert all events into Out2;
from S#window.externalTimeBatch(total, 60)[not ok] select sym, count() as n group by sym insert into Out3;
from S#window.unique:externalTimeBatch(volume, total, 90)[kind == 'x'] select kind, rate insert all events into Out4;
from S#window.externalTimeBatch(total, 50, 0, 40, true)[total % 3 > 0L or ok] select sym, count() as n group by sym
insert all events into Out7;
from S#window.externalTimeBatch(total, 60, 0, 30)[ok] select sym, count() as n, max(price) as p insert into Out8;
partition with (kind of S) begin
from S#window.externalTimeBatch(total, 40, 7L)[volume >= 0] select kind, max(price) as p, count() as n
insert all events into Out5;
from S#window.unique:externalTimeBatch(sym, total, 60)[ok] select sym, sum(volume) as v group by sym
insert all events into Out9;
from S[volume < 5]#window.sort(2, rate)[total > 1000900L] select rate, total insert expired events into Out6;
end;
"""
#: The same over batches of unique keys, and totals of having there; groups go though no event lets totals begin anew.
BEHIND_UNIQUE = f"""{STREAM}
from S#window.unique:lengthBatch(sym, 3)[volume > 0] select kind, sum(price) as p, maxForever(total) as m group by kind
insert into Out1;
from S#window.unique:timeBatch(sym, 60)[kind == 'x'] select sym, sum(rate) as r, distinctCount(total) as d group by sym
insert all events into Out2;
from S[ok]#window.unique:firstTimeBatch(sym, 90, 7)[volume > 0] select count() as n, min(price) as p
insert expired events into Out3;
from S#window.unique:timeLengthBatch(kind, 60, 2)[ok] select kind, volume having sum(volume) > 0L insert into Out4;
from S#window.unique:firstLengthBatch(price, 2) select sym, volume having sum(volume) > 0L insert into Out5;
from S#window.lengthBatch(3)[not ok] select sym, stdDev(rate) as d group by sym insert all events into Out6;
from S#window.unique:timeBatch(kind, 40)[ok] select sym, count() as n output snapshot every 70 milliseconds
insert into Out7;
partition with (kind of S) begin
from S#window.unique:timeBatch(volume, 60)[sym == 'a' or ok] select sym, max(total) as t group by sym
insert all events into Out8;
from S#window.batch(2)[ok] select sym, sum(total) as t group by sym insert expired events into Out9;
end;
"""
#: Rate limits by number, of single events, batches and what leaves, with groups and without, in chains and partitions.
LIMITED = f"""{STREAM}
from S select sym, price, volume output all every 3 events insert into Out1;
from S#window.length(2) select kind, sum(volume) as v group by kind output first every 2 events insert all events
into Mid;
from Mid select kind, v output last every 3 events insert into Out2;
from S#window.timeBatch(40) select sym, total order by total output last every 4 events insert into Out3;
partition with (sym of S) begin
from S[volume > 0] select kind, volume group by kind, ok output last every 3 events insert into #I;
from #I select kind, volume output all every 2 events insert into Out4;
from S select kind, total output first every 3 events insert into Out5;
from every e1=S[ok] -> e2=S select e1.kind, e2.total group by e1.kind output last every 2 events insert into Out6;
end;
"""
#: Rate limits by time.
TICKING = f"""{STREAM}
from S select sym, price, volume output all every 50 milliseconds insert into Mid;
from Mid select sym, volume group by sym output last every 70 milliseconds insert into Out1;
from Mid#window.timeBatch(60) select sym, count() as n group by sym output first every 1 sec insert into Out2;
from S#window.time(60) select kind, ok output last every 60 milliseconds insert all events into Out3;
partition with (sym of S) begin
from S select kind, sum(volume) as v group by kind output last every 60 milliseconds insert into #I;
from #I select kind, v output all every 2 events insert into Out4;
from S#window.length(2) select total output first every 40 milliseconds insert expired events into Out5;
end;
"""
#: Snapshots of single events, and of windows that slide, of all kinds of totals.
SNAPSHOTS = f"""{STREAM}
from S select sym, price output snapshot every 300 milliseconds insert into Out1;
from S select sym, sum(volume) as v group by sym, kind output snapshot every 200 milliseconds insert into Mid;
from Mid#window.length(3) select sym, v order by v desc limit 2 output snapshot every 500 milliseconds insert into Out2;
from S#window.length(3) select sym, price, kind output snapshot every 90 milliseconds insert into Out3;
from S#window.time(300) select sum(volume) as v, count() as n output snapshot every 5 milliseconds insert into Out4;
from S#window.time(900) select sum(volume) as v, max(price) as p group by kind output snapshot every 150 milliseconds
insert into Out5;
from S#window.timeLength(700, 3) select kind, count() as n, rate, sum(total) as t group by sym having n < 3
output snapshot every 100 milliseconds insert into Out6;
partition with (sym of S) begin
from S#window.time(900) select kind, avg(rate) as r group by kind limit 3 output snapshot every 700 milliseconds
insert into #I;
from #I#window.length(2) select kind, r output snapshot every 1 sec insert into Out7;
from S#window.length(2) select price, count() as n output snapshot every 400 milliseconds
insert into Out8;
from S select kind, ok group by kind output snapshot every 1 sec insert into Out9;
from e1=S[ok] -> e2=S select e1.kind, e2.total output snapshot every 700 milliseconds insert into Out10;
end;
"""
#: Snapshots of windows that release batches, which begin anew with each.
SNAPSHOTS_OF_BATCHES = f"""{STREAM}
from S#window.lengthBatch(3) select sym, eventTimestamp() as at output snapshot every 90 milliseconds insert into Out1;
from S#window.timeBatch(200) select sym, sum(volume) as v offset 1 output snapshot every 70 milliseconds
insert into Out2;
from S#window.lengthBatch(3, true) select kind, count() as n order by kind limit 2 output snapshot every 90 milliseconds
insert into Out3;
from S#window.timeBatch(300, true) select sum(total) as t, count() as n output snapshot every 80 milliseconds
insert into Out4;
from S#window.timeBatch(700, 7, true) select kind, price order by price desc output snapshot every 90 milliseconds
insert into Out5;
from S#window.batch() select sym, max(price) as p limit 2 offset 1 output snapshot every 80 milliseconds
insert into Out6;
from S#window.unique:lengthBatch(kind, 2) select kind, rate output snapshot every 90 milliseconds insert into Out7;
from S#window.unique:timeBatch(sym, 300) select sym, count() as n output snapshot every 110 milliseconds
insert into Out8;
from S#window.timeBatch(600) select sum(volume) as v group by kind output snapshot every 250 milliseconds
insert into Out9;
partition with (sym of S) begin
from S#window.batch() select kind, ok output snapshot every 300 milliseconds insert into Out10;
from S#window.lengthBatch(2) select total, min(volume) as m output snapshot every 500 milliseconds insert into Out11;
from S#window.delay(50) select kind, count() as n output snapshot every 700 milliseconds insert into Out12;
end;
"""
#: Snapshots of joins: of windows that slide, of batches, of a side without window, of a stream with itself.
SNAPSHOTS_OF_PAIRS = f"""{STREAM}
from S[ok or volume > 0] select * insert into A;
from S[not ok] select * insert into B;
from A#window.length(3) as a join B#window.time(300) as b on a.kind == b.kind
select a.sym as sym, b.total as total output snapshot every 90 milliseconds insert into Out1;
from A#window.length(2) as a join B#window.length(2) as b select count() as n, max(a.price) as p group by b.kind
output snapshot every 60 milliseconds insert into Out2;
from A as a join B#window.length(3) as b on a.price != b.price select a.sym as sym, b.rate as rate
order by rate limit 2 output snapshot every 50 milliseconds insert into Out3;
from S#window.length(2) as a join S#window.lengthBatch(2) as b select a.sym as sym, b.kind as kind
output snapshot every 90 milliseconds insert into Out4;
from A#window.timeBatch(200) as a full outer join B#window.length(2) as b on a.sym == b.sym
select a.sym as sym, b.kind as kind limit 3 output snapshot every 90 milliseconds insert into Out5;
from A as a join B#window.lengthBatch(2) as b unidirectional on a.ok == b.ok
select a.sym as sym, b.kind as kind limit 1 output snapshot every 30 milliseconds insert into Out6;
"""
#: Windows that hold what comes first in an order; there is no null among what they order by.
SORTED = f"""{STREAM}
from S#window.sort(3, price, 'desc', total) select sym, price, sum(volume) as v insert all events into Out1;
from S#window.sort(2, sym, 'desc', volume) select kind, max(rate) as r, count() as n group by kind insert into Out2;
partition with (sym of S) begin
from S[ok]#window.sort(2, rate, 'desc') select rate, total order by total limit 2 insert expired events into Out3;
end;
"""
#: Sessions by a key that may be null, and of all events; some come late.
SESSIONS = f"""{STREAM}
from S#window.session(60L, sym) select sym, kind, sum(volume) as v group by kind insert all events into Out1;
from S#window.session(300L) select sym, count() as n insert into Mid;
from S[ok]#window.session(2 sec, kind) select sym, price insert expired events into Out2;
from Mid#window.session(1L, sym) select n order by n limit 3 insert all events into Out3;
partition with (kind of S) begin
from S#window.session(300L, sym) select sym, sum(volume) as v, count() as n insert all events into Out4;
from S[volume > 0]#window.session(300L) select sym, total insert expired events into Out5;
end;
"""
#: Windows on a time attribute, which may go back and is never null.
EXTERNAL = f"""{STREAM}
from S#window.externalTime(total, 60) select sym, sum(volume) as v group by sym insert all events into Out1;
from S#window.externalTimeBatch(total, 60) select sym, avg(rate) as r group by sym order by r insert into Out2;
from S#window.externalTimeBatch(total, 40, 7L) select kind, max(price) as p, count() as n insert all events into Out3;
from S#window.unique:first(str:upper(sym)) select sym, total insert into Out8;
from S#window.unique:externalTimeBatch(volume, total, 90) select kind, sum(rate) as v insert all events into Out7;
partition with (kind of S) begin
from S#window.externalTime(total, 900) select ok, total insert expired events into Out4;
from S[ok]#window.externalTimeBatch(total, 700) select sym, total insert expired events into Out5;
from S#window.unique:externalTimeBatch(sym, total, 700, 3) select kind, max(price) as p group by kind insert into Out6;
end;
"""
#: Windows that have each chunk for a batch.
CHUNKS = f"""{STREAM}
from S#window.batch() select sym, sum(volume) as v, max(price) as p group by sym insert all events into Out1;
from S#window.lengthBatch(3) select sym, kind, total insert into Mid;
from Mid#window.batch() select kind, count() as n insert into Out2;
from Mid[total > 0]#window.batch() select sym, total order by total limit 2 insert expired events into Out3;
partition with (sym of S) begin
from S#window.batch() select kind, distinctCount(kind) as n, min(rate) as r insert into Out4;
from S[ok]#window.batch(0) select kind, sum(total) as t group by kind insert all events into Out5;
end;
"""
#: Aggregators of truths, of which operators fail on null; there is none.
TRUTHS = f"""{STREAM}
from S#window.length(3) select sym, and(ok) as a, or(ok) as b group by kind insert all events into Out1;
from S[volume > 0] select or(price > 1.0) as o, and(ok) as a insert into Out2;
from S#window.lengthBatch(3) select kind, and(volume > 0) as a, or(ok) as b group by kind insert all events into Out3;
from S#window.timeBatch(40) select or(ok) as o, count() as n insert into Out4;
partition with (sym of S) begin
from S#window.time(900) select and(ok) as a, kind insert all events into #I;
from #I select and(kind == 'x' or a) as b, a insert into Out5;
end;
"""
#: Chunks that are cut into pieces, each with totals of its own.
PIECES = f"""{STREAM}
from S#window.batch(2) select sym, kind, sum(volume) as v insert into Out1;
from S[volume > 0]#window.batch(2) select kind, count() as n group by kind insert all events into Mid;
from Mid#window.batch(3) select kind, n order by n limit 2 insert expired events into Out2;
from S#window.batch(1) select sym, count() as n output snapshot every 60 milliseconds insert into Out3;
partition with (sym of S) begin
from S#window.batch(2) select kind, count() as n, min(rate) as r group by kind insert into Out4;
from S#window.batch(3) select count() as n, max(total) as t insert into Out5;
from S[not ok]#window.batch(2) select kind, sum(total) as t, stdDev(volume) as d insert all events into Out6;
end;
"""
#: Aggregators in having, which count what leaves, and know no groups.
HAVING = f"""{STREAM}
from S select sym, price having not (count() < 3 or price > 2.0) insert into Out1;
from S#window.length(3) select sym, volume group by sym having sum(volume) > min(volume) insert into Out2;
from S#window.time(60) select kind, sum(total) as t, rate having max(rate) >= 0.5f insert expired events into Out3;
from S#window.lengthBatch(3) select kind, count() as n, price group by kind having stdDev(price) > 0.5 insert all events
into Out4;
partition with (sym of S) begin
from S#window.length(2) select total, kind having sum(total) > 0L order by total insert all events into Out5;
end;
"""
#: Windows with one event of each key, by attributes of all types and by expressions.
UNIQUE = f"""{STREAM}
from S#window.unique:ever(sym) select sym, kind, sum(volume) as v, max(price) as p group by kind
insert all events into Out1;
from S#window.unique:length(kind, 2) select kind, sum(total) as t, min(volume) as m group by kind
insert all events into Out2;
from S#window.unique:time(rate, 300) select rate, kind, sum(volume) as v group by kind insert all events into Out3;
from S#window.unique:firstLengthBatch(total, 3) select total, count() as n insert into Out4;
partition with (kind of S) begin
from S#window.unique:timeLengthBatch(sym, 900, 3) select sym, sum(volume) as v insert all events into Out5;
end;
"""
#: The same in partitions and chains, and what there is besides.
UNIQUE_MORE = f"""{STREAM}
from S#window.unique:ever(volume % 3) select count() as n, distinctCount(kind) as k insert into Out1;
from S[ok]#window.unique:first(coalesce(sym, kind)) select sym, price insert into Mid;
from Mid#window.unique:length(price, 2) select sym, price insert expired events into Out2;
from S#window.unique:length(total, 4) select total, count() as n insert all events into Out11;
from S#window.unique:lengthBatch(sym, 4) select sym, sum(volume) as v insert into Out3;
from S#window.unique:timeBatch(price, 700) select price, volume insert all events into Out4;
from S#window.unique:firstTimeBatch(volume, 500, 7) select volume, sym insert into Out5;
from S#window.unique:timeLengthBatch(rate, 900, 3) select rate, count() as n group by rate insert all events into Out6;
partition with (kind of S) begin
from S#window.unique:time(total, 900) select sym, avg(price) as a insert into Out7;
from S[volume > 0]#window.unique:ever(ok) select ok, sym insert expired events into Out8;
from S#window.unique:length(sym, 1) select sym, count() as n, max(total) as t insert all events into Out9;
from S#window.unique:timeBatch(total, 600) select total, sum(volume) as v order by total insert into Out10;
end;
"""
#: Results of timers that come late to windows in front of them: these ask for wake-ups that are over.
LATE = f"""{STREAM}
define stream Mid (sym string, total long);
define stream End (sym string, total long);
from End#window.timeBatch(20) select sym, count() as n insert all events into Out2;
from Mid#window.time(1) select sym, total output last every 50 milliseconds insert expired events into Out1;
from Mid#window.time(30) select sym, total insert expired events into End;
from S#window.timeBatch(30) select sym, total output last every 50 milliseconds insert into Mid;
"""
#: Functions of texts that windows hold, in what they put out, in totals, in having, and in conditions of patterns.
TEXTS = f"""{STREAM}
from S#window.length(3) select str:upper(sym) as u, max(str:length(kind)) as l group by kind
insert all events into Out1;
from S#window.lengthBatch(3) select sym as text, str:concat(sym, '!') as c having str:length(text) > 0
insert all events into Out2;
from S#window.time(60) select str:reverse(sym) as r, count() as n insert expired events into Out3;
from S#window.delay(40) select str:lower(sym) as l, kind order by l insert into Out4;
from S select sym, kind insert into Mid;
from Mid#window.timeBatch(700) select kind, sum(str:length(sym)) as n group by kind insert into Out5;
from every e1=S[str:upper(sym) == 'A'] -> e2=Mid[str:length(sym) > 1 and kind == e1.kind] select e2.sym
insert into Out6;
partition with (kind of S) begin
from S#window.unique:length(str:upper(sym), 2) select sym, str:concat(sym, sym) as c having str:length(sym) != 4
insert all events into Out7;
end;
"""
#: Functions of several attributes: of what comes, of what windows hold, in having, patterns, and keys of partitions.
SEVERAL = f"""{STREAM}
from S#window.length(3) select str:concat(sym, kind) as c, max(str:length(str:concat(kind, volume))) as l group by kind
insert all events into Out1;
from S#window.lengthBatch(3) select sym as text, kind, str:concat(sym, price) as c having str:concat(text, kind) != 'ax'
insert all events into Out2;
from S[str:concat(sym, kind) != 'ax']#window.time(60) select distinctCount(str:concat(sym, kind)) as n,
str:coalesce(sym, kind) as t insert expired events into Out3;
from S#window.timeBatch(40)[str:concat(kind, ok) != 'xtrue'] select kind, convert(total, 'string') as c,
sum(str:length(str:concat(volume, kind))) as n group by kind insert into Out4;
from S select sym as a, kind as b, volume insert into Mid;
from Mid#window.session(700L, b) select str:concat(a, '-', b) as c insert all events into Out5;
from every e1=S[str:concat(sym, kind) == 'ax'] -> e2=Mid[str:concat(b, a) != 'xb' and b == e1.kind] select e2.a
insert into Out6;
partition with (str:concat(sym, ok) of S) begin
from S#window.unique:length(str:concat(kind, volume), 2) select sym, str:concat(kind, rate) as c
insert all events into Out7;
end;
partition with (str:lower(coalesce(sym, 'x')) of S) begin
from S[str:equalsIgnoreCase(coalesce(sym, 'x'), kind) or ok]#window.delay(40) select sym, str:concat(kind, ok) as c
insert into Out8;
end;
"""
#: Unique windows whose key is a text made of several keys, or of a real.
UNIQUE_JOINED = f"""{STREAM}
from S#window.unique:ever(sym, kind) select sym, kind, sum(volume) as v group by kind insert all events into Out1;
from S[ok]#window.unique:first(volume % 2, rate, ok) select volume, rate, count() as n insert into Out2;
from S#window.unique:ever(price, rate + 0.5f) select price, rate insert expired events into Out3;
from S#window.unique:firstLengthBatch(price, 3) select price, sym insert all events into Out4;
from S#window.unique:firstTimeBatch(rate, 500, 7) select rate, sum(volume) as v group by sym insert into Out5;
partition with (kind of S) begin
from S#window.unique:ever(sym, total % 3L, 'x') select sym, total, count() as n insert all events into Out6;
from S#window.unique:firstLengthBatch(price * 2.0, 4) select price, sym insert into Out7;
end;
"""
#: Stream functions: an event becomes none, one, or several, in windows, groups, and in front of other queries.
EXPANDED = f"""{STREAM}
from S[not (sym is null)]#str:tokenize(sym, ' ')[token != 'b'] select token, kind, price order by token limit 2
insert into Out1;
from S#test:times(volume, sym)#window.length(3) select copy, sum(times) as t, count() as n group by copy
insert all events into Out2;
from S[ok]#test:times(volume % 3, str:concat(kind, sym))[even]#pol2Cart(coalesce(price, 1.0), 2.0, 0.5)
select copy, x, y, z, total group by copy, even insert into Mid;
from Mid[x > 0.0]#window.timeBatch(40) select copy, max(y) as y, sum(total) as t group by copy insert all events
into Out3;
from S#test:times(3, kind)#window.batch() select copy, count() as n, str:concat(sym, kind) as c having n > 1L
insert all events into Out4;
from S#test:times(volume, kind)#window.lengthBatch(4)[even] select times, even, volume insert expired events into Out5;
from S#pol2Cart(coalesce(price, 0.0), 1.0) select * output last every 2 events insert into Out6;
from S#test:times(volume, sym)#window.time(60) select distinctCount(copy) as d, min(times) as m insert into Out7;
"""
#: Partitions whose keys go when they were idle, with all that a key may have and wait for.
PURGED = f"""{STREAM}
@purge(enable='true', interval='70 millisec', idle.period='60 millisec') partition with (sym of S) begin
from S#window.length(2) select sym, sum(volume) as v, count() as n insert all events into Out1;
from S#window.time(900) select sym, kind, max(price) as p, distinctCount(rate) as d group by kind
insert all events into #I;
from #I#window.lengthBatch(2) select sym, count() as n insert into Out2;
from S select sym, count() as n output last every 60 milliseconds insert into Out3;
from every e1=S -> e2=S[total != e1.total] within 2 sec select e1.total as a, e2.total as b insert into Out4;
from S#window.session(700L) select sym, kind insert all events into Out5;
from S select kind, volume group by kind output first every 3 events insert into Out6;
end;
@purge(enable='true', interval='1 sec', idle.period='700 millisec')
partition with (price > 0.5 as 'a' or volume > 0 as 'x' or ok as 'c' of S) begin
from every e1=S -> not S[volume > 3] for 800 milliseconds select e1.sym, e1.total insert into Out7;
from S#window.unique:ever(kind) select kind, volume, ok insert all events into Out8;
from S as a join S#window.time(800) as b on a.kind == b.kind select a.kind, b.volume insert into Out9;
from S#window.delay(650) select kind insert into Out10;
end;
"""
#: Partitions with a stream that has no key: all keys that there are get its events, in the order of Java's set of them.
SHARED = f"""{STREAM}
from S[volume > 0] select sym, kind, volume, total insert into A;
partition with (sym of S) begin
from S#window.length(2) as s join A#window.length(1) as a on a.volume != s.volume
select s.sym, a.kind, a.volume insert all events into Out1;
from every e1=S[ok] -> e2=A select e1.sym as a, e2.kind as b insert into Out2;
from A#window.time(60) select sym, count() as n, sum(volume) as v insert all events into Out3;
from A select kind, total group by kind output last every 3 events insert into Out4;
end;
@purge(enable='true', interval='20 millisec', idle.period='100 millisec')
partition with (kind of S) begin
from S select ok, count() as n insert into Out5;
from A select total, count() as n insert into Out8;
from A[total > 3] select sym, kind insert into #I;
from #I#window.lengthBatch(2) select sym, count() as n insert into Out6;
from every not A for 90 milliseconds select 1 as one insert into Out7;
end;
"""
#: Partitions of which streams have keys of several types: they are one where Java writes them alike.
SEVERAL_KEYS = f"""{STREAM}
from S[volume >= 0] select sym, kind, price, rate, volume, total, ok insert into T;
partition with (price of S, rate of T) begin
from S#window.length(2) select sym, count() as n insert all events into Out1;
from T select kind, sum(total) as n insert into Out2;
from every e1=S -> e2=T select e1.sym as a, e2.kind as b insert into Out3;
end;
partition with (volume of S, ok of T) begin
from T select kind, count() as n insert into Out4;
from S select volume, count() as n insert into Out5;
end;
partition with (price > 0.5 as '1' or ok as 'true' of S, volume of T) begin
from every e1=S -> e2=T select e1.sym as a, e2.volume as b insert into Out6;
end;
"""
#: Objects of events, and of functions, in windows, limits, joins, patterns, partitions, and behind stream functions.
OBJECTS = f"""{WITH_OBJECTS}
from S[not (more is null)]#window.length(3) select sym, more, count() as n insert all events into Out1;
from S#window.lengthBatch(3) select more, list:create(sym, more) as l insert all events into Out2;
from S#window.time(60) select sym, coalesce(more, createSet(kind)) as o, count() as n group by sym
output last every 2 events insert into Out3;
from S select sym, more, kind insert into M;
from M select kind, more group by kind output snapshot every 50 milliseconds insert into Out4;
from M as a join S#window.length(2) as b on a.sym == b.sym select a.more as x, b.more as y insert all events into Out5;
from every e1=S[ok] -> e2=S[kind == e1.kind and not (more is null)] select e1.more as x, e2.more as y insert into Out6;
from every e1=S[volume > 0]<1:2> -> not S[ok] for 40 milliseconds select e1[0].more as x, e1[last].more as y
insert into Out7;
partition with (kind of S) begin
from S#window.length(2) select more, convert(more, 'string') as t, instanceOfString(more) as i
insert all events into #I;
from #I[not (more is null)]#window.delay(40) select more, t, i insert into Out8;
end;
from S#window.unique:ever(sym) select sym, more, map:create(sym, more) as m insert all events into Out9;
from S#test:times(volume, kind)#window.length(2) select copy, more insert expired events into Out10;
from S#list:tokenize(list:create(more, sym)) select index, value, more order by index desc insert into Out11;
from S[instanceOfInteger(more) or list:isList(more)]#window.timeBatch(40) select more, kind output first every 2 events
insert into Out12;
"""
