"""What Spark computes as Columns is what the local engine computes, bit by bit, and fails where that fails."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from spdist.engine.local.app import run
from spdist.engine.native.expressions import ExpressionPlace, NativeWriter
from spdist.engine.native.functions import FORMS
from spdist.engine.native.values import SPARK_TYPES
from spdist.engine.spark.session import SparkHost
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.scope import AttributeSource, Scope
from spdist.language.format import format_node
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.columns.native import NATIVE, obstacle
from tests.properties.native_expressions import ATTRIBUTES, expressions, rows
from tests.runtime.host_settings import settings_in
from tests.runtime.shared_spark import SHARED_SPARK

NAMES = tuple(ATTRIBUTES)
DEFINITION = f"define stream S (n int, {', '.join(f'{name} {kind}' for name, kind in ATTRIBUTES.items())});"
SCOPE = Scope((AttributeSource("S", "S", Schema.of([("n", "int"), *ATTRIBUTES.items()])),))
LOST = "lost"

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> SparkHost:
    root: Path = tmp_path_factory.mktemp("native")
    return SHARED_SPARK.host(settings_in(root, cores=1))


def test_each_rule_has_a_form_and_each_form_a_rule() -> None:
    assert sorted(FORMS) == sorted(NATIVE)


def drawn() -> tuple[list[ast.Expression], list[Row]]:
    """Several hundred expressions and rows: hypothesis draws them, one Spark job computes all."""
    found: dict[str, ast.Expression] = {}
    data: list[Row] = []

    setting = settings(
        max_examples=250,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )

    @setting
    @given(st.integers(1, 3).flatmap(lambda depth: expressions(depth=depth)))
    def collect(expression: ast.Expression) -> None:
        found[format_node(expression)] = expression

    @setting
    @given(rows)
    def collect_row(row: Row) -> None:
        data.append(row)

    collect()
    collect_row()
    return list(found.values()), data[:120]


def bits(value: Any) -> Any:
    """A value of which equal ones have equal bits; all NaN are one."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack("d", value)
    return value


def locally(text: str, data: list[Row]) -> list[Any]:
    """What the engine gives for each row."""
    app = f"{DEFINITION} from S select n, {text} as x insert into Out;"
    out = run(app, {"S": [(1000 + n, (n, *row)) for n, row in enumerate(data)]})["Out"]
    known = {n: bits(value) for _, (n, value) in out}
    return [known.get(n, LOST) for n in range(len(data))]


def on_spark(host: SparkHost, exprs: list[ast.Expression], data: list[Row]) -> list[list[Any]]:
    """What Spark gives: for each expression the values of all rows."""
    schema = ", ".join(f"{name} {SPARK_TYPES[kind]}" for name, kind in ATTRIBUTES.items())
    frame = host.session.createDataFrame([(n, *row) for n, row in enumerate(data)], f"n int, {schema}")
    timestamp = F.lit(1000).cast("bigint") + F.col("n").cast("bigint")
    writer = NativeWriter(ExpressionPlace(SCOPE, [F.col(name) for name in ("n", *NAMES)], timestamp), catalog())
    columns = []
    for expression in exprs:
        native = writer.expression(expression)
        fails = F.lit(False) if native.fails is None else native.fails
        columns.append(F.struct(fails.alias("fails"), F.when(~fails, native.value).alias("x")))
    result: list[list[Any]] = []
    for begin in range(0, len(columns), 100):
        part = [column.alias(f"c{k}") for k, column in enumerate(columns[begin : begin + 100])]
        collected = frame.select("n", *part).orderBy("n").collect()
        result += [
            [LOST if row[f"c{k}"].fails else bits(row[f"c{k}"].x) for row in collected] for k in range(len(part))
        ]
    return result


@pytest.mark.spark
def test_drawn_expressions(host: SparkHost) -> None:
    exprs, data = drawn()
    assert len(exprs) > 150
    assert len(data) > 100
    different = []
    for expression, found in zip(exprs, on_spark(host, exprs, data), strict=True):
        text = format_node(expression)
        wanted = locally(text, data)
        different += [(text, data[n], a, b) for n, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b][:1]
    assert different == [], "\n".join(map(str, different))


def expression_of(text: str) -> ast.Expression:
    query = parse(f"{DEFINITION} from S select {text} as x insert into Out;").elements[0]
    assert isinstance(query, ast.Query)
    return query.select.items[0].expression


@pytest.mark.spark
def test_ordinary_fractions_are_written_as_the_engine_writes_them(host: SparkHost) -> None:
    values = [12.34, 0.1, 100.0, -3.5e-5, 1e7, 9999999.5, 123456789.125, 2.0**60, 1e23, 0.001, -0.0]
    data: list[Row] = [(*[None] * 6, v, -v, v * 3, v / 7, None, None) for v in values]
    data = [(*row[:6], *(struct.unpack("f", struct.pack("f", r))[0] for r in row[6:8]), *row[8:]) for row in data]
    texts = ["convert(d, 'string')", "convert(f, 'string')", "str:concat(f, g, d, e)"]
    for text, found in zip(texts, on_spark(host, list(map(expression_of, texts)), data), strict=True):
        assert found == locally(text, data)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("str:upper(s)", "letters"),
        ("math:sin(d)", "last bit"),
        ("currentTimeMillis() + l", "clock"),
        ("cast(d, 'int') > 3", "not of"),
        ("str:concat(s, UUID())", "clock"),
        ("sum(i)", "aggregates"),
        ("str:regexp(s, t)", "not constant"),
        ("str:regexp(s, '(?i)a')", "more than the plain"),
        ("s * 2", "no number"),
        ("map:create()", "objects"),
        ("time:currentDate()", "dates"),
    ],
)
def test_what_does_not_agree_is_said(text: str, why: str) -> None:
    found = obstacle(expression_of(text), SCOPE, catalog())
    assert found is not None
    assert why in str(found)
