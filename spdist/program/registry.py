"""Which windows and stream processors have a typed form: each file of their folders says it of its own.

There a decorator stands in front of what describes those of some names; packages of others name that where they
register what they bring (`spdist.extension`). One is one file: what is known of it, how that is read from the text of
an app, what writes its block, and how its state comes from and goes to the operators'.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from spdist.extension import Kind, lookup
from spdist.program.processors.kinds import Processor
from spdist.program.windows.kinds import TypedWindow

__all__ = ["PROCESSORS", "WINDOWS", "Typed"]

_Base = TypeVar("_Base")
_Described = TypeVar("_Described", bound=type)


class Typed(Generic[_Base]):
    """What has a typed form, of one kind.

    Parameters
    ----------
    kind : Kind
        Which kind.
    package : str
        Whose modules register what is built in, as they are imported: by name, since what they import asks here.
    """

    def __init__(self, kind: Kind, package: str) -> None:
        self._kind: Kind = kind
        self._package = package
        self._built_in: dict[str, type[_Base]] = {}
        self._complete = False

    def typed(self, *ids: str) -> Callable[[_Described], _Described]:
        """Register what describes those of some names: a frozen dataclass."""

        def register(described: _Described) -> _Described:
            self._built_in.update(dict.fromkeys(ids, described))
            return described

        return register

    def load(self) -> None:
        """Load what is built in; else the first who asks does."""
        if not self._complete:
            for module in pkgutil.iter_modules(importlib.import_module(self._package).__path__):
                importlib.import_module(f"{self._package}.{module.name}")
            self._complete = True

    @property
    def built_in(self) -> frozenset[str]:
        """The names of those that are built in, and have a typed form."""
        self.load()
        return frozenset(self._built_in)

    def find(self, id: str) -> type[_Base] | None:
        """Return what describes the one of a name; None where it has no typed form."""
        self.load()
        known = lookup(self._kind, id)
        own: type[_Base] | None = known.typed if known is not None and known.typed else None
        return self._built_in.get(id) or own


WINDOWS = Typed[TypedWindow]("window", "spdist.program.windows")
PROCESSORS = Typed[Processor]("stream processor", "spdist.program.processors")
