"""Elements without a typed form are called where they stand: the results are those of the operators alone."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from spdist.engine.programs.operators_called import CalledOperators
from spdist.facade import explain
from spdist.program.machine.compiler import interpreted
from spdist.program.obstacle import compiled_or_why_not
from spdist.program.running import mixed
from spdist.program.running.mixed import MixedRunning
from tests.engine.one_chunk import deliver_now
from tests.program.drawn_apps import START_MS, STREAM, WITH_OBJECTS
from tests.program.mixed_apps import drawn_mixed_app
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

#: What has no typed form.
NAME = "coalesce(sym, convert(eventTimestamp(), 'string')) as sym"
#: A join that puts out what typed queries read, which is handed out, too; events that a query fails on.
BACK = f"""{STREAM}
define table T (sym string, price double);
from S[volume > 0] select {NAME}, price update or insert into T on T.sym == sym;
from S as X join T on X.sym == T.sym select X.sym as sym, T.price as price, X.total as total insert into Out1;
from Out1#window.length(2) select sym, sum(total) as t insert all events into Out2;
from Out1[price > 0.0]#window.time(50) select sym, count() as n insert all events into Mid;
from Mid select sym, n output last every 40 milliseconds insert into Out3;
from Mid select sym, n output first every 3 events insert into Out4;
from Mid#window.timeBatch(40) select sym, n insert into Out5;
"""
FAILING = f"""{STREAM}
@OnError(action='stream') define stream Mid (sym string, total long, cause object);
define table T (sym string);
from S[ok] select sym, total, sym as told insert into M1;
from M1[total > 0] select sym, total insert into Out1;
from M1 select sym, total, cast(sym, 'int') as number insert into Out2;
from M1#window.length(1) select sym, total insert all events into Out3;
"""


def started(text: str) -> tuple[Watched, Watched]:
    plain, other = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    for one in (plain, other):
        one.begin()
        one.app.start(START_MS)
    return plain, other


def row(sym: str, price: Any, volume: int = 1) -> tuple[Any, ...]:
    return (sym, "k", price, 0.5, volume, 2, True)


def test_what_is_drawn_reads_its_source() -> None:
    for seed in (*range(200), 5259, 5613, 6585):  # in these all else is read from the window, or with the clock
        checked = checked_app(drawn_mixed_app(Random(seed)))
        queries = [*checked.queries, *(query for one in checked.partitions for query in one.queries)]
        assert "S" in {source.stream_id for query in queries for source in query.scope.sources}


@pytest.mark.parametrize("group", range(3))
def test_a_drawn_app_does_the_same_with_calls(group: int) -> None:
    out = called = 0
    for seed in range(20 * group, 20 * group + 20):
        random = Random(seed)
        text = drawn_mixed_app(random)
        checked = checked_app(text)
        own = Watched(checked, interpreted).app.programmed
        assert own is not None
        if own.compile() is None:
            continue  # none of its queries has a typed form
        called += 1
        try:
            out += alike(checked, random, interpreted, steps=12)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error
    assert called > 8
    assert out > 200


@pytest.mark.parametrize("app", [BACK, FAILING])
def test_an_app_does_the_same_with_calls(app: str) -> None:
    checked = checked_app(app)
    assert sum(alike(checked, Random(seed), interpreted, steps=20) for seed in range(4)) > 200


def mutants() -> list[Any]:
    """Return changes of the order of timers, of numbers, and of what comes back."""
    real = CalledOperators.first_timer.fget
    assert real is not None

    def late(self: CalledOperators) -> tuple[int, int] | None:
        found = real(self)
        return None if found is None else (found[0], 10**9)

    def early(self: CalledOperators) -> tuple[int, int] | None:
        found = real(self)
        return None if found is None else (found[0], -5)

    put_out, feed = MixedRunning.put_out, MixedRunning.feed

    def uncounted(self: MixedRunning, stream: str, arrivals: Any) -> None:
        put_out(self, stream, arrivals)
        self.arrays["shared"][mixed.NUMBER] -= len(arrivals)

    def backwards(self: MixedRunning, stream: str, arrivals: Any) -> None:
        feed(self, stream, arrivals[::-1])

    return [
        patch.object(CalledOperators, "first_timer", property(late)),
        patch.object(CalledOperators, "first_timer", property(early)),
        patch.object(MixedRunning, "put_out", uncounted),
        patch.object(MixedRunning, "feed", backwards),
    ]


#: What is due at one time: operators' timers before those of typed queries, and behind them.
ORDER = f"""{STREAM}
define table T (sym string, price double);
from S select {NAME}, price output snapshot every 40 milliseconds insert into Out1;
from S#window.timeBatch(40, 0) select sym, price insert into Out2;
from S select {NAME}, price output snapshot every 40 milliseconds insert into Out3;
from S select {NAME}, price update or insert into T on T.sym == sym;
from S as X join T on X.price > T.price select X.sym as sym, T.price as price insert into Mid;
from Mid select sym, price insert into Out4;
"""


@pytest.mark.parametrize("number", range(4))
def test_the_law_finds_a_wrong_order(number: int) -> None:
    with mutants()[number], pytest.raises(AssertionError):
        for seed in range(8):
            alike(checked_app(ORDER), Random(seed), interpreted, steps=20)


def test_an_element_is_called_with_the_events_that_meet_its_conditions() -> None:
    plain, other = started(
        f"""{STREAM} define table T (sym string);
        from S[price > 2.0 and volume > 0] select {NAME} update or insert into T on T.sym == sym;
        from S#window.length(2) select sum(price) as p insert into Out;"""
    )
    events = [(START_MS + n, row("ab"[n % 2], float(n % 4))) for n in range(100)]
    for one in (plain, other):
        one.run(events)
    own = other.app.programmed
    assert own is not None and isinstance(own.running, MixedRunning)
    assert own.running.calls == 25
    assert other.chunks == plain.chunks
    assert other.app.query("from T select sym").rows == plain.app.query("from T select sym").rows == [("b",)]


