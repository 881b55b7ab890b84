"""Completion of SiddhiQL while somebody types: what could stand at a place of a text.

What kind of word fits is asked of the parser's own tables, with the statement up to the place; which names there are is
read off the tokens of the whole text (`spdist.language.editing.sketch`), so that other statements may be unfinished
too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from spdist.connectors.registry import sink_types, source_types, store_types
from spdist.language.catalog import Catalog
from spdist.language.editing.completion_place import BEGINNINGS, CursorPlace, appended, enclosing, expected, place_at
from spdist.language.editing.sketch import Input, inputs, selected, sketch
from spdist.language.editing.statements import is_word
from spdist.language.editing.tokens import Token, keywords, tokens
from spdist.language.signatures import described
from spdist.language.transport_names import MAPPINGS, STRATEGIES

__all__ = ["Completion", "complete", "values"]

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*\Z")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
#: Stands where nothing is typed yet, so that the place has a token and a statement.
_NOTHING = "_"


@dataclass(frozen=True, slots=True)
class Completion:
    """Something that could stand at a place.

    Parameters
    ----------
    text : str
        What to write.
    start : int
        From which offset on it replaces what is there, up to the place.
    kind : str
        ``keyword``, ``type``, ``stream`` and what else is defined, ``attribute``, ``function``, ``aggregator``,
        ``window``, ``namespace``, ``annotation``, ``option`` or ``value``.
    detail : str
        An attribute's type, a stream's attributes, how a function is called; may be empty.
    """

    text: str
    start: int
    kind: str
    detail: str = ""


#: What an element of a pattern may read.
_OF_PATTERNS = ("stream", "fault stream", "inner stream", "trigger", "window")
#: Text, kind, detail.
Offer = tuple[str, str, str]


def complete(text: str, cursor: int, catalog: Catalog) -> list[Completion]:
    """Return what could stand at a place, the likeliest kinds first, each in alphabetical order.

    Parameters
    ----------
    text : str
        An app, finished or not; also a notebook's cell whose first line is ``%%siddhi …``.
    cursor : int
        The offset of the place; what is typed of a word ends there.
    catalog : Catalog
        The functions, aggregators and windows there are.

    Examples
    --------
    >>> text = "define stream Trades (symbol string, price double); from Trades select pr"
    >>> complete(text, len(text), Catalog())
    [Completion(text='price', start=71, kind='attribute', detail='double')]
    """
    touched = next((one for one in tokens(text) if _is_inside(one, cursor)), None)
    if touched is not None and touched.kind != "string":
        return []
    if touched is not None:
        # What is typed of a value begins behind its quotes
        start = touched.start + (3 if touched.text.startswith('"""') else 1)
        return _fitting(_values(place_at(text, touched.start)), start, text[start:cursor])
    word = _WORD.search(text, 0, cursor)
    start = word.start() if word else cursor
    place = place_at(text if word else text[:cursor] + _NOTHING + text[cursor:], start)
    return _fitting(_offers(place, catalog), start, text[start:cursor])


def _is_inside(token: Token, cursor: int) -> bool:
    """Tell whether a place is in what is no code: a quoted text, a comment, a body, the first line of a cell."""
    if token.kind not in ("string", "comment", "script", "magic"):
        return False
    return token.start < cursor and (cursor < token.end or (cursor == token.end and not token.closed))


def _fitting(offers: Iterable[Offer], start: int, typed: str) -> list[Completion]:
    """Return the offers that begin as what is typed, in any case; the first of each text."""
    found: dict[str, Completion] = {}
    for text, kind, detail in offers:
        if text.lower().startswith(typed.lower()) and text != _NOTHING:
            if kind == "keyword" and len(typed) > 1 and typed.isupper():
                text = text.upper()
            found.setdefault(text, Completion(text, start, kind, detail))
    return list(found.values())


# --- what is offered -------------------------------------------------------------------------------------------------


def _offers(place: CursorPlace, catalog: Catalog) -> Iterator[Offer]:
    opened = enclosing(place.before)
    if place.said.endswith(("@", ":")) and (mark := re.search(r"@\s*(app\s*:\s*)?\Z", place.said, re.IGNORECASE)):
        yield from _annotations(bool(mark[1]))
    elif opened and place.before[opened - 1].kind == "mark":
        if place.last() in ("(", ","):
            name = _name(place.before[opened - 1])
            yield from ((option, "option", f"of @{name}") for option in _options(name))
    elif place.last() == ".":
        yield from _behind_dot(place, catalog)
    elif place.last() == ":":
        yield from _of_namespace(place, catalog)
    else:
        yield from _by_grammar(place, catalog)


