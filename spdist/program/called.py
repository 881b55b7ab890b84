"""Elements of an app that have no typed form: their operators are called where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spdist.language.ast import Expression
from spdist.language.types import Type
from spdist.program.aggregations.bucket_shape import Bucketed
from spdist.program.expressions import NotTyped

__all__ = ["CallSite", "Called"]


@dataclass(frozen=True, slots=True, eq=False)
class Called:
    """An element that has no typed form: a query, a whole partition, or an aggregation.

    Parameters
    ----------
    names : tuple of str
        Of its queries, or of the aggregation.
    streams : tuple of str
        What it reads, each once.
    why : NotTyped
        What has no typed form, and where it stands.
    filters : mapping of str to tuple of Expression
        By stream the conditions that stand in front of everything else: where they have a typed form, it is called
        with the events that meet them. They name attributes of the stream only.
    adds : Bucketed, optional
        Of an aggregation whose events the loop adds: it is called only with those that are not added to an open bucket.
    """

    names: tuple[str, ...]
    streams: tuple[str, ...]
    why: NotTyped
    filters: Mapping[str, tuple[Expression, ...]] = field(default_factory=dict)
    adds: Bucketed | None = None


@dataclass(frozen=True, slots=True)
class CallSite:
    """A place of the text where an element is called.

    Parameters
    ----------
    element : Called
        The element.
    stream : str
        What it reads there.
    owner : str
        The prefix of the arrays that have the events' timestamps and attributes.
    types : tuple of Type
        Of the attributes.
    given : bool
        Whether whoever has called the loop knows the events: there are no arrays of all attributes then.
    nested : bool
        Whether the operators have brought the events: then the stream itself looks after an error.
    picked : str
        The array of the places of the events that meet the conditions; empty where there are none.
    """

    element: Called
    stream: str
    owner: str
    types: tuple[Type, ...]
    given: bool
    nested: bool
    picked: str
