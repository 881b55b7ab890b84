"""Columns written as JSON by a compiled loop: what the mapping writes, event by event and byte by byte."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from math import inf, nextafter
from typing import Any

import numpy
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spdist.language.types import Schema, Type
from spdist.mapping.columns import ColumnarRows
from spdist.mapping.json_payloads import json_text
from spdist.mapping.kernels import Kernels
from spdist.mapping.mappers import sink_mapper
from spdist.transports import delivery
from spdist.transports.delivery import JsonTexts
from spdist.transports.event_log import encoded
from tests.properties.test_mapping_laws import setting

KINDS = (Type.STRING, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.BOOL)
#: Names of attributes may be anything, too.
NAMES = Schema.of(zip(["symbol", "i", "l", 'f"x', "é", "b"], (kind.value for kind in KINDS), strict=True))
EDGES = [0.0, -0.0, 1e-3, nextafter(1e-3, 0), 1e7, nextafter(1e7, 0), 2.0**53, 2.0**53 - 1, 1e300, 5e-324]


@pytest.fixture(scope="module", autouse=True)
def loops() -> Any:
    """The loop is there, and a few events are many."""
    pytest.importorskip("numba")
    kernels = Kernels(partial(import_module, "spdist.mapping.json_kernels"), "")
    kernels.load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "_KERNELS", kernels)
        patch.setattr(delivery, "FEW", 1)
        yield kernels.loops


def narrow(value: float) -> float:
    """The float next to a number, as a double."""
    return struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 3e38 else value


_reals = st.floats() | st.floats(-1e8, 1e8) | st.sampled_from(EDGES) | st.integers(-(10**9), 10**9).map(float)
_texts = st.text() | st.text('"\\\n\x01xé', max_size=20) | st.sampled_from(["", "IBM", "a" * 8, 'a"' * 9, "\x00" * 30])
_values: dict[Type, st.SearchStrategy[Any]] = {
    Type.STRING: _texts,
    Type.INT: st.integers(-(2**31), 2**31 - 1),
    Type.LONG: st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20),
    # A double that was cast to float is none.
    Type.FLOAT: _reals.map(narrow) | _reals,
    Type.DOUBLE: _reals,
    Type.BOOL: st.booleans(),
}
#: Of few values, so that some follow one another.
_rows = st.lists(st.tuples(*(st.none() | _values[kind] for kind in KINDS)), min_size=1, max_size=6).flatmap(
    lambda few: st.lists(st.sampled_from(few), min_size=1, max_size=12)
)


def written(rows: Sequence[Any], sizes: Sequence[int]) -> list[bytes]:
    """What the mapping writes of chunks of these sizes."""
    mapper = sink_mapper(setting(NAMES, "json", {}))
    left = iter(rows)
    chunks = [[(0, next(left)) for _ in range(size)] for size in sizes]
    return [encoded(one) for chunk in chunks for one in mapper.write(chunk)]


def half(row: Sequence[Any]) -> bool:
    """Whether a text of a row has half a character, so that it is no column."""
    return isinstance(row[0], str) and any("\ud800" <= letter <= "\udfff" for letter in row[0])


@settings(max_examples=300, deadline=None)
@given(_rows, st.data())
def test_events_are_written_as_the_mapping_writes_them(rows: list[Any], data: st.DataObject) -> None:
    rows = [row for row in rows if not half(row)] or [("x", 1, 2, 0.5, 0.25, None)]
    sizes = []
    while (left := len(rows) - sum(sizes)) > 0:
        sizes.append(data.draw(st.integers(1, left)))
    bounds = numpy.cumsum([0, *sizes])
    made = delivery._by_loop(NAMES, rows, bounds)
    assert made is not None
    assert made.to_pylist() == written(rows, sizes)
    # Columns that begin behind others, of which each row is a payload.
    columns = ColumnarRows.of([("before", 7, 7, 7.5, 7.5, True), *rows], KINDS, range(6))
    assert columns is not None
    made = delivery._by_loop(NAMES, columns.cut(1, len(columns)), numpy.arange(len(rows) + 1))
    assert made.to_pylist() == written(rows, [1] * len(rows))


@pytest.mark.parametrize("kind", [Type.FLOAT, Type.DOUBLE])
def test_reals_have_the_digits_that_java_writes(kind: Type) -> None:
    drawn = random.Random(7)
    powers = [2.0**power for power in range(-12, 56)]
    around = [nextafter(one, to) for one in (*powers, *EDGES) for to in (0, inf)]
    some = [drawn.choice((-1, 1)) * drawn.random() * 10.0 ** drawn.randrange(-4, 17) for _ in range(20_000)]
    short = [round(drawn.random() * 1000, drawn.randrange(4)) for _ in range(5000)]
    values = [float(one) for one in (*powers, *around, *EDGES, *some, *short)]
    if kind is Type.FLOAT:
        values = list(map(narrow, values))
    schema = Schema.of([("a", kind.value)])
    rows = ColumnarRows(pa.record_batch([pa.array(values, pa.float64())], ["0"]), lambda: None)
    made = delivery._by_loop(schema, rows, numpy.arange(len(values) + 1)).to_pylist()
    assert made == [f'{{"event":{{"a":{json_text(one, kind)}}}}}'.encode() for one in values]


def test_more_escapes_than_there_is_room_for() -> None:
    schema = Schema.of([("a", "string")])
    texts = ["plain", "\x01" * 1000, '"' * 1000]
    made = delivery._by_loop(schema, [(one,) for one in texts], numpy.arange(4))
    assert made.to_pylist() == [f'{{"event":{{"a":{json_text(one)}}}}}'.encode() for one in texts]


@pytest.mark.parametrize("row", [("x", 1, 2, 3, 0.5, True), ("\ud800", 1, 2, 0.5, 0.5, True)])
def test_what_is_no_column_is_left_to_others(row: Any) -> None:
    assert delivery._by_loop(NAMES, [row], numpy.arange(2)) is None
    (text,) = JsonTexts(NAMES, [row], numpy.arange(2))
    assert text == written([row], [1])[0].decode()


def test_the_loop_is_kept_for_other_processes(loops: Any) -> None:
    for loop in (loops.payloads, loops.odd_reals, loops.columns):
        assert not any(made.library.has_dynamic_globals for made in loop.overloads.values())


def test_nobody_waits_until_it_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(delivery, "_KERNELS", Kernels(partial(asked.append, 1), ""))
    monkeypatch.setattr(delivery._KERNELS, "load_later", lambda: asked.append("later"))
    row = ("x", 1, 2, 0.5, 0.5, True)
    assert list(JsonTexts(NAMES, [row], numpy.arange(2))) == [one.decode() for one in written([row], [1])]
    assert asked == ["later"]
    monkeypatch.setattr(delivery, "FEW", 2)
    assert len(list(JsonTexts(NAMES, [row], numpy.arange(2)))) == 1
    assert asked == ["later"]
