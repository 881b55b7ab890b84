"""A small catalog, so that tests of the language do not depend on what implements it; and the sample apps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spdist.errors import SiddhiTypeError
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.types import Schema, Type

Types = tuple[Type, ...]
Arguments = tuple[ast.Expression, ...]


def _total(types: Types, _: Arguments) -> Type:
    if len(types) != 1 or not types[0].numeric:
        raise SiddhiTypeError("'sum' takes one number", hint="sum(price)")
    return Type.DOUBLE if types[0] in (Type.FLOAT, Type.DOUBLE) else Type.LONG


def _named(types: Types, arguments: Arguments) -> Type:
    target = arguments[1]
    if not isinstance(target, ast.Literal):
        raise SiddhiTypeError("the type must be a constant")
    return Type(target.value)


def _same(types: Types, _: Arguments) -> Type:
    if len(set(types)) != 1:
        raise SiddhiTypeError("all arguments must have the same type")
    return types[0]


def _length(types: Types, arguments: Arguments) -> None:
    if types != (Type.INT,) or not isinstance(arguments[0], ast.Literal):
        raise SiddhiTypeError("'length' takes a constant int")


def _time(types: Types, _: Arguments) -> None:
    if len(types) != 1 or types[0] not in (Type.INT, Type.LONG):
        raise SiddhiTypeError("'time' takes a duration")


def _polar(_: Schema, types: Types, __: Arguments) -> Schema:
    if types != (Type.DOUBLE, Type.DOUBLE):
        raise SiddhiTypeError("'pol2Cart' takes two doubles")
    return Schema.of([("x", "double"), ("y", "double")])


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return Catalog(
        functions={
            "coalesce": _same,
            "convert": _named,
            "str:concat": lambda *_: Type.STRING,
            "str:trim": lambda *_: Type.STRING,
        },
        aggregators={
            "sum": _total,
            "avg": lambda *_: Type.DOUBLE,
            "count": lambda *_: Type.LONG,
            "max": _same,
            "stdDev": lambda *_: Type.DOUBLE,
        },
        windows={"length": _length, "lengthBatch": _length, "time": _time, "sort": lambda *_: None},
        stream_functions={"pol2Cart": _polar},
    )


def sample_apps() -> dict[str, str]:
    """Return the apps of apps.siddhi by name."""
    text = Path(__file__).with_name("apps.siddhi").read_text("utf-8")
    _, *parts = re.split(r"^-- app: (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "sample" in metafunc.fixturenames:
        apps = sample_apps()
        metafunc.parametrize("sample", apps.values(), ids=apps.keys())
