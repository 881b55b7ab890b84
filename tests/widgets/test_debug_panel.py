"""The debugger as a panel: what it shows at each step, and that its buttons do what its methods do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from xml.etree import ElementTree

import pytest

import spdist
from spdist.errors import SpdistError
from spdist.panels import DebugPanel
from spdist.testing import VirtualApp

APP = """
@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
@info(name='warm') from every r=Readings[degrees > 30.0] -> not Readings[degrees < 20.0] for 10 sec
select r.room as room insert into Alerts;
from Readings#window.length(3) select room, avg(degrees) as mean insert into Means;
"""
READINGS = [(1000 * n, ("<attic>", 20.0 + 4 * n)) for n in range(6)]


@pytest.fixture
def panel() -> Iterator[DebugPanel]:
    with DebugPanel(spdist.run(APP, {"Readings": READINGS}, until=30_000)) as made:
        yield made


def test_it_shows_each_step_as_text_and_html(panel: DebugPanel) -> None:
    panel.step(4)
    text = str(panel)
    assert (
        text.splitlines()[0] == "Rooms: step 4 at 3,000 ms: 1 event of Readings, 1 event came out; 4 of 6 events sent"
    )
    assert "attempts warm: 1 row" in text
    html = panel.to_html()
    assert "<attic>" not in html
    assert "&lt;attic&gt;" in html
    assert "window query_2 length(3): 3 rows" in html
    picture = html[html.index("<svg") : html.index("</svg>") + 6]
    labels = [text.text for text in ElementTree.fromstring(picture) if text.get("text-anchor") == "end"]
    assert labels[:3] == ["Readings", "Means", "warm: not Readings for 10 sec"]


def test_it_goes_where_one_wants(panel: DebugPanel) -> None:
    alert = panel.run_until(stream="Alerts")
    assert alert is not None
    assert alert.clock == 13_000
    assert panel.back().number == alert.number - 1
    assert panel.seek(event=2).number == 2
    assert panel.run_until(when=lambda moment: moment.number > 99) is None
    assert panel.fetch().at_end


def test_a_test_app_has_a_debugger_too() -> None:
    app = VirtualApp(APP)
    app.send("Readings", "attic", 31.0, at=5)
    with DebugPanel(app) as panel:
        assert panel.step().given[0].row == ("attic", 31.0)


def test_the_buttons_do_what_the_methods_do(panel: DebugPanel, eventually: Callable[..., object]) -> None:
    buttons, slider, body = panel.widget().children
    back, step, play, run_to, target, _ = buttons.children

    def at(number: int) -> Callable[[], bool]:
        return lambda: panel.stepper.number == number and not panel.fetch().playing

    step.click()
    eventually(at(1), "one step was made")
    assert slider.max == 6
    slider.value = 4
    eventually(at(4), "the slider goes to an event")
    back.click()
    eventually(at(3), "one step was taken back")
    eventually(lambda: slider.value == 3, "the slider follows")
    assert set(target.options) <= {query.target for query in panel.stepper.log.checked.queries}, "what can come out"
    target.value = "Alerts"
    run_to.click()
    eventually(at(7), "something came out on Alerts")
    eventually(lambda: "step 7" in body.value, "the panel shows it")
    for number in (8, 9):
        run_to.click()
        eventually(at(number), "another alert came out")
    run_to.click()
    eventually(lambda: "nothing comes out on Alerts any more" in body.value, "that is said")
    slider.value = 0
    eventually(at(0), "it is at the start again")
    play.click()
    eventually(lambda: play.description == "Pause", "it plays")
    eventually(lambda: panel.stepper.number > 0, "it goes on by itself")
    play.click()
    eventually(lambda: play.description == "Play", "it has paused")


def test_what_is_asked_for_while_it_moves_comes_after_that(
    panel: DebugPanel, eventually: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    buttons, slider, _ = panel.widget().children
    step = buttons.children[1]
    moved, may_end = threading.Event(), threading.Event()
    refresh = panel.refresh

    def waits() -> bool:
        if threading.current_thread().name == "debugger" and not panel.fetch().playing:
            moved.set()
            may_end.wait()
        return refresh()

    monkeypatch.setattr(panel, "refresh", waits)
    step.click()
    assert moved.wait(60)
    slider.value = 4
    step.click()
    may_end.set()
    eventually(lambda: panel.stepper.number == 5, "the step, then the slider, then the step")
    eventually(lambda: slider.value == 5, "the slider follows")

    panel.play(speed=0.1)
    eventually(lambda: panel.fetch().playing, "it plays")
    slider.value = 1
    eventually(lambda: panel.stepper.number == 1 and not panel.fetch().playing, "a move ends what plays")


def test_playing_ends_at_the_end_and_can_pause(panel: DebugPanel, eventually: Callable[..., object]) -> None:
    panel.play(speed=1000)
    eventually(lambda: panel.fetch().at_end and not panel.fetch().playing, "it is through")
    panel.seek(number=0)
    panel.play(speed=0.5).pause()
    assert not panel.fetch().playing
    with pytest.raises(SpdistError, match="0 steps a second"):
        panel.play(speed=0)
