"""Who runs an app: its operators until its program is there, then that; and they again where it cannot go on."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pytest

from spdist.engine.programs import programmed
from spdist.operators.core.junction import StreamPart
from spdist.program.expressions import NotTyped
from spdist.program.machine.compiler import Compiled, compile_after, interpreted
from spdist.program.parts import Program
from spdist.program.queries import group_text
from spdist.program.running import forgetting
from spdist.program.shape import shape_of
from spdist.program.text import written
from tests.engine.one_chunk import deliver_now
from tests.program.drawn_apps import START_MS, STREAM
from tests.program.test_program_laws import alike
from tests.program.watched import Watched, checked_app

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in scalar")

AVERAGES = f"""{STREAM}
from S#window.length(2) select sym, avg(price) as a group by sym insert into Mid;
from Mid[a > 0.0] select * insert into Out;"""


def row(sym: str, price: Any) -> tuple[Any, ...]:
    return (sym, "k", price, 0.5, 1, 2, True)


def started(text: str) -> tuple[Watched, Watched]:
    """The same app twice, run by its operators and by its program."""
    plain, other = Watched(checked_app(text)), Watched(checked_app(text), interpreted)
    for one in (plain, other):
        one.begin()
        one.app.start(START_MS)
    return plain, other


class _Later:
    """A program that is compiled when somebody says so."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.started = 0
        self.done: Compiled | None = None

    def start(self) -> None:
        self.started += 1

    def ready(self) -> Compiled | None:
        return self.done

    loaded = ready


def test_an_app_is_compiled_once_it_has_processed_enough_and_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programmed, "Compiling", _Later)
    monkeypatch.setenv("SPDIST_COMPILE_AFTER", "6")
    plain, other = Watched(checked_app(AVERAGES)), Watched(checked_app(AVERAGES), interpreted)
    time, starts, active = START_MS, [], []
    for one in (plain, other):
        one.app.start(time)
    own = other.app.programmed
    assert own is not None
    for step in range(6):
        events = [(time + n, row("ab"[(step + n) % 2], float(n))) for n in range(3)]
        time += 3
        plain.run(events)
        own.begins()
        if not own.active:
            times = numpy.array([timestamp for timestamp, _ in events])
            other.app.deliver_one_by_one({"S": StreamPart(times, numpy.arange(3), [one for _, one in events])})
        else:
            other.run(events)
        compiling = own.compile()
        assert isinstance(compiling, _Later)
        starts.append(compiling.started)
        active.append(own.active)
        if step == 3:
            compiling.done = interpreted(compiling.program)
    assert starts[:3] == [0, 0, 1], "the third batch is the first one that finds six events processed"
    assert active == [False, False, False, False, True, True]
    assert other.chunks == plain.chunks


