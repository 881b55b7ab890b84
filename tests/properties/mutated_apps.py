"""Apps that were changed at random, and what is done with each: checked, planned, explained, printed, and run.

An app is refused with a place, or all of that ends within its time and raises nothing but errors of spdist's own. One
that runs gets random events: nulls, extremes, late ones.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from spdist.engine.island.time_limit import TookTooLong, time_limit
from spdist.engine.local.app import LocalApp
from spdist.engine.local.recorder import silenced
from spdist.errors import SiddhiAppError, SpdistError
from spdist.extension import catalog
from spdist.language.ast import StreamDefinition
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.format import format_app
from spdist.language.parsing.parser import parse
from spdist.language.types import Type
from spdist.planning.execution import explanation
from spdist.planning.groups import plan
from spdist.planning.pictures.graph import app_graph

__all__ = ["Defect", "Hang", "damaged", "trial"]

CASES = Path(__file__).parents[1] / "cases"
APPS = [
    json.loads(line)["app"] for file in sorted(CASES.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()
]
TOKENS = re.compile(r"\w+|\s+|\W")
PIECES = [TOKENS.findall(app) for app in APPS if len(app) < 1500]
_INSERTIONS = """; , -> ( ) [ ] # ! @ . : = == < > <2:3> + * ? ' ` -- /* { } ${X} select from every not within in and or
as of e1= end begin 5 5.5 9999999999 1e999 sec is null first " é \x00 -1 0 true insert into update set on table"""
INSERTED = _INSERTIONS.split()
#: Words of one kind: one may stand where another stood, and the app is often still an app.
KINDS = (
    ("string", "int", "long", "float", "double", "bool", "object"),
    ("==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"),
    ("and", "or"),
    ("sum", "avg", "min", "max", "count", "stdDev", "convert", "coalesce", "ifThenElse", "instanceOfString", "nothing"),
    ("length", "lengthBatch", "time", "timeBatch", "sort", "session", "batch", "delay", "cron", "weekly"),
    ("0", "1", "2", "-1", "5L", "1.5", "2.5f", "'a'", "true", "1 sec", "1 min", "99999999999L"),
)
_BEGIN_MS = 1_700_000_000_000
_VALUES: dict[Type, tuple[Any, ...]] = {
    Type.STRING: ("", "a", "b", "IBM", "é𝄞", "(a+)+$", "a" * 300, "2020-01-01", '{"a": [1]}'),
    Type.INT: (0, 1, 2, 7, -1, 2**31 - 1, -(2**31)),
    Type.LONG: (0, 1, 50, -1, _BEGIN_MS, 2**63 - 1, -(2**63)),
    Type.FLOAT: (0.0, 1.5, -2.5, math.nan, math.inf, -0.0),
    Type.DOUBLE: (0.0, 1.5, 1e308, -1e308, math.nan, -math.inf),
    Type.BOOL: (True, False),
    Type.OBJECT: ("o", 1, 2.5, True),
}
#: Between two events, ms; an hour of silence is rare. Patterns may keep a match for each 100 ms of it.
_STEPS = (0, 0, 1, 1, 10, 100, 1000, 5000, 60_000, -1000)
_RARE_STEP = 3_600_000
_ENOUGH = 50_000


class Defect(Exception):
    """An app that made something raise what is no error of spdist's, or an error without a place."""


class Hang(Exception):
    """An app with which something did not end in time."""


class _Enough(BaseException):
    """An app has put out so much that it is given up; no `Exception`, which the engine might take for an event's."""


def damaged(seed: int) -> str:
    """An app that was changed in a few places: mostly a word for another of its kind, sometimes anything."""
    draw = random.Random(seed)
    pieces = list(draw.choice(PIECES))
    other = draw.choice(PIECES)
    change = exchange_words if draw.random() < 0.7 else break_up
    for _ in range(draw.randint(1, 4)):
        change(draw, pieces, other)
    return "".join(pieces)


def exchange_words(draw: random.Random, pieces: list[str], other: list[str]) -> None:
    """Put a word of the same kind, or another name of the app, in the place of a word."""
    at = draw.choice([n for n, piece in enumerate(pieces) if piece.strip() and piece not in "();,'"] or [0])
    kinds = [kind for kind in KINDS if pieces[at] in kind]
    names = [piece for piece in pieces if piece.isidentifier()]
    pieces[at] = draw.choice(kinds[0] if kinds else KINDS[-1] if pieces[at].isdecimal() else names or ["x"])


