"""Damaged apps: each is read and checked, planned, explained, printed and run, or refused with a place; nothing else.

`make fuzz` does the same with a hundred thousand.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spdist.engine.local.app import LocalApp
from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from tests.properties import fuzz
from tests.properties.mutated_apps import Hang, damaged, trial

BLOCK = 1000
#: Seeds of which each app is run as well.
RUN = 300


@pytest.mark.parametrize("block", range(2))
def test_a_damaged_app_is_planned_explained_printed_and_run_in_bounded_time(block: int) -> None:
    outcomes = [trial(seed, seconds=30) for seed in range(block * RUN, (block + 1) * RUN)]
    assert outcomes.count("ran") > RUN / 20


def test_the_long_run_goes_on_where_it_was_left_and_tells_what_it_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fake(seed: int, seconds: float) -> str:
        if seed == 7:
            raise Hang(f"seed 7: longer than {seconds:g} s")
        return "ran"

    monkeypatch.setattr(fuzz, "trial", fake)
    kept = tmp_path / "fuzz.jsonl"
    assert fuzz.main(["--count", "20", "--block", "5", "--processes", "0", "--kept", str(kept)]) == 1
    assert "seed 7" in capsys.readouterr().out
    assert sorted(json.loads(line)["first"] for line in kept.read_text().splitlines()) == [0, 5, 10, 15]
    monkeypatch.setattr(fuzz, "trial", lambda seed, seconds: pytest.fail("all blocks were done"))
    assert fuzz.main(["--count", "20", "--block", "5", "--processes", "0", "--kept", str(kept)]) == 1
    assert "20 of 20" in capsys.readouterr().out


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
