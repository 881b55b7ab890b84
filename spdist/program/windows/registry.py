"""Which windows have a typed form: each file of this folder says it of its own, and so do packages of others.

Here a decorator stands in front of what describes the windows of some names; others name that where they register the
window itself (`spdist.extension.window`). A window is one file: what is known of it (`TypedWindow`), how that is read
from the text of an app, what writes its block, and how its state comes from and goes to the operators'.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from spdist.extension import lookup
from spdist.program.windows.kinds import TypedWindow

__all__ = ["described_by", "typed_window"]

_Described = TypeVar("_Described", bound=type[TypedWindow])

_BUILT_IN: dict[str, type[TypedWindow]] = {}


def typed_window(*ids: str) -> Callable[[_Described], _Described]:
    """Register what describes the windows of these names: a frozen dataclass below `Sliding` or `Batched`."""

    def register(described: _Described) -> _Described:
        _BUILT_IN.update(dict.fromkeys(ids, described))
        return described

    return register


def described_by(id: str) -> type[TypedWindow] | None:
    """Return what describes the windows of a name; None where they have no typed form."""
    found = _built_in().get(id)
    if found is not None:
        return found
    known = lookup("window", id)
    return None if known is None or not known.typed else known.typed


@cache
def _built_in() -> Mapping[str, type[TypedWindow]]:
    """Return what the files of this folder register as they are imported: by name, since what they import asks here."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    return _BUILT_IN
