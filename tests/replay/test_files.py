"""Files of cases: one result per line, in order, whatever happens in one of them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spdist.__main__ import app
from spdist.extension import function, signature
from spdist.language.types import Type
from spdist.replay.files import CaseLine, CaseResult, read_cases, replay, replay_line

APP = "define stream S (v int); from S[v > 1] select v insert into Out;"


@function("replaytest:slow", signature("replaytest:slow", ((Type.INT,), Type.INT)))
def slow(value: int) -> int:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        pass
    return value


def line(name: str, **case: Any) -> CaseLine:
    steps = [{"stream": "S", "timestamp": 5, "data": [2]}]
    return CaseLine(name, json.dumps({"name": name, "app": APP, "events": steps, "observe": ["Out"]} | case))


BAD = [
    CaseLine("f:1", "{not json"),
    CaseLine("f:2", "[1]"),
    line("no app", app=None),
    line("wrong row", events=[{"stream": "S", "timestamp": 5, "data": []}]),
    line("no stream", events=[{"stream": "Nope", "timestamp": 5, "data": [1]}]),
    line("no step", events=[{"jump": 5}]),
    line("no time", events=[{"stream": "S", "data": [1]}]),
    line("syntax", app="define stream S"),
]


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_line_has_its_result_in_order(jobs: int) -> None:
    lines = [line(f"good {n}") if n % 3 else BAD[n % len(BAD)] for n in range(60)]
    results = [json.loads(result.text) for result in replay(lines, jobs)]
    assert [result["name"] for result in results] == [one.name for one in lines]
    for one, result in zip(lines, results, strict=True):
        if one.name.startswith("good"):
            assert result["streams"] == {"Out": [{"timestamp": 5, "data": [2], "i": 0}]}
        else:
            assert set(result["error"]) >= {"type", "category", "message"}


def test_a_case_that_takes_too_long_is_given_up() -> None:
    given = line("slow", app="define stream S (v int); from S select replaytest:slow(v) as v insert into Out;")
    began = time.monotonic()
    assert replay_line(given, limit_s=0.2)["error"]["type"] == "TimeoutError"
    assert time.monotonic() - began < 10


def test_a_case_that_ends_its_process_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Processes are started anew: this module, which they import for the function they work for, ends one of them.
    monkeypatch.setattr("spdist.replay.files._replay_piece", dying_piece)
    lines = [line(f"good {n}") for n in range(5)]
    lines[3] = line("deadly")
    results = [json.loads(result.text) for result in replay(lines, 2)]
    assert [result["name"] for result in results] == [one.name for one in lines]
    assert [result["name"] for result in results if "error" in result] == ["deadly"]


def dying_piece(lines: list[CaseLine]) -> list[CaseResult]:
    if any(one.name == "deadly" for one in lines):
        os._exit(3)
    return list(replay(lines))


def test_the_command_writes_one_line_per_case(tmp_path: Path) -> None:
    path, out = tmp_path / "cases.jsonl", tmp_path / "out.jsonl"
    path.write_text("\n\n".join([line("a").text, BAD[0].text, line("b").text]) + "\n", encoding="utf-8")
    assert [one.name for one in read_cases(path)] == ["cases.jsonl:1", "cases.jsonl:3", "cases.jsonl:5"]
    done = CliRunner().invoke(app, ["replay", str(path), "--out", str(out)])
    assert done.exit_code == 1, "one of the lines is no case"
    assert "1 of 3 lines are no cases" in done.stderr
    assert "3 cases" in done.stderr
    names = [json.loads(text)["name"] for text in out.read_text(encoding="utf-8").splitlines()]
    assert names == ["a", "cases.jsonl:3", "b"]
    shown = CliRunner().invoke(app, ["replay", str(path)])
    assert shown.stdout == out.read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_ends_of_lines_end_a_line(tmp_path: Path, end: str) -> None:
    path = tmp_path / "cases.jsonl"
    texts = [json.dumps({"name": f"a{mark}b"}, ensure_ascii=False) for mark in "\u2028\u2029\x85"]
    path.write_bytes(end.join([*texts, ""]).encode())
    assert [one.text for one in read_cases(path)] == texts


def test_an_app_that_is_refused_is_a_result(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(line("refused", app="define strem S (v int);").text, encoding="utf-8")
    done = CliRunner().invoke(app, ["replay", str(path)])
    assert (done.exit_code, json.loads(done.stdout)["error"]["category"]) == (0, "syntax")


def test_the_command_explains_what_it_cannot_do(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(line("a").text, encoding="utf-8")
    nowhere = CliRunner().invoke(app, ["replay", str(path), "--out", str(tmp_path / "missing" / "out.jsonl")])
    assert (nowhere.exit_code, "cannot write" in nowhere.output) == (2, True)
    missing = CliRunner().invoke(app, ["replay", str(tmp_path / "cases.jsonl")])
    assert missing.exit_code == 2
