"""Paths into JSON."""

from __future__ import annotations

from typing import Any

import pytest

from spdist.mapping.paths import MISSING, Path

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
        ("$.v.length()", MISSING),
        ("$.v.*", []),
    ],
)
def test_paths_lead_to_values(path: str, expected: Any) -> None:
    assert Path(path).find(TREE) == expected


@pytest.mark.parametrize("path", ["$.a[", "$.a]", "$.a[?(@.v > 1)]", "$.", "$..", "$[a"])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        Path(path)
