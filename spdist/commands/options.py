"""Options that several commands share, or that a command has besides its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

__all__ = ["with_options"]


def with_options(
    command: Callable[..., None],
    options: Mapping[str, tuple[Any, Any]],
    call: Callable[[dict[str, Any], dict[str, Any]], None],
    hidden: Collection[str] = (),
) -> Callable[..., None]:
    """Return a command with more options.

    Parameters
    ----------
    command : callable
        What its parameters say become options, and its docstring the help.
    options : mapping of str to (annotation, default)
        The others, by name.
    call : callable
        Called instead of it, with the values of its own parameters and with those of the others.
    hidden : collection of str
        Parameters of the command that become no options.
    """
    # Without the hidden ones, whose types may be imported for type checkers alone.
    own = {name: value for name, value in command.__annotations__.items() if name not in (*hidden, "return")}
    hints = get_type_hints(SimpleNamespace(__annotations__=own), command.__globals__, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    signature = inspect.signature(command).parameters.items()
    parameters = [one.replace(annotation=hints[name], kind=keyword) for name, one in signature if name not in hidden]
    parameters += [
        inspect.Parameter(name, keyword, annotation=kind, default=default) for name, (kind, default) in options.items()
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        others = {name: given.pop(name) for name in options}
        call(given, others)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__  # its signature is not that of `run`
    return run
