"""Paths into the JSON of payloads: the same that functions read, but what is missing is no error."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.java.json.path import InvalidPathError
from spdist.java.json.path_text import compile_path
from spdist.mapping.json_payloads import MISSING, find

TREE = {"a": {"b": [10, {"c d": 1}]}, "list": [{"v": 1}, {"v": 2}], "v": 0}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", TREE),
        ("$.a.b[0]", 10),
        ("a.b[-1]['c d']", 1),
        ('$["a"].b[1]["c d"]', 1),
        ("$.list[*].v", [1, 2]),
        ("$.list.length()", 2),
        ("$..v", [0, 1, 2]),
        ("$.a.*", [[10, {"c d": 1}]]),
        ("$.none", MISSING),
        ("$.list[5]", MISSING),
        ("$.v.x", MISSING),
        ("$.v[0]", MISSING),
        ("$.v.length()", None),
        ("$.list[?(@.v > 1)].v", [2]),
        ("$.list[0,1].v", [1, 2]),
        ("$.list[-1:].v", [2]),
        ("$.v.none()", MISSING),
        ("$.v.*", []),
    ],
)
def test_paths_lead_to_values(path: str, expected: Any) -> None:
    assert find(compile_path(path), TREE) == expected


def test_nothing_is_in_null() -> None:
    assert find(compile_path("$.a"), None) is MISSING


@pytest.mark.parametrize("path", ["$.a[b", "$.", "$..", "$[a", "$.a[?(@.v > )]", "$.a b"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidPathError):
        compile_path(path)
