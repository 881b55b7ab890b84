"""What the programs of an app are written from, and these programs: found once, however many run the app.

Each shard of a group runs an app of its own, made of what the checker has found, which they share. So do all who make
an app again, as after an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from spdist.language.checking.checked import CheckedApp
from spdist.program.expressions import NotTyped
from spdist.program.mixed_shape import mixed_shape_of
from spdist.program.parts import Program
from spdist.program.shape import Shape, shape_of
from spdist.program.text import written

__all__ = ["ProgramForms", "forms_of"]

#: Of so many apps a process remembers the forms: a program of 50 queries takes half a megabyte.
_APPS = 16


class ProgramForms:
    """The forms of an app; threads may ask at the same time.

    Parameters
    ----------
    checked : CheckedApp
        The app.

    State
    -----
    What was asked for, and why it is not there where it has no typed form.
    """

    def __init__(self, checked: CheckedApp) -> None:
        self._checked = checked
        self._found: dict[Any, Any] = {}

    @property
    def whole(self) -> Shape:
        """All of the app; see `shape_of`, also for what is raised."""
        found: Shape = self._once("whole", lambda: shape_of(self._checked))
        return found

    @property
    def mixed(self) -> Shape:
        """The app with elements that are called; see `mixed_shape_of`, also for what is raised."""
        found: Shape = self._once("mixed", lambda: mixed_shape_of(self._checked))
        return found

    def program(self, shape: Shape, put_out: tuple[str, ...]) -> Program:
        """Return the program of `whole` or `mixed`; see `written`, also for what is raised."""
        found: Program = self._once((shape.is_mixed, put_out), lambda: written(shape, put_out))
        return found

    def _once(self, key: Any, find: Callable[[], Any]) -> Any:
        """Return what is found, or raise the reason: a new error each time, as one gathers all that it passes."""
        if key not in self._found:
            try:
                self._found[key] = find()
            except NotTyped as why:
                self._found[key] = NotTyped(why.reason, why.span)
        found = self._found[key]
        if isinstance(found, NotTyped):
            raise NotTyped(found.reason, found.span)
        return found


class _Same:
    """An app that equals only itself: to compare two would look at their whole trees."""

    __slots__ = ("checked",)

    def __init__(self, checked: CheckedApp) -> None:
        self.checked = checked

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.checked is self.checked

    def __hash__(self) -> int:
        return id(self.checked)


def forms_of(checked: CheckedApp) -> ProgramForms:
    """Return the forms of an app; those of the same object again, while others are not too many."""
    return _forms_of(_Same(checked))


@lru_cache(_APPS)
def _forms_of(one: _Same) -> ProgramForms:
    return ProgramForms(one.checked)
