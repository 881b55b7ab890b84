"""The long run over random programs finds what differs; `make fuzz-programs` does it with ten thousand apps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from spdist.program import aggregators
from tests.properties import fuzz_programs
from tests.properties.fuzz_programs import KINDS, trial

#: Seeds of each kind of app.
EACH = 3


def test_programs_do_what_operators_do() -> None:
    outcomes = [trial(seed) for seed in range(EACH * len(KINDS))]
    assert outcomes.count("interpreted") > len(outcomes) / 2


def test_a_program_that_counts_wrongly_is_found_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = replace(aggregators._COUNT, add=("{0} += 2",))
    count, kept = str(EACH * len(KINDS)), str(tmp_path / "kept.jsonl")
    with patch.object(aggregators, "_COUNT", wrong):
        given = ["--count", count, "--processes", "0", "--compiled", "0", "--kept", kept]
        assert fuzz_programs.main(given) == 1
    assert "count()" in capsys.readouterr().out
