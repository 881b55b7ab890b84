"""What of an app is not part of a compiled loop, in words."""

from __future__ import annotations

from spdist.language.checking.checked import CheckedApp
from spdist.program.called import Called
from spdist.program.expressions import NotTyped
from spdist.program.machine.compiler import is_available
from spdist.program.mixed_shape import mixed_shape_of
from spdist.program.shape import Keyed, Shape, shape_of, streams_of
from spdist.program.text import written

__all__ = ["compiled_or_why_not"]


def compiled_or_why_not(checked: CheckedApp, text: str | None = None) -> str:
    """Return ``yes``; ``in part``, and which queries are compiled or called, and why; or ``no`` and the reason.

    Parameters
    ----------
    checked : CheckedApp
        The app; in a distributed one each execution group is an app of its own.
    text : str, optional
        Its text, for the numbers of lines.
    """
    there = "" if is_available() else ", where numba is installed (the extra spdist[compiled])"
    try:
        _write(shape_of(checked))
    except NotTyped:
        try:
            shape = mixed_shape_of(checked)
            _write(shape)
        except NotTyped as found:
            return f"no: {_why(found, text)}"
        if len(shape.looped) < len(shape.elements):
            return f"in part{there}: {_parts(shape, text)}"
    return f"yes{there}"


def _write(shape: Shape) -> None:
    """Write the text, with what nobody reads put out."""
    read = {stream for element in shape.elements for stream in streams_of(element)}
    targets = dict.fromkeys(query.checked.target for query in shape.queries)
    written(shape, tuple(one for one in targets if one in shape.schemas and one not in read))


def _parts(shape: Shape, text: str | None) -> str:
    told = []
    for element in shape.elements:
        if isinstance(element, Called) and element.adds is not None:
            told += [f"{name} is compiled" for name in element.names]
        elif isinstance(element, Called):
            told += [f"{name} is called: {_why(element.why, text)}" for name in element.names]
        else:
            queries = element.queries if isinstance(element, Keyed) else (element,)
            told += [f"{query.checked.name} is compiled" for query in queries]
    return "; ".join(told)


def _why(found: NotTyped, text: str | None) -> str:
    line = None if text is None or found.span is None else text.count("\n", 0, found.span.start) + 1
    return f"{found.reason}{'' if line is None else f' (line {line})'}"