def break_up(draw: random.Random, pieces: list[str], other: list[str]) -> None:
    """Take words out, double or exchange them, put some in, or take them from another app."""
    at, to = draw.randrange(len(pieces) + 1), draw.randrange(len(pieces) + 1)
    match draw.randrange(6):
        case 0:
            del pieces[at : at + draw.randint(1, 3)]
        case 1:
            del pieces[min(at, to) : max(at, to)]
        case 2:
            pieces.insert(at, f" {draw.choice(INSERTED)} ")
        case 3 if at < len(pieces) and to < len(pieces):
            pieces[at], pieces[to] = pieces[to], pieces[at]
        case 4:
            pieces[at:at] = pieces[to : to + 12]
        case _:
            start = draw.randrange(len(other))
            pieces[at : at + 5] = other[start : start + 5]


@silenced()  # events on which a query fails are logged, each with a traceback: here there are many
def trial(seed: int, seconds: float = 10.0) -> str:
    """Do everything with one app, each step within `seconds`, and return what became of it.

    Returns
    -------
    str
        ``refused``, ``checked`` where the engine does not run it, ``ran``.

    Raises
    ------
    Defect, Hang
        Say which step, and show the app.
    """
    text = damaged(seed)

    def step(name: str, work: Callable[[], Any]) -> Any:
        try:
            with time_limit(seconds):
                return work()
        except SiddhiAppError as error:
            for one in error.errors:
                if one.span is None or not 0 <= one.span.start <= one.span.end <= len(text) or not one.message:
                    raise Defect(f"seed {seed}, {name}: no place in {one!r}\n{text}") from error
            return None
        except SpdistError as error:
            raise Defect(f"seed {seed}, {name}: {type(error).__name__}: {error}\n{text}") from error
        except TookTooLong:
            raise Hang(f"seed {seed}, {name}: longer than {seconds:g} s\n{text}") from None
        except Exception as error:
            raise Defect(f"seed {seed}, {name}: {type(error).__name__}: {error}\n{text}") from error

    known = catalog()
    app = step("parse", lambda: parse(text))
    checked = app and step("check", lambda: check(app, known, text))
    if checked is None:
        return "refused"
    printed = step("format", lambda: format_app(app))
    if printed is not None and step("read again", lambda: parse(printed)) != app:
        raise Defect(f"seed {seed}: what is printed means something else\n{text}\n{printed}")
    step("graph", lambda: app_graph(checked).to_text())
    step("explain", lambda: explanation(checked, known, text).to_text())
    step("plan", lambda: _planned(checked, printed or text))
    built = step("build", lambda: LocalApp(checked))
    if built is None:
        return "checked"
    step("run", lambda: _run(built, checked, random.Random(seed)))
    return "ran"


def _planned(checked: CheckedApp, text: str) -> None:
    app = parse(text if checked.app.name else f"@app:name('A')\n{text}")
    try:
        plan(app, check(app, catalog())).assignments()
    except SiddhiAppError:
        return  # places are those of another text


def _run(app: LocalApp, checked: CheckedApp, draw: random.Random) -> None:
    """Send random events, and look whether a snapshot can be taken and restored.

    An app that puts out tens of thousands of events, as one does that fires each ms of an hour, is given up: it takes
    its time for what it was asked for.
    """
    streams = [one for one in checked.app.definitions if isinstance(one, StreamDefinition)]
    with suppress(_Enough):
        _send(app, checked, streams, draw)


def _counted(app: LocalApp, checked: CheckedApp) -> LocalApp:
    """Return `app`, which raises `_Enough` where it has put out so much."""
    left = iter(range(_ENOUGH))

    def count(_at: int, _row: object) -> None:
        if next(left, None) is None:
            raise _Enough

    for stream in checked.streams:
        app.subscribe(stream, count)
    return app


def _send(app: LocalApp, checked: CheckedApp, streams: list[StreamDefinition], draw: random.Random) -> None:
    if not streams:
        return
    app = _counted(app, checked)
    app.start(_BEGIN_MS)
    time, half = _BEGIN_MS, draw.randrange(20, 40)
    for number in range(60):
        time += _RARE_STEP if draw.random() < 0.01 else draw.choice(_STEPS)
        stream = draw.choice(streams)
        row = tuple(None if draw.random() < 0.1 else draw.choice(_VALUES[kind]) for kind in stream.schema.types)
        app.send(stream.name, max(time, 0), row)
        if number == half:
            kept, app = app.snapshot(), _counted(LocalApp(checked), checked)
            app.restore(kept)
    app.advance(time + 60_000)