@pytest.mark.parametrize(
    ("given", "after"), [(None, 20_000), ("0", 0), ("7", 7), ("never", None), ("-1", 20_000), ("soon", 20_000)]
)
def test_the_environment_says_when_an_app_is_compiled(
    given: str | None, after: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("SPDIST_COMPILE_AFTER", raising=False)
    if given is not None:
        monkeypatch.setenv("SPDIST_COMPILE_AFTER", given)
    assert compile_after() == after
    assert ("SPDIST_COMPILE_AFTER is a number of events, or never" in caplog.text) == (given in ("-1", "soon"))


def test_where_it_says_never_no_program_runs_an_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDIST_COMPILE_AFTER", "never")
    app = Watched(checked_app(AVERAGES), interpreted)
    app.app.start(START_MS)
    own = app.app.programmed
    assert own is not None
    assert not own.begins()
    assert (own.active, own.reason) == (False, "SPDIST_COMPILE_AFTER says never")


def test_a_value_of_another_type_brings_the_operators_back(caplog: pytest.LogCaptureFixture) -> None:
    plain, other = started(AVERAGES)
    events = [(START_MS + n, row("a", price)) for n, price in enumerate([1.0, 2.0, 3, 4.0])]
    for one in (plain, other):
        for event in events:
            one.chunk([event], event[0])
    assert other.chunks == plain.chunks
    own = other.app.programmed
    assert own is not None
    assert (own.active, own.reason) == (False, "a value is not of its type")
    assert "the compiled program is not used any more: a value is not of its type" in caplog.text
    assert not own.begins(), "it is not used again"


def test_so_does_a_run_that_has_one() -> None:
    plain, other = started(AVERAGES)
    events = [(START_MS + n, row("a", price)) for n, price in enumerate([1.0, 2, 3.0])]
    plain.run(events)
    times = numpy.array([timestamp for timestamp, _ in events])
    part = StreamPart(times, numpy.arange(3), [one for _, one in events])
    assert not other.app.deliver_columns({"S": part}), "nothing has changed"
    other.app.deliver_one_by_one({"S": part})
    assert other.chunks == plain.chunks


def test_what_is_fed_between_two_queries_brings_the_operators_back() -> None:
    plain, other = started(AVERAGES)
    for one in (plain, other):
        one.chunk([(START_MS, row("a", 1.0))], START_MS)
        deliver_now(one.app, "Mid", [(START_MS, ("b", 7.0))])
        one.chunk([(START_MS, row("a", 2.0))], START_MS)
    assert other.chunks == plain.chunks
    assert other.app.programmed is not None
    assert other.app.programmed.reason == "the stream Mid is fed from outside"


def test_it_holds_what_the_windows_hold() -> None:
    plain, other = started(f"{STREAM} from S#window.time(10) select sym, sum(total) as t insert into Out;")
    events = [(START_MS + n, row("a", 1.0)) for n in range(25)]
    for one in (plain, other):
        one.run(events)
    assert other.app.held_rows() == plain.app.held_rows() == 10


def test_texts_that_nobody_has_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FEW", 4)
    monkeypatch.setattr(group_text, "MOST_WAITING", 2)
    text = f"""{STREAM}
    from S#window.length(3) select sym, kind, count() as n, max(price) as p group by sym, kind insert into Out;
    partition with (sym of S) begin
    from S#window.time(50) select kind, avg(rate) as r group by kind insert into Out2; end;"""
    assert alike(checked_app(text), Random(5), interpreted, steps=60) > 200
    app = Watched(
        checked_app(f"{STREAM} from S#window.length(3) select count() as n group by sym insert into Out;"), interpreted
    )
    app.begin()
    app.app.start(START_MS)
    for number in range(200):
        app.chunk([(START_MS + number, row(f"text {number}", 1.0))], START_MS + number)
    assert app.app.programmed is not None and app.app.programmed.running is not None
    assert len(app.app.programmed.running.texts) < 20


@pytest.mark.parametrize(
    ("queries", "reason"),
    [
        (
            "@PrimaryKey('more') define table T (sym string, more object); from S select sym delete T on T.sym == sym;",
            "the table 'T', whose primary key has an object",
        ),
        (
            "define table T (price float); from S select price update T set T.price = price on true;",
            "a value of double as float",
        ),
        (
            "@PrimaryKey('sym') define table T (sym string, n int); "
            "from S select sym, volume as n update T set T.sym = 'x' on T.n == n;",
            "an update that may change several primary keys",
        ),
        (
            "@PrimaryKey('n') define table T (n long); from S#window.length(2) select count() as n insert into T;",
            "a primary key that may be null",
        ),
        ("from S select * insert into Mid; from Mid#window.sort(3, price) select sym insert into Out;", "may be null"),
        ("from S#window.unique:time(sym, 0) select sym insert into Out;", "the window unique:time"),
        ("from S select coalesce(ok, ok) as t insert into Mid; from Mid select and(t) as n insert into Out;",
         "the aggregator and() of what may be null"),
        ("from S select math:rand() as p insert into Out;", "the function math:rand()"),
        (
            "from S as l join S#window.length(2) as r on l.ok == r.ok select distinctCount(r.sym) as n insert into O;",
            "the aggregator distinctCount() of what does not come and leave once each",
        ),
        (
            "from a=S<2:> -> every not S[ok] for 1 sec -> b=S select b.sym insert into Out;",
            "a repetition of what a counted element still collects for",
        ),
        (
            "from S#window.length(3) select max(eventTimestamp() % 7) as t insert into Out;",
            "the time of an event in an aggregator",
        ),
        (
            "from S#window.length(3)[eventTimestamp() > 3L] select sym insert into Out;",
            "the time in a filter behind a window",
        ),
        (
            "define table T (n int); from S#window.length(3)[(T.n == volume) in T] select sym insert into Out;",
            "'in' of a table in a filter behind a window",
        ),
        (
            "from S#window.lengthBatch(3, true)[str:upper(sym) == 'A'] select count() as n insert into Out;",
            "totals behind a filter with functions behind such a window",
        ),
        (
            "from every a=S and b=S[ok] within 1 sec select a.sym output snapshot every 3 sec insert into Out;",
            "a snapshot of what may be too old",
        ),
        (
            "@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (sym of S) begin "
            "from S#window.timeBatch(1 sec) select sym insert into Out; end;",
            "a window whose period is one for all keys, in a partition with @purge",
        ),
        (
            "@purge(enable='true', interval='1 sec', idle.period='1 sec') partition with (sym of S) begin "
            "from S as a join S#window.timeBatch(1 sec) as b select a.sym insert into Out; end;",
            "a window whose period is one for all keys, in a partition with @purge",
        ),
        ("from S select cast(price, 'int') as p insert into Out;", "the function cast()"),
        ("from S select ok and sum(total) > 3 as t insert into Out;", "an aggregator that is asked for some events"),
        ("from S select sym insert into Mid; from Mid select sym insert into Out; from Out select sym insert into Mid;",
         "streams that read what they have written themselves"),
    ],
)  # fmt: skip
def test_what_has_no_typed_form_is_named(queries: str, reason: str) -> None:
    with pytest.raises(NotTyped) as found:
        written(shape_of(checked_app(f"{STREAM} {queries}")), ("Out",))
    assert reason in found.value.reason


def test_without_numba_the_operators_run_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programmed, "is_available", lambda: False)
    app = Watched(checked_app(AVERAGES), interpreted)
    app.app.start(START_MS)
    own = app.app.programmed
    assert own is not None
    assert not own.begins()
    assert (own.active, own.reason) == (False, "numba is not installed")


