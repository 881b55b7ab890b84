"""Inspection of SiddhiQL: what the word at a place is, for tooltips."""

from __future__ import annotations

from collections.abc import Iterator

from spdist.language.catalog import Catalog
from spdist.language.editing.completion import complete
from spdist.language.editing.completion_place import enclosing
from spdist.language.editing.tokens import Token, tokens

__all__ = ["describe"]

_SAY_NOTHING = ("keyword", "type", "namespace")


def describe(text: str, cursor: int, catalog: Catalog) -> str | None:
    """Return what the word at a place is, else what is called around it: its kind, and how it is written.

    Parameters
    ----------
    text : str
        An app, finished or not; also a notebook's cell whose first line is ``%%siddhi …``.
    cursor : int
        The offset of the place.
    catalog : Catalog
        The functions, aggregators and windows there are.

    Returns
    -------
    str or None
        None where nothing is known of it; keywords say nothing.

    Examples
    --------
    >>> text = "define stream Trades (symbol string, price double); from Trades select price"
    >>> describe(text, len(text), Catalog())
    'attribute price: double'
    """
    for token in _words(text, cursor):
        for one in complete(text, token.end, catalog):
            if one.text == token.text and one.kind not in _SAY_NOTHING:
                return f"{one.kind} {one.text}: {one.detail}" if one.detail else f"{one.kind} {one.text}"
    return None


def _words(text: str, cursor: int) -> Iterator[Token]:
    """Yield the word at the place, and then those before the brackets that are open around it, innermost first."""
    found = [token for token in tokens(text) if token.kind not in ("comment", "magic")]
    yield from (token for token in found if token.kind == "word" and token.start <= cursor <= token.end)
    before = [token for token in found if token.end <= cursor]
    while (at := enclosing(before)) is not None:
        if at and before[at - 1].kind == "word":
            yield before[at - 1]
        before = before[:at]