def test_a_value_of_another_type_brings_the_operators_back() -> None:
    plain, other = started(BACK)
    for one in (plain, other):
        for number, price in enumerate([1.0, 2, 3.0, 4.0]):
            one.chunk([(START_MS + number, row("a", price))], START_MS + number)
    assert other.chunks == plain.chunks
    own = other.app.programmed
    assert own is not None
    assert (own.active, own.reason) == (False, "a value is not of its type")
    again = "from T select sym, price"
    assert other.app.query(again).rows == plain.app.query(again).rows == [("a", 4.0)]


EVERY = f"""{STREAM} define table T (sym string, price double);
from S select {NAME}, price update or insert into T on T.sym == sym;
from S[price > 2.0]#window.length(2) select sym, sum(price) as p insert into Out;"""


@pytest.mark.parametrize(("app", "stays"), [(EVERY, False), (EVERY.replace("S select", "S[price > 2.0] select"), True)])
def test_where_most_events_are_called_for_operators_go_on(app: str, stays: bool) -> None:
    plain, other = started(app)
    own = other.app.programmed
    assert own is not None
    with patch.object(mixed, "_LOOKED_AT", 20):
        for start in range(0, 60, 12):
            events = [(START_MS + n, row("ab"[n % 2], float(n % 4))) for n in range(start, start + 12)]
            plain.run(events)
            if own.active:
                other.run(events)
            else:
                for event in events:
                    other.chunk([event], event[0])
    assert other.chunks == plain.chunks
    assert own.active == stays
    assert own.reason == ("" if stays else "so many events reach what has no typed form that operators are faster")


def test_an_error_that_ends_the_app_comes_out_of_the_loop() -> None:
    _, other = started(BACK)

    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    with patch.object(CalledOperators, "set_clock", broken), pytest.raises(KeyboardInterrupt):
        other.run([(START_MS, row("a", 1.0)), (START_MS, row("b", 1.0))])