def test_a_defect_of_the_writer_leaves_the_app_to_its_operators(
    monkeypatch: pytest.MonkeyPatch, unwritten_programs: list[str]
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr("spdist.program.forms.written", broken)
    app = Watched(checked_app(f"{STREAM} from S select sym insert into Out;"), interpreted)
    assert app.app.programmed is not None
    assert app.app.programmed.compile() is None
    assert "could not be written: KeyError('a defect')" in app.app.programmed.reason
    assert len(unwritten_programs) == 1
    unwritten_programs.clear()


def test_time_passes_in_steps_that_a_program_can_go() -> None:
    """Where the clock goes far operators skip most waits of an absence: an idle app is woken before that."""
    plain, other = started(
        f"{STREAM} from every e1=S[price > 1.0], not S[price > 2.0] for 5 sec select e1.sym insert into Out;"
    )
    assert plain.app.next_timer is None
    step = other.app.next_timer
    assert step is not None
    other.app.advance(step)
    assert other.app.programmed is not None
    assert other.app.programmed.active
    other.app.advance(2 * step)
    assert not other.app.programmed.active
    assert other.app.next_timer is None


def test_zeros_of_both_signs_are_two_keys_of_a_window_in_a_state() -> None:
    text = f"{STREAM} from S#window.unique:timeBatch(price, 700) select price insert into Out;"
    plain, other = started(text)
    for one in (plain, other):
        one.run([(START_MS + n, row("a", price)) for n, price in enumerate((0.0, -0.0, 1.0, 0.0))])
    fresh = Watched(checked_app(text))
    fresh.app.restore(other.app.snapshot())
    for one in (plain, fresh):
        one.app.advance(START_MS + 2000)
    assert fresh.chunks == plain.chunks
    assert sorted(repr(price) for _, chunk in fresh.chunks for _, (price,) in chunk) == ["-0.0", "0.0", "1.0"]