def _by_grammar(place: CursorPlace, catalog: Catalog) -> Iterator[Offer]:
    fits = expected(place)
    if place.last() == "#" and "_WINDOW" in fits:
        yield "window", "keyword", "#window.name(…)"
        yield from _callables("stream function", catalog.stream_functions)
        return
    clause = _clause(place)
    if "TRUE" in fits or (clause in ("group", "order", "set") and "NAME" in fits):
        yield from _of_expression(place, clause, catalog)
    elif "FAULT_MARK" in fits or place.last() in ("#", "!"):
        yield from _sources(place, _OF_PATTERNS if place.last() in ("->", "=", "every", "not", ",") else ())
    elif place.last() == "in":
        yield from _sources(place, ("table", "window"))
    elif place.last() == ")" and "NAME" in fits:  # define window W (…)
        yield from _callables("window", catalog.windows)
    words: dict[str, list[str]] = {}
    for word, terminal in keywords().items():
        words.setdefault(terminal, []).append(word)
    for terminal in sorted(fits & words.keys()):
        for word in words[terminal]:
            yield word, "type" if terminal == "TYPE" else "keyword", ""


def _clause(place: CursorPlace) -> str:
    """Return the word that begins the clause which the place is in."""
    clauses = {*BEGINNINGS, "from", "set"}
    found = (word for at, word in reversed(list(place.statement.words())) if at < len(place.before) and word in clauses)
    return next(found, "from")


def _of_expression(place: CursorPlace, clause: str, catalog: Catalog) -> Iterator[Offer]:
    read = inputs(place.statement)
    if not read and is_word(place.statement.tokens[place.statement.body], "partition"):  # of which stream comes last
        read = [Input(id, id) for id, known in place.sketch.known.items() if known.kind == "stream"]
    names = {**place.sketch.attributes(read), **appended(place, read, catalog)}
    made = selected(place.statement, names)
    if is_word(place.statement.tokens[place.statement.body], "define") and not read:  # define window W (…) sort(…)
        names = {
            name: kind for own in sketch([place.statement]).known.values() for name, kind in own.attributes.items()
        }
    elif clause in ("on", "set") and _changes(place):  # what was selected, and the table by its name
        names = made
        yield from _sources(place, ("table", "window"))
    elif clause not in ("from", "select"):
        names = {**{name: kind for name, kind in made.items() if name not in names}, **names}
    yield from _attributes(names)
    for one in read:
        if len(read) > 1 or one.name != one.id:
            yield one.name, place.sketch.known[one.id].kind if one.id in place.sketch.known else "stream", one.id
    if clause in ("select", "having", "order"):
        yield from _callables("aggregator", catalog.aggregators)
    yield from ((name, "function", f"{name}(…) → {kind}") for name, kind in sorted(place.sketch.functions.items()))
    yield from _callables("function", catalog.functions)


def _changes(place: CursorPlace) -> bool:
    return any(is_word(token, "update", "delete") for token in place.before)


def _behind_dot(place: CursorPlace, catalog: Catalog) -> Iterator[Offer]:
    if place.last(2) == "window" and place.last(3) == "#":
        yield from _callables("window", catalog.windows)
        return
    before = list(place.before[:-1])
    if before and before[-1].text == "]":  # e1[0]. or e1[last].
        while before and before.pop().text != "[":
            pass
    if not before or before[-1].kind not in ("word", "quoted"):
        return
    name = before[-1].text.strip("`")
    marked = before[-2].text + name if len(before) > 1 and before[-2].text in ("#", "!") else name
    read = inputs(place.statement)
    called = [one for one in read if one.name in (marked, name)] or [Input(marked, marked)]
    yield from _attributes(place.sketch.attributes(called))


def _of_namespace(place: CursorPlace, catalog: Catalog) -> Iterator[Offer]:
    space = place.before[-2].text if len(place.before) > 1 else ""
    if place.last(3) == "." and place.last(4) == "window":
        yield from _callables("window", catalog.windows, space)
    elif place.last(3) == "#":
        yield from _callables("stream function", catalog.stream_functions, space)
    else:
        yield from _callables("aggregator", catalog.aggregators, space)
        yield from _callables("function", catalog.functions, space)


def _callables(kind: str, known: Mapping[str, Callable[..., Any]], space: str = "") -> Iterator[Offer]:
    """Yield what is in a namespace; for that of names without one also the namespaces."""
    # Capitals would come before all small letters
    ids = sorted(known, key=str.lower)
    for id in ids:
        namespace, _, name = id.rpartition(":")
        if namespace == space:
            yield name, kind.removeprefix("stream "), _detail(id, known[id], kind == "stream function")
    if not space:
        for namespace in sorted({id.partition(":")[0] for id in ids if ":" in id}):
            yield f"{namespace}:", "namespace", f"{kind}s"


