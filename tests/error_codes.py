"""What tests ask of the codes of errors."""

from __future__ import annotations

from collections.abc import Callable

from spdist.errors import SpdistError

__all__ = ["coded"]


def coded(code: str) -> Callable[[SpdistError], bool]:
    """Return whether an error has a code, for ``pytest.raises(…, check=coded(code))``."""
    return lambda error: error.code == code
