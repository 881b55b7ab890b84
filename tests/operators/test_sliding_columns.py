"""States that versions before 0.19 stored as columns: what goes on from them puts out what those did."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from spdist.engine.island.hosted import HostedApp
from spdist.errors import StateError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.operators.windows.sliding_columns import plain_query
from tests.engine.one_chunk import deliver_now

#: Made by version 0.18: windows of length and time, with groups and without, in partitions and outside.
STORED = json.loads(Path(__file__).with_name("stored_columns.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(STORED)))
def test_an_app_goes_on_from_columns(number: int) -> None:
    stored = STORED[number]
    app = HostedApp(check(parse(stored["app"]), catalog(False), stored["app"]), delivers=False)
    seen: list[Any] = []
    app.subscribe_each("O", lambda timestamp, row: seen.append([timestamp, list(row)]), seen.append)
    app.restore(base64.b64decode(stored["state"]))
    for timestamp, row in stored["events"]:
        app.advance(timestamp)
        deliver_now(app, "A", [(timestamp, tuple(row))])
    assert seen == stored["out"]


def test_columns_of_the_wrong_length_are_damaged() -> None:
    stored = {
        "sliding": [[], [["count", 0]], ["int"], 3, False, False],
        "keys": [()],
        "rows": 2,
        "counts": bytes(8),
        "sums": [],
        "groups": bytes(4),
        "times": None,
        "values": [],
    }
    with pytest.raises(StateError, match="1 numbers are there in place of 2"):
        plain_query(stored)
