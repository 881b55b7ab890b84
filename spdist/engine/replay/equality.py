"""When two results of an app are the same for people: decimals may differ in their last digits."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["same_values"]


def same_values(expected: Any, found: Any, tolerance: float = 1e-6) -> bool:
    """Tell whether two values, or two rows of values, are the same; decimals may differ by a share of `tolerance`."""
    # To Python True equals 1; to Siddhi a bool is no number.
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        if isinstance(expected, int) and isinstance(found, int):
            return expected == found
        both_nan = math.isnan(expected) and math.isnan(found)
        # Near 0 a share of the value is nothing: there what sums have left over from rounding is no difference.
        return both_nan or math.isclose(expected, found, rel_tol=tolerance, abs_tol=1e-9)
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        pairs = zip(expected, found, strict=False)
        return len(expected) == len(found) and all(same_values(*pair, tolerance) for pair in pairs)
    return bool(expected == found)