@lru_cache(maxsize=1024)
def _detail(id: str, resolve: Callable[..., Any], of_stream: bool) -> str:
    return described(id, resolve, of_stream=of_stream)


def _attributes(known: Mapping[str, str]) -> Iterator[Offer]:
    for name, kind in known.items():
        yield name if _PLAIN.fullmatch(name) else f"`{name}`", "attribute", kind


def _sources(place: CursorPlace, kinds: Sequence[str] = ()) -> Iterator[Offer]:
    """Yield what a query may read or write here; behind ``#`` or ``!`` without that mark."""
    mark = place.last() if place.last() in ("#", "!") else ""
    writes = is_word(place.before[-1] if place.before else None, "into", "update", "delete")
    for id, known in place.sketch.known.items():
        if (kinds and known.kind not in kinds) or (writes and known.kind in ("trigger", "aggregation")):
            continue
        if id.startswith(mark) and (mark or place.statement.inside or id[0] != "#"):
            attributes = ", ".join(f"{name} {kind}".rstrip() for name, kind in known.attributes.items())
            yield id.removeprefix(mark), known.kind.rpartition(" ")[2], f"({attributes})"


# --- annotations -----------------------------------------------------------------------------------------------------


def _name(mark: Token) -> str:
    return re.sub(r"[@\s]", "", mark.text)


def _annotations(of_app: bool) -> Iterator[Offer]:
    if not of_app:
        yield from ((name, "annotation", ", ".join(options)) for name, options in ANNOTATIONS.items())
    prefix = "" if of_app else "app:"
    yield from ((prefix + name, "annotation", ", ".join(options)) for name, options in APP_ANNOTATIONS.items())


def _options(annotation: str) -> Sequence[str]:
    known = {name.lower(): options for name, options in ANNOTATIONS.items()}
    known |= {f"app:{name}".lower(): options for name, options in APP_ANNOTATIONS.items()}
    return known.get(annotation.lower(), ())


def _values(place: CursorPlace) -> Iterator[Offer]:
    """Yield what an annotation's text could be: the types of sources, attributes for keys."""
    opened = enclosing(place.before)
    if not opened or place.before[opened - 1].kind != "mark":
        return
    name = _name(place.before[opened - 1]).lower()
    if name in ("primarykey", "index"):
        for known in sketch([place.statement]).known.values():
            yield from _attributes(known.attributes)
    key = "".join(token.text for token in place.before[opened + 1 :]).rpartition(",")[2].rstrip("=").lower()
    yield from ((value, "value", f"{key} of @{name}") for value in values(name, key))


# Annotations that mean something, with their elements, for completion; which of them fit is the checker's word.


#: ``@name``, and the elements that it usually has.
ANNOTATIONS: Final[dict[str, tuple[str, ...]]] = {
    "async": ("buffer.size", "workers", "batch.size.max"),
    "attributes": (),
    "cache": ("size", "cache.policy", "retention.period", "purge.interval"),
    "destination": (),
    "dist": ("execGroup", "parallel"),
    "distribution": ("strategy", "partitionKey"),
    "index": (),
    "info": ("name",),
    "map": ("type",),
    "OnError": ("action",),
    "PartitionById": ("enable",),
    "payload": (),
    "primaryKey": (),
    "purge": ("enable", "interval", "idle.period"),
    "retentionPeriod": ("sec", "min", "hours", "days", "months", "years"),
    "sink": ("type", "on.error"),
    "source": ("type",),
    "store": ("type",),
}
#: ``@app:name``.
APP_ANNOTATIONS: Final[dict[str, tuple[str, ...]]] = {
    "clock": ("max.jump",),
    "description": (),
    "name": (),
    "playback": ("idle.time", "increment"),
    "statistics": ("interval",),
    "transportChannelCreationEnabled": (),
}


#: What an element may be, whatever is connected, by annotation and element in lower case.
_VALUES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("map", "type"): tuple(kind for kind in MAPPINGS if kind not in ("avro", "binary", "protobuf", "wso2event")),
    ("distribution", "strategy"): STRATEGIES,
    ("partitionbyid", "enable"): ("false", "true"),
    ("onerror", "action"): ("LOG", "STORE", "STREAM"),
    ("sink", "on.error"): ("LOG", "RETRY", "STORE", "STREAM", "WAIT"),
}


def values(annotation: str, element: str) -> tuple[str, ...]:
    """Return what an element of an annotation may be, both in lower case; empty where it may be anything."""
    if (annotation, element) == ("source", "type"):
        return source_types()
    if (annotation, element) == ("sink", "type"):
        return tuple(sorted(("embedded", *sink_types())))
    if (annotation, element) == ("store", "type"):
        return tuple(sorted(store_types()))
    return _VALUES.get((annotation, element), ())
