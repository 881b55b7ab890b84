"""A revision of an app is one moment of all its groups, and what they do after it begins there, whatever came since."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from spdist.language.types import Schema
from tests.runtime.apps_by_hand import App

EVENT = Schema.of([("k", "string"), ("n", "long")])
TOTAL = Schema.of([("k", "string"), ("total", "long")])

# What `sums` puts out depends on when it heard of an event: a late one is in the next window. `totals` can be split.
TEXT = """@app:name('Cut')
define stream In (k string, n long);
define stream Mid (k string, s long);
define stream Out (k string, total long);
@sink(type='log') define stream End (total long);
@info(name='sums') @dist(execGroup='sums')
from In#window.timeBatch(1 sec) select k, sum(n) as s group by k insert into Mid;
@dist(execGroup='total') partition with (k of Mid) begin
@info(name='total') from Mid select k, sum(s) as total insert into Out;
end;
@info(name='end') @dist(execGroup='end') from Out select total insert into End;
"""
#: The same with another query in the first two groups.
UPDATED = (
    TEXT.replace("@sink", "define stream Large (n long);\n@sink", 1)
    + """
@info(name='large') @dist(execGroup='sums') from In[n > 1000] select n insert into Large;
@info(name='larger') @dist(execGroup='total') from Mid[s > 1000] select s as n insert into Large;
"""
)
SUMS, TOTALS, END = "Cut-sums-1", "Cut-total-1", "Cut-end-1"


@pytest.fixture(autouse=True)
def no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _handle: None)


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path, TEXT)


class Steps:
    """An app, and what is done with it, at times that go on."""

    def __init__(self, app: App) -> None:
        self.app, self.now, self.fed = app, 10_000, 0

    def feed(self, number: int, late_by: int = 0) -> None:
        self.app.feed("In", EVENT, (self.now - late_by, ("ab"[number % 2], number)))
        self.fed += number

    def run(self, ms: int, names: tuple[str, ...] = (SUMS, TOTALS, END)) -> None:
        self.now += ms
        for name in names:
            self.app.groups[name].run(self.now)

    def last_total(self) -> int:
        """What the last group hears when all that was fed is through, and more than was put out before any restore."""
        for _ in range(30):
            self.feed(1)
            self.feed(2)
            self.run(1000)
        for _ in range(2):
            self.run(1000)
        return sum(dict(self.totals()).values())

    def totals(self) -> list[tuple[Any, ...]]:
        """What readers outside see, who drop repeats."""
        (read,) = self.app.assignments[END].inputs
        return self.app.rows(read.topic, TOTAL)


def test_what_was_put_out_after_the_revision_is_not_read_by_those_that_went_back(app: App) -> None:
    steps = Steps(app)
    steps.run(0)
    steps.feed(1)
    steps.run(1300)
    app.backup("1__Cut")
    steps.feed(2)
    steps.run(1200)
    steps.feed(4, late_by=600)  # too late for the window of the 2; after a restore it is not
    steps.run(100)
    steps.run(1400)
    assert steps.totals() == [("b", 1), ("a", 2), ("a", 6)]
    app.restore("1__Cut")
    steps.run(10_000)
    steps.feed(8)
    steps.run(1000)
    steps.run(1000)
    assert steps.last_total() == steps.fed


def test_a_group_is_kept_after_those_that_read_of_it(app: App) -> None:
    assert app.levels == [[SUMS], [TOTALS], [END]]
    steps = Steps(app)
    steps.run(0)
    steps.feed(1)
    steps.run(1300)

    def goes_on() -> None:
        steps.feed(2)
        steps.run(1200)
        steps.feed(4, late_by=600)
        steps.run(100)
        steps.run(1400)

    app.backup("1__Cut", between=goes_on)
    app.restore("1__Cut")
    steps.run(10_000)
    assert steps.last_total() == steps.fed


def test_writes_on_demand_are_read_again_after_a_restore(tmp_path: Path) -> None:
    app = App(
        tmp_path,
        """@app:name('Kept') define stream In (k string, n long); @PrimaryKey('k') define table T (k string, n long);
        from In select k, n update or insert into T set T.n = n on T.k == k;""",
    )
    (name,) = app.assignments
    rows = "from T select k, n order by k"

    def feed(*events: tuple[str, int]) -> None:
        app.feed("In", EVENT, *[(1000, event) for event in events])

    feed(("a", 1), ("b", 2))
    assert app.ask(name, rows, 1000) == [["a", 1], ["b", 2]]
    app.backup("1__Kept")
    app.ask(name, "delete T on T.k == 'a'", 2000)
    feed(("b", 3))
    app.ask(name, "update T set T.n = 20 on T.k == 'b'", 3000)
    feed(("c", 4))
    assert app.ask(name, rows, 4000) == [["b", 20], ["c", 4]]
    app.restore("1__Kept")
    # The revision alone has 'a': what was written after it comes again, as events do, and so the same rows.
    assert app.ask(name, rows, 5000) == [["b", 20], ["c", 4]]
    app.ask(name, "select 'a' as k, 1L as n insert into T", 6000)
    assert app.ask(name, rows, 7000) == [["a", 1], ["b", 20], ["c", 4]], "another write takes a wrong one back"


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("text", [TEXT, UPDATED], ids=["same text", "another text"])
def test_it_is_so_where_shards_or_the_text_are_others_now(app: App, text: str, shards: int) -> None:
    steps = Steps(app)
    steps.run(0)
    steps.feed(1)
    steps.feed(2)
    steps.run(1300)
    app.backup("1__Cut")
    steps.feed(4)
    steps.run(1200)
    app.deploy(text, shards)
    steps.feed(8, late_by=600)
    steps.run(100)
    steps.run(1400)
    app.restore("1__Cut")
    steps.run(10_000)
    steps.feed(16)
    steps.run(1000)
    assert steps.last_total() == steps.fed


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_counted_twice_wherever_groups_are(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    app = App(tmp_path, TEXT, draw.choice([1, 2, 5, 1000]), draw.choice([1, 2]))
    steps = Steps(app)

    def goes_on() -> None:
        for _ in range(draw.randrange(6)):
            if draw.random() < 0.6:
                steps.feed(draw.randrange(1, 100), late_by=draw.randrange(1500))
            names = tuple(name for name in (SUMS, TOTALS, END) if draw.random() < 0.7)
            steps.run(draw.randrange(1, 1200), names)
            if draw.random() < 0.05:
                app.deploy(TEXT, draw.choice([1, 2]))
            elif draw.random() < 0.1:
                app.start(draw.choice([SUMS, TOTALS, END]))

    steps.run(0)
    kept: list[str] = []
    for number in range(1, 5):
        goes_on()
        if kept and draw.random() < 0.5:
            app.restore(draw.choice(kept))
        goes_on()
        app.backup(f"{number}__Cut", between=draw.choice([goes_on, lambda: None]))
        kept.append(f"{number}__Cut")
    app.restore(draw.choice(kept))
    goes_on()
    assert steps.last_total() == steps.fed
