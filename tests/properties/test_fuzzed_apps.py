"""Ten thousand damaged apps: each is read and checked, or refused with a place; nothing else ever happens."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from spdist.engine.local import LocalApp
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checked import CheckedApp
from spdist.language.checker import check
from spdist.language.parser import parse

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
BLOCK = 1000


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


@pytest.mark.parametrize("block", range(10))
def test_a_damaged_app_is_checked_or_refused_with_its_place(block: int) -> None:
    signatures = catalog()
    built = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        text = damaged(seed)
        try:
            checked = check(parse(text), signatures, text)
        except SiddhiAppError as error:
            for one in error.errors:
                assert one.span is not None, (seed, one.message, text)
                assert 0 <= one.span.start <= one.span.end <= len(text), (seed, one.message, text)
                assert one.message, (seed, text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
        else:
            build(checked, seed, text)
            built += 1
    assert built > BLOCK / 20, "hardly any app survives: the damage is too great to reach the checker"


def build(checked: CheckedApp, seed: int, text: str) -> None:
    """What was checked can be built, or is refused as not run, with its place."""
    try:
        LocalApp(checked)
    except SiddhiAppError as error:
        assert all(one.span is not None for one in error.errors), (seed, error.message, text)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}\n{text}") from error
