"""One line of output that is rewritten in place."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from spdist.line import Line, running_kernel


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


def test_what_it_says_stands_in_the_place_of_what_it_said() -> None:
    line = Line(terminal := Terminal())
    for text in ("1 of 100", "1 of 100", "done"):
        line.show(text)
    line.end()
    assert terminal.getvalue() == "\r1 of 100\rdone    \n"


def test_a_file_is_told_rarely_and_how_it_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("spdist.line.time.monotonic", lambda: now_s)
    line = Line()
    for second in range(25):
        now_s = 100.0 + second
        line.show(f"{second} s")
    line.end()
    assert capsys.readouterr().out == "0 s\n10 s\n20 s\n24 s\n"


def test_a_file_is_not_told_at_the_end_what_no_longer_holds(capsys: pytest.CaptureFixture[str]) -> None:
    line = Line()
    for text in ("1", "2", "1"):
        line.show(text)
    line.end()
    assert capsys.readouterr().out == "1\n"


def test_a_line_that_has_said_nothing_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    Line().end()
    Line(terminal := Terminal()).end()
    assert capsys.readouterr().out == terminal.getvalue() == ""


def test_in_a_terminal_it_is_no_wider_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((20, 10)))
    Line(terminal := Terminal()).show("x" * 50)
    assert terminal.getvalue() == "\r" + "x" * 19


def test_a_script_has_no_kernel_and_loads_no_ipython_for_that() -> None:
    assert running_kernel() is None
    code = "import sys; from spdist.line import running_kernel; print(running_kernel(), 'IPython' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None False\n"
