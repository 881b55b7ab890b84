"""Which name means which attribute of which source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal

from spdist.errors import (
    AppValidationError,
    ErrorKind,
    SiddhiAppError,
    Span,
    UndefinedNameError,
    error_of,
)
from spdist.language import ast
from spdist.language.types import Schema, Type

__all__ = ["AttributeSource", "Reference", "Scope", "filter_conditions", "pattern_elements", "suggestion", "undefined"]

_FIRST = ast.EventIndex(0)
#: How many names a hint shows.
_SHOWN = 20
#: With how many names a wrong one is compared.
_COMPARED = 500
_NO_NULL = "There is no null constant; write 'a is null'."


@dataclass(frozen=True, slots=True)
class AttributeSource:
    """Something whose attributes an expression may name.

    Parameters
    ----------
    name : str
        How expressions call it: its alias, else the id of its stream (``S``, ``#S``, ``!S``).
    stream_id : str
        The stream, table or window it reads.
    schema : Schema
        Its attributes, those that stream functions append included.
    kind : str
        ``state`` is an element of a pattern or sequence, ``table`` also an aggregation.
    multiple : bool
        Whether it holds several events: a counted element of a pattern.
    """

    name: str
    stream_id: str
    schema: Schema
    kind: Literal["stream", "table", "window", "state"] = "stream"
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class Reference:
    """What a name means: an attribute (by position) of a source (by position in `Scope.sources`).

    Parameters
    ----------
    source, attribute : int
        Positions.
    type : Type
        Of the value; a list of all values of a counted element is an ``object``.
    index : EventIndex, optional
        Which event of a counted element, where one is written.
    multiple : bool
        Whether the value is the list of a counted element's values.
    """

    source: int
    attribute: int
    type: Type
    index: ast.EventIndex | None = None
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The sources that an expression may name.

    Parameters
    ----------
    sources : tuple of AttributeSource
        Elements of a pattern are in the order of the text.
    unqualified : tuple of int, optional
        The sources in which a bare attribute name is looked up; all of them if not given.
    qualified : tuple of int, optional
        The sources that may be called by name; all of them if not given.
    counted : str
        What a counted element means that is named without an index: ``list``, all its values, wherever rows are
        selected; ``first``, its first event, in ``having`` and ``order by``; ``event``, one event, in the filters of a
        pattern. A bare attribute name means the first event in the former two.
    tables : tuple of AttributeSource
        What ``in`` may name.
    star_order : tuple of int, optional
        The sources in the order of ``select *``; that of `sources` if not given.
    missing : str
        The code of the error for a bare name that is nowhere: Siddhi has others where there are several sources.
    output : int, optional
        The source that stands for what the query puts out: a bare name is looked up there first; see `results`.
    named : mapping of str to sequence of int, optional
        The positions of `sources` by name, for many of them: a pattern's elements are looked up in it, not searched.
    """

    sources: tuple[AttributeSource, ...]
    unqualified: tuple[int, ...] | None = None
    qualified: Sequence[int] | None = None
    counted: Literal["list", "first", "event"] = "list"
    tables: tuple[AttributeSource, ...] = ()
    star_order: tuple[int, ...] | None = None
    missing: str = ErrorKind.UNDEFINED_ATTRIBUTE
    output: int | None = None
    named: Mapping[str, Sequence[int]] | None = field(default=None, compare=False, repr=False)

    def resolve(self, variable: ast.Variable) -> Reference:
        """Return what `variable` means.

        Raises
        ------
        UndefinedNameError
            No source has it (`ErrorKind.UNDEFINED_ATTRIBUTE`), or its source is not known (yet).
        AppValidationError
            More than one source has it; or none of several.
        """
        if variable.stream is not None:
            source = self.find(variable.stream)
            position = self.sources[source].schema.index(variable.name)
            if position is None:
                raise self._no_attribute(variable, (source,))
            return self._reference(source, position, variable.index)
        if self.output is not None and (put := self.sources[self.output].schema.index(variable.name)) is not None:
            return Reference(self.output, put, self.sources[self.output].schema.types[put])
        places = self._all() if self.unqualified is None else self.unqualified
        found = [(i, p) for i in places if (p := self.sources[i].schema.index(variable.name)) is not None]
        if not found:
            raise self._no_attribute(variable, places)
        # An attribute of the output was taken above: it is never ambiguous
        if len(found) > 1:
            forms = " or ".join(f"{self.sources[i].name}.{variable.name}" for i, _ in found)
            raise AppValidationError(f"'{variable.name}' is ambiguous", span=variable.span, hint=f"Write {forms}.")
        source, position = found[0]
        first = self.counted != "event" and self.sources[source].multiple
        return self._reference(source, position, _FIRST if first else None)

    def find(self, stream: ast.StreamRef) -> int:
        """Return the position of the source called `stream`: the first one of that name; raises UndefinedNameError."""
        id = stream.id
        named: Sequence[int]
        if self.named is None:
            named = [i for i, source in enumerate(self.sources) if source.name == id]
        else:
            named = self.named.get(id, ())
        visible = [i for i in named if self.qualified is None or i in self.qualified]
        if visible:
            return visible[0]
        if named:
            hint = "Only elements before it can be named here, and the one whose filter this is."
            raise UndefinedNameError(f"'{stream.id}' is not known here", span=stream.span, hint=hint)
        kind = UndefinedNameError if self.missing == ErrorKind.UNDEFINED_ATTRIBUTE else AppValidationError
        raise kind(f"There is no source called '{stream.id}' here", span=stream.span, hint=self._source_hint(stream.id))

    def star(self) -> tuple[Reference, ...]:
        """Return what ``select *`` means: all attributes of all sources, in Siddhi's order."""
        order = self._all() if self.star_order is None else self.star_order
        return tuple(
            Reference(i, position, kind) for i in order for position, (_, kind) in enumerate(self.sources[i].schema)
        )

    def name_of(self, reference: Reference) -> str:
        """Return the attribute's name."""
        return self.sources[reference.source].schema.names[reference.attribute]

    def of_element(self, position: int, partner: int | None = None, absent: bool = True) -> Scope:
        """Return the scope of the filters of a pattern's element: its own event, and those of earlier elements.

        Parameters
        ----------
        position : int
            The element's position in `sources`.
        partner : int, optional
            The other side of its ``and`` or ``or``.
        absent : bool
            Whether the element is a ``not``, or has no side that it may not name: an event on the right side of
            ``and`` or ``or`` may not name the left one.
        """
        visible: Sequence[int] = range(position + 1)
        # Siddhi sets up the right side of `and` and `or` before the left one, and looks for a bare name in all that is
        # set up; it fails in another way where something is not.
        if partner is not None and partner > position:
            visible = (*visible, partner)
        elif partner is not None and not absent:
            visible = tuple(one for one in visible if one != partner)
        end = max(position, partner) if partner is not None and partner > position else position
        last = end == len(self.sources) - 1 and (partner is None or partner > position)
        missing = AppValidationError.code if last else UndefinedNameError.code
        return replace(self, unqualified=(position,), qualified=visible, counted="event", missing=missing)

    def results(self, name: str, output: Schema) -> Scope:
        """Return the scope of ``having`` and ``order by``.

        A query over one stream or named window may name there what it puts out, bare or as an attribute of `name`. A
        join, a pattern and a query on demand may also name what they read, by source, or bare where they put out
        nothing of that name; what they put out is only named bare.

        Parameters
        ----------
        name : str
            What the query writes to.
        output : Schema
            What it puts out.
        """
        result = AttributeSource(name, name, output)
        if len(self.sources) == 1 and self.sources[0].kind in ("stream", "window"):
            return Scope((result,), tables=self.tables, missing=self.missing)
        read = self._all()
        sources = (*self.sources, result)
        order = read if self.star_order is None else self.star_order
        scope = replace(self, sources=sources, star_order=order, counted="first", output=len(sources) - 1, named=None)
        return replace(scope, unqualified=read, qualified=read)

    def is_output(self, reference: Reference) -> bool:
        """Tell, in a scope of `results`, whether `reference` is part of what the query puts out."""
        # Over one stream what is put out is the only source
        return reference.source == (self.output or 0)

    def with_table(self, table: AttributeSource) -> Scope:
        """Return this scope with a table that is only meant where its name is written, as in ``(T.a == a) in T``."""
        searched = self._all() if self.unqualified is None else self.unqualified
        position = len(self.sources)
        visible = None if self.qualified is None else (*self.qualified, position)
        return replace(self, sources=(*self.sources, table), unqualified=searched, qualified=visible, named=None)

    def by_name(self) -> Scope:
        """Return this scope with its sources looked up by name: for patterns, which may have many."""
        return replace(self, named=_positions(self.sources))

    def _all(self) -> tuple[int, ...]:
        return tuple(range(len(self.sources)))

    def _reference(self, source: int, position: int, index: ast.EventIndex | None) -> Reference:
        owner = self.sources[source]
        if owner.multiple and index is None and self.counted == "first":
            index = _FIRST
        multiple = owner.multiple and index is None and self.counted == "list"
        return Reference(source, position, Type.OBJECT if multiple else owner.schema.types[position], index, multiple)

    def _no_attribute(self, variable: ast.Variable, places: Iterable[int]) -> SiddhiAppError:
        code = ErrorKind.UNDEFINED_ATTRIBUTE if variable.stream is not None else self.missing
        owners = [self.sources[i] for i in places]
        names = [name for owner in owners for name in owner.schema.names]
        where = f"'{owners[0].name}' has" if len(owners) == 1 else "There is"
        message = f"{where} no attribute '{variable.name}'"
        if variable.name.lower() == "null":
            hint: str | None = _NO_NULL
        else:
            hint = suggestion(variable.name, names)
            if hint is None and len(owners) == 1:
                hint = f"It has: {', '.join(names[:_SHOWN])}{' …' if len(names) > _SHOWN else '.'}"
        error = error_of(code, message, span=variable.span, hint=hint)
        assert isinstance(error, SiddhiAppError)
        return error

    def _source_hint(self, name: str) -> str | None:
        for source in self.sources:
            if source.stream_id == name:
                return f"The stream '{name}' is called '{source.name}' here."
            if source.name.lstrip("#!") == name:
                return f"Write '{source.name}', with its mark."
        return suggestion(name, [source.name for source in self.sources])


def _positions(sources: Sequence[AttributeSource]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for position, source in enumerate(sources):
        found.setdefault(source.name, []).append(position)
    return found


def pattern_elements(element: ast.StateElement) -> Iterator[tuple[ast.StreamState | ast.AbsentState, bool]]:
    """Yield the elements of a pattern or sequence in the order of the text, each with whether it is counted.

    They correspond one to one to the sources of the pattern's scope.
    """
    match element:
        case ast.StreamState() | ast.AbsentState():
            yield element, False
        case ast.CountState():
            yield element.element, True
        case ast.LogicalState():
            yield from ((side, False) for side in (element.left, element.right))
        case ast.EveryState():
            yield from pattern_elements(element.element)
        case ast.ChainState():
            for part in element.elements:
                yield from pattern_elements(part)


def filter_conditions(element: ast.StreamState | ast.AbsentState) -> list[ast.Expression]:
    """Return the conditions of an element of a checked pattern or sequence, which has no other handlers."""
    return [handler.condition for handler in element.input.before if isinstance(handler, ast.Filter)]


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """Return ``Did you mean '…'?`` with the name of `known` that is most like `name`; None where none is."""
    names = sorted(set(known))
    if len(names) > _COMPARED:  # comparing is slow
        names = [other for other in names if other[:1].lower() == name[:1].lower()][:_COMPARED]
    folded = {known_name.lower(): known_name for known_name in names}
    close = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f"Did you mean '{folded[close[0]]}'?" if close else None


def undefined(
    what: str,
    name: str,
    span: Span | None,
    known: Iterable[str],
    code: ErrorKind | None = None,
) -> UndefinedNameError:
    """Return the error for a name that is not known, with the most similar one that is, or how to define it."""
    names = sorted(set(known))
    hint = suggestion(name, names) or _definition_hint(what, name, names, writing=span is not None)
    return UndefinedNameError(f"There is no {what} '{name}'", span=span, hint=hint, code=code)


def _definition_hint(what: str, name: str, known: Sequence[str], *, writing: bool) -> str:
    """Say how to define a name that is like no other, and which there are; where an app is `writing`, not running."""
    listed = f"{', '.join(known[:_SHOWN])}{' …' if len(known) > _SHOWN else ''}"
    there = f"there is {listed}" if known else f"there is no {what} yet" if writing else f"there is no {what}"
    kinds = [kind for kind in ("stream", "table") if kind in what]
    if not writing or not kinds:
        return f"{there[0].upper()}{there[1:]}."
    forms = " or ".join(f"define {kind} {name.lstrip('#!')} (a int, b string)" for kind in kinds)
    return f"Define it in front of the queries: {forms}; {there}."
