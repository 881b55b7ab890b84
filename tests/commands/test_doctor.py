"""``spdist doctor`` as people and scripts call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spdist.__main__ import app

CONF = Path(__file__).parents[2] / "conf"


def test_it_says_what_it_has_looked_at_and_ends_with_0_where_nothing_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"NODE_ID": "w", "PORT": "0", "HOME": str(tmp_path), "PASSWORD": "p"}.items():
        monkeypatch.setenv(f"SPDIST_{name}", value)
    monkeypatch.setenv("SPDIST_MANAGERS", "http://127.0.0.1:1")
    done = CliRunner().invoke(app, ["doctor", "--conf", str(CONF / "local" / "worker.yaml")])
    assert done.exit_code == 0, done.output
    for what in ("packages", "java", "settings", "listener", "topics", "memory", "state", "managers"):
        assert what in done.output
    assert "→ a worker goes on trying" in done.output


def test_settings_that_cannot_be_read_are_a_finding_and_exit_code_1(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text("wso2.carbon:\n  identity: 7\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["doctor", "--conf", str(file), "--json"])
    assert done.exit_code == 1
    settings = next(one for one in json.loads(done.stdout) if one["what"] == "settings")
    assert settings["level"] == "failed"
    assert "identity" in settings["found"]
