"""Names of extensions that nobody has registered: which one is meant, by its letters and by its kind."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from spdist.errors import ErrorKind, Span, UndefinedNameError
from spdist.language import foreign
from spdist.language.catalog import Catalog

__all__ = ["nearest_id", "unknown_extension"]

#: A name of fewer letters is not understood as the beginning of a longer one.
_SHORTEST_BEGINNING = 3
_FORMS = {
    "function": "'{id}' is a function; write it where a value stands: select {id}(…) as x.",
    "aggregator": "'{id}' is an aggregator; write it behind 'select': select {id}(…) as x.",
    "window": "A window is written #window.{id}(…).",
    "stream function": "'{id}' is a stream function; write it behind a stream: from S#{id}(…).",
}


def unknown_extension(kind: str, id: str, span: Span | None, catalog: Catalog) -> UndefinedNameError:
    """Return the error for a function, window or the like that nobody has registered, and which one is meant.

    Parameters
    ----------
    kind : {'function or aggregator', 'window', 'stream function'}
        What stands at this place.
    id : str
        Its name, ``name`` or ``ns:name``.
    span : Span, optional
        Where it is written.
    catalog : Catalog
        What is registered. The hint names the nearest of that kind; one of another kind only where it has that name.
    """
    kinds: dict[str, Iterable[str]] = {
        "function": catalog.functions,
        "aggregator": catalog.aggregators,
        "window": catalog.windows,
        "stream function": catalog.stream_functions,
    }
    words = {"window": foreign.WINDOWS, "function or aggregator": foreign.FUNCTIONS}.get(kind, {})
    near = nearest_id(id, [name for one in kind.split(" or ") for name in kinds[one]])
    # The same name in another namespace is meant, rather than another kind of extension of that name
    same = near is not None and near.rpartition(":")[2].lower() == id.lower()
    other = None if same else next((one for one, known in kinds.items() if id in known), None)
    hint = words.get(id.lower()) or (_FORMS[other].format(id=id) if other else near and f"Did you mean '{near}'?")
    return UndefinedNameError(f"There is no {kind} '{id}'", span=span, hint=hint, code=ErrorKind.UNKNOWN_EXTENSION)


def nearest_id(id: str, known: Iterable[str]) -> str | None:
    """Return the one of `known` that `id` was meant to be, or None.

    Letters that are wrong, left out, too many or exchanged count; not whether they are capitals, and not a namespace
    that is left out. One in three may be wrong; of several, the one that begins alike. Else it is the shortest name
    that begins with `id`.

    Examples
    --------
    >>> nearest_id("uniq:frist", ["unique:ever", "unique:first", "first"])
    'unique:first'
    >>> nearest_id("sin", ["min", "math:sin"])
    'math:sin'
    """
    space, bare = _parts(id)
    most = max(1, len(id) // 3)
    ranked: list[tuple[int, bool, int, int, str]] = []
    for name in known:
        other_space, other = _parts(name)
        wrong = _distance(bare, other, most)
        alike = sum(takewhile(bool, map(str.__eq__, bare, other)))
        if space and wrong <= most:
            wrong += _distance(space, other_space, most)
        if wrong <= most and wrong < len(bare):
            ranked.append((wrong, space != other_space, -alike, len(name), name))
        elif space in ("", other_space) and len(bare) >= _SHORTEST_BEGINNING and other.startswith(bare):
            ranked.append((most + 1, space != other_space, -alike, len(name), name))
    return min(ranked)[-1] if ranked else None


def _parts(id: str) -> tuple[str, str]:
    space, _, bare = id.lower().rpartition(":")
    return space, bare


def _distance(one: str, other: str, most: int) -> int:
    """Return how many letters must be changed, added, left out or exchanged with the next; any number above `most`."""
    # So many letters are missing at least: the table need not be filled
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            # Two rows back: a pair that is exchanged counts as one mistake
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