def test_it_is_told_which_queries_are_called_and_why() -> None:
    app = """define stream S (sym string, price double);
    define table T (sym string);
    @info(name='high') from S[price > 1.0] select sym insert into High;
    @info(name='kept') from High update or insert into T
        on T.sym == sym;
    @info(name='found') from High#window.time(0) join T on T.sym == High.sym
    select High.sym as sym insert into Out;"""
    told = explain(app).compiled
    assert told.startswith("in part")
    assert "high is compiled; kept is called: the table 'T', which 'found' uses without a typed form (line 4)" in told
    assert told.endswith("found is called: the window time (line 6)")
    without = explain("define stream S (a string); from S#window.time(0) select a insert into O;").compiled
    assert without == "no: the window time (line 1)"


def test_an_app_without_a_typed_query_stays_with_its_operators() -> None:
    text = f"{STREAM} from S#window.time(0) select sym insert into Out;"
    app = Watched(checked_app(text), interpreted)
    own = app.app.programmed
    assert own is not None
    assert own.compile() is None
    assert own.reason == "the window time"


def test_what_comes_back_is_sorted_by_numbers_in_the_loop_and_by_texts_by_operators() -> None:
    app = """define stream S (sym string, price double);
    from S#window.time(0) select sym, price insert into M;
    from M#window.lengthBatch(3) select sym, price order by {} limit 2 insert into Out;"""
    assert explain(app.format("price desc")).compiled.endswith("query_2 is compiled")
    assert explain(app.format("sym")).compiled.startswith("no: ")


@pytest.mark.parametrize("order", ["more", "ok, more desc"])
def test_what_is_ordered_by_objects_is_called(order: str) -> None:
    text = f"""{WITH_OBJECTS} from S#window.lengthBatch(4) select sym, ok, more order by {order} insert into Out1;
    from S#window.length(2) select sum(total) as t insert into Out2;"""
    told = "in part: query_1 is called: 'order by' an object; query_2 is compiled"
    checked = checked_app(text)
    assert compiled_or_why_not(checked) == told
    assert sum(alike(checked, Random(seed), interpreted, steps=20) for seed in range(3)) > 100


def test_a_trigger_brings_no_texts_to_an_order() -> None:
    text = f"""{STREAM} define trigger Tick at every 40 milliseconds; define trigger Once at 'start';
    from Tick#window.length(2) select sum(triggered_time) as t, count() as n insert into Out1;
    from S#window.lengthBatch(3) select sym, price order by sym insert into Out2;
    from Once select triggered_time insert into Out3;"""
    checked = checked_app(text)
    assert compiled_or_why_not(checked) == "yes"
    assert sum(alike(checked, Random(seed), interpreted, steps=20) for seed in range(3)) > 100


@pytest.mark.parametrize(
    "defined", ["", "define trigger Tick at every 700 milliseconds;\nfrom Tick select * insert into Out1;"]
)
def test_what_sleeps_when_a_state_is_stored_does_not_wake_in_the_past(defined: str) -> None:
    text = f"{STREAM}\n{defined}\nfrom S#window.time(1) select sym output all every 1 milliseconds insert into Out;"
    apps = [Watched(checked_app(text)), Watched(checked_app(text), interpreted)]
    for one in apps:
        one.app.start(START_MS)
        one.begin()
        for time in (3, 7):  # from the first tick on it sleeps, as nothing came
            one.app.advance(START_MS + time)
    fresh = [Watched(checked_app(text)), Watched(checked_app(text), interpreted)]
    for one, before in zip(fresh, reversed(apps), strict=True):
        one.app.restore(before.app.snapshot())
        one.begin()
        # The time of the last tick has passed, so both go on together.
        one.app.approach(START_MS + 7)
        deliver_now(one.app, "S", [(START_MS + 7, row("a", 1.0))])
        one.run([(START_MS + 7, row("b", 1.0)), (START_MS + 60, row("c", 1.0))])
        told = [[sym for _, (sym, *_) in chunk] for stream, chunk in one.chunks if stream == "Out"]
        assert told[0] == ["a", "b"]
