"""The log of a node: as text, as JSON, in memory; what a record is about, and what it never says."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spdist.logs import JsonFormatter, Mask, RecordRing, TextFormatter, about

ROOT = Path(__file__).parents[1]
MASK = Mask(["pa55-word", "pa55-word-longer", "ab"])
_log = logging.getLogger("spdist.test")


@pytest.fixture
def ring() -> Iterator[RecordRing]:
    ring = RecordRing("node-1", MASK, 5)
    ring.attach()
    yield ring
    ring.detach()


def test_a_line_of_json_says_when_what_where_and_about_what() -> None:
    record = logging.LogRecord("spdist.x", logging.WARNING, __file__, 1, "%s is “slow”\nhere", ("A",), None)
    record.app = "A"
    with about(app="other", group="A-g-1", term=7):
        line = JsonFormatter("node-1", MASK).format(record)
    assert "\n" not in line
    known = json.loads(line)
    told = datetime.fromisoformat(known.pop("time"))
    assert told.utcoffset() == timedelta(0) and abs(datetime.now(UTC) - told) < timedelta(minutes=1)
    assert known == {
        "level": "WARNING",
        "logger": "spdist.x",
        "message": "A is “slow”\nhere",
        "node": "node-1",
        "app": "A",
        "group": "A-g-1",
        "term": 7,
    }


def test_what_a_record_is_about_ends_with_its_block_and_is_that_of_its_thread(ring: RecordRing) -> None:
    def elsewhere() -> None:
        _log.info("elsewhere")

    with about(app="A"):
        with about(group="A-g-1"):
            _log.info("inside")
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
    _log.info("after")
    after, other_thread, inside = ring.read()
    assert (inside["app"], inside["group"]) == ("A", "A-g-1")
    assert not {"app", "group"} & (other_thread.keys() | after.keys())


def test_secrets_are_masked_in_every_form(ring: RecordRing) -> None:
    try:
        raise ValueError("no login with pa55-word-longer")
    except ValueError:
        with about(user="pa55-word"):
            _log.exception("it is %s, cab", "pa55-word")
    (kept,) = ring.read()
    record = logging.LogRecord("x", logging.INFO, "", 1, "it is pa55-word", (), None)
    said = [json.dumps(kept), TextFormatter(MASK).format(record), JsonFormatter("n", MASK).format(record)]
    assert all("pa55" not in one and "*****" in one for one in said)
    assert "no login with *****\n" in f"{kept['exception']}\n"
    assert kept["message"] == "it is *****, cab", "what is too short stands in many a word"


def test_the_last_records_are_kept_and_found_by_what_they_are_about(ring: RecordRing) -> None:
    for n in range(9):
        _log.log(logging.ERROR if n % 2 else logging.INFO, "%s", n, extra={"app": f"app-{n % 3}", "group": f"g-{n}"})
    _log.debug("too fine")
    assert [one["message"] for one in ring.read()] == ["8", "7", "6", "5", "4"]
    assert [one["message"] for one in ring.read(limit=2)] == ["8", "7"]
    assert [one["message"] for one in ring.read(level=logging.ERROR)] == ["7", "5"]
    assert [one["message"] for one in ring.read(app="app-1")] == ["7", "4"]
    assert [one["message"] for one in ring.read(group="g-6")] == ["6"]
    assert ring.read(since_ms=int(datetime.now(UTC).timestamp() * 1000) + 60_000) == []
    _log.info("x" * 100_000)
    assert len(ring.read(limit=1)[0]["message"]) == 4000


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_node_logs_in_the_form_that_its_settings_name(format: str, tmp_path: Path) -> None:
    code = """
import logging, sys
from spdist.cluster.process import start_logging
from spdist.config import load_config
start_logging(load_config(sys.argv[1], role="manager"))
logging.getLogger("spdist.x").info("the password is %s", "pa55-word")
"""
    node = {"SPDIST_NODE_ID": "m1", "SPDIST_PORT": "0", "SPDIST_HOME": str(tmp_path), "SPDIST_PASSWORD": "pa55-word"}
    environment = {**os.environ, **node, "SPDIST__LOGGING__FORMAT": format}
    command = [sys.executable, "-c", code, str(ROOT / "conf/local/manager.yaml")]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    if format == "json":
        known = json.loads(line)
        assert (known["node"], known["level"], known["message"]) == ("m1", "INFO", "the password is *****")
    else:
        assert line.endswith("INFO spdist.x: the password is *****")
