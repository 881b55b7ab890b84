"""What of an app keeps it from being one compiled loop, in words."""

from __future__ import annotations

from spdist.language.checked import CheckedApp
from spdist.program.compiler import is_available
from spdist.program.expressions import NotTyped
from spdist.program.shape import shape_of
from spdist.program.text import written

__all__ = ["compiled_or_why_not"]


def compiled_or_why_not(checked: CheckedApp, text: str | None = None) -> str:
    """Return ``yes``, or ``no`` and the first thing that has no typed form.

    Parameters
    ----------
    checked : CheckedApp
        The app; in a distributed one each execution group is an app of its own.
    text : str, optional
        Its text, for the number of the line.
    """
    try:
        shape = shape_of(checked)
        read = {stream for query in shape.queries for stream in query.streams}
        targets = dict.fromkeys(query.checked.target for query in shape.queries)
        written(shape, tuple(one for one in targets if one not in read and not one.startswith("#")))
    except NotTyped as found:
        line = None if text is None or found.span is None else text.count("\n", 0, found.span.start) + 1
        return f"no: {found.reason}{'' if line is None else f' (line {line})'}"
    return "yes" if is_available() else "yes, where numba is installed (the extra spdist[compiled])"
