"""What fails at run time because a value is not of the type that the app says: worded as Siddhi words it.

Apps can see the wording: ``convert(_error, 'string')`` in a query over a fault stream.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["ClassCastError", "java_class"]

_NAMES: Final[dict[type, str]] = {bool: "Boolean", float: "Double", str: "String"}
_UTIL: Final[dict[type, str]] = {list: "java.util.ArrayList", tuple: "java.util.ArrayList", dict: "java.util.HashMap"}
_LOW, _HIGH = -(2**31), 2**31 - 1


def java_class(value: Any) -> str:
    """Return the class that Siddhi has for `value`; a whole number is an Integer where it fits 32 bits."""
    if type(value) is int:
        return "java.lang.Integer" if _LOW <= value <= _HIGH else "java.lang.Long"
    name = _NAMES.get(type(value))
    if name is not None:
        return f"java.lang.{name}"
    return _UTIL.get(type(value), f"{type(value).__module__}.{type(value).__qualname__}")


class ClassCastError(TypeError):
    """A value is not of the type that a ``cast`` named, or arithmetic met what is no number.

    Parameters
    ----------
    value : Any
        The value.
    wanted : str
        The class it should be of, as Siddhi names it: ``Number``, ``Integer``, ``Boolean``…
    """

    def __init__(self, value: Any, wanted: str) -> None:
        found, wanted = java_class(value), f"java.lang.{wanted}"
        super().__init__(
            f"class {found} cannot be cast to class {wanted} "
            f"({found} and {wanted} are in module java.base of loader 'bootstrap')"
        )
        self.value = value
