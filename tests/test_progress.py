"""Progress is told where somebody sees it, for what takes long, and leaves one line."""

from __future__ import annotations

import io
from typing import Any

import pytest

import spdist
from spdist.display import bar_html
from spdist.progress import ProgressBar

APP = "define stream S (v int); from S select v insert into Out;"
EVENTS = {"S": [(n, (n,)) for n in range(5_000)]}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The time as progress sees it: a second later each time one looks."""
    now = {"s": 0.0, "step": 1.0}

    def monotonic() -> float:
        now["s"] += now["step"]
        return now["s"]

    for module in ("spdist.progress", "spdist.line"):
        monkeypatch.setattr(f"{module}.time.monotonic", monotonic)
    return now


def bar_of(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, wanted: bool | None) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    with ProgressBar(3_000, "events", wanted) as bar:
        for done in (1_000, 2_000, 3_000):
            bar.show(done)
    return stream.getvalue()


def test_a_file_is_told_nothing_unless_that_is_wanted(monkeypatch: pytest.MonkeyPatch, clock: dict[str, float]) -> None:
    clock["step"] = 10
    assert bar_of(monkeypatch, io.StringIO(), None) == ""
    lines = bar_of(monkeypatch, io.StringIO(), True).splitlines()
    assert lines[0].startswith("1,000 of 3,000 events, ")
    assert lines[0].endswith(" left")
    assert lines[-1].startswith("3,000 events in ")


def test_a_terminal_shows_a_bar_while_it_lasts(monkeypatch: pytest.MonkeyPatch, clock: dict[str, float]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = bar_of(monkeypatch, Terminal(), None)
    assert "1000/3000" in shown
    assert "events" in shown
    assert "\x1b[2K" in shown.splitlines()[-1], "at the end it is taken away"
    assert bar_of(monkeypatch, Terminal(), False) == ""


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch, clock: dict[str, float]) -> None:
    clock["step"] = 0.01
    assert bar_of(monkeypatch, Terminal(), True) == bar_of(monkeypatch, io.StringIO(), True) == ""


def test_a_run_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, clock: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[int] = []
    show = ProgressBar.show
    monkeypatch.setattr(ProgressBar, "show", lambda self, done: (told.append(done), show(self, done))[1])
    quiet = spdist.run(APP, EVENTS)
    assert told == [2_000, 4_000, 5_000]
    assert capsys.readouterr() == ("", "")
    clock["step"] = 11
    assert spdist.run(APP, EVENTS, progress=True) == quiet
    out, err = capsys.readouterr()
    assert out == ""
    assert "2,000 of 5,000 events" in err
    assert err.splitlines()[-1].startswith("5,000 events in ")


def test_a_run_that_fails_does_not_say_that_it_is_done(
    monkeypatch: pytest.MonkeyPatch, clock: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no")

    clock["step"] = 11
    with pytest.raises(RuntimeError), ProgressBar(10, "events", True) as bar:
        bar.show(5)
        broken()
    assert [line.split(",")[0] for line in capsys.readouterr().err.splitlines()] == ["5 of 10 events"]


@pytest.mark.parametrize(
    ("share", "width"), [(0, "0.0%"), (0.255, "25.5%"), (1, "100.0%"), (7, "100.0%"), (-1, "0.0%")]
)
def test_a_bar_is_as_wide_as_its_share_and_escapes_its_text(share: float, width: str) -> None:
    html = bar_html(share, "<b>")
    assert f"width:{width}" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
