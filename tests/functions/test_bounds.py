"""One event makes no text, list or map that fills the memory: what is too large costs that event, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.engine.local.app import LocalApp
from spdist.extension import catalog
from spdist.java import bounds
from spdist.java.bounds import MOST_ENTRIES, Room
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Type
from spdist.mapping.json_payloads import json_text

_LEVELS = 40


def nested(maker: str) -> str:
    """A chain of streams, each of which puts what it gets twice into something new."""
    streams = "".join(f"define stream S{level} (o object, n int);" for level in range(_LEVELS + 1))
    return streams + "".join(
        f"from S{level} select {maker} as o, n insert into S{level + 1};" for level in range(_LEVELS)
    )


def outcome(text: str, rows: list[tuple[Any, ...]]) -> tuple[list[Any], LocalApp]:
    app = LocalApp(check(parse(text), catalog(), text))
    out: list[Any] = []
    app.subscribe("Out", lambda _, row: out.append(row))
    app.start(0)
    for number, row in enumerate(rows):
        app.send("S", number, row)
    return out, app


_TEXTS = {
    "list:create(o, o)": ("json:toString(o)", "map:toJSON(map:create('l', o))", "map:toXML(map:create('l', o))"),
    "map:create('a', o, 'b', o)": ("json:toString(o)", "map:toJSON(o)", "map:toXML(o)"),
}


@pytest.mark.parametrize(("maker", "text"), [(maker, text) for maker, texts in _TEXTS.items() for text in texts])
def test_an_object_that_holds_others_again_and_again_has_no_endless_text(
    maker: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_ENTRIES", 1000)
    app = (
        "define stream S (n int); define stream Out (n int);"
        f"{nested(maker)} from S select map:create('k', n) as o, n insert into S0;"
        f"from S{_LEVELS}[n > 0 and not({text} is null)] select n insert into Out;"
        "from S0[n == 0] select n insert into Out;"
    )
    out, running = outcome(app, [(1,), (0,)])
    assert out == [(0,)]
    assert "the text of an object shows more than 1000 lists and maps" in (running.failures.latest or "")


@pytest.mark.parametrize("maker", ["list:addAll(o, o)", "list:addAll(list:clone(o), o)"])
def test_a_list_does_not_double_for_ever(maker: str) -> None:
    app = (
        "@OnError(action='stream') define stream S39 (o object, n int); define stream S (n int);"
        f"{nested(maker).replace('define stream S39 (o object, n int);', '')}"
        "from S select list:create(n) as o, n insert into S0;"
        f"from S{_LEVELS} select n insert into Out; from S[n == 0] select n insert into Out;"
    )
    out, running = outcome(app, [(1,), (0,)])
    assert out == [(0,)]
    assert f"is larger than {MOST_ENTRIES}" in (running.failures.latest or "")


def test_a_map_takes_so_many_entries() -> None:
    text = "define stream S (o object, k int); from S select map:size(map:put(o, k, k)) as n insert into Out;"
    full = {str(number): None for number in range(MOST_ENTRIES)}
    out, running = outcome(text, [({}, 1), (full, 1), (full, 2), ({}, 2)])
    assert out == [(1,), (1,)]
    assert running.failures.count == 2
    assert len(full) == MOST_ENTRIES


def test_a_sink_writes_no_endless_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_ENTRIES", 1000)
    value: Any = ["x"]
    for _ in range(_LEVELS):
        value = [value, {"a": value}]
    with pytest.raises(OverflowError, match="more than"):
        json_text(value, Type.OBJECT)


def test_there_is_room_for_so_much_text_and_no_more() -> None:
    room = Room()
    room.characters = 3
    assert room.fill("abc") == "abc"
    with pytest.raises(OverflowError):
        room.fill("d")
