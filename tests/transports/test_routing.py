"""Keys go where WSO2 sends them: Java's hash of their text, Java's remainder."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.language.types import Type
from spdist.transports.routing import java_hash, key_partition, key_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("😀", 0xD83D * 31 + 0xDE00),
        ("IBM", 72276),
    ],
)
def test_the_hash_is_javas(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_a_partition_is_in_range_for_the_hash_that_has_no_absolute_value() -> None:
    assert [key_partition("polygenelubricants", n) for n in (1, 2, 3, 5)] == [0, 0, 2**31 % 3, 2**31 % 5]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Type.STRING, "x", "x"),
        (Type.INT, 5, "5"),
        (Type.DOUBLE, 5.0, "5.0"),
        (Type.DOUBLE, 1e10, "1.0E10"),
        (Type.FLOAT, 0.10000000149011612, "0.1"),
        (Type.BOOL, True, "true"),
        (Type.LONG, None, "null"),
    ],
)
def test_keys_are_written_as_java_writes_them(kind: Type, value: Any, text: str) -> None:
    assert key_text(kind)(value) == text
