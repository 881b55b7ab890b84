"""Regular expressions as trees: what they consist of, and how Python's `re` writes them.

A tree says what Java's expression means; `spdist.java.regex.syntax` reads it, `cost` bounds what running it may
cost, `steps` runs it where that is more than `re` may spend.
"""

from __future__ import annotations

from dataclasses import dataclass

from spdist.java.regex.character_sets import CharacterSet

__all__ = [
    "Assertion",
    "Atomic",
    "BackReference",
    "Branches",
    "CaptureGroup",
    "Chars",
    "Look",
    "Node",
    "Repeat",
    "Sequence",
    "source",
]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    members: CharacterSet


@dataclass(frozen=True, slots=True)
class Assertion:
    """Something about the place, found out by looking at a character or two; `source` is as `re` writes it."""

    source: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Branches:
    """The first of several parts with which the whole fits."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part so often: `mode` is ``""`` (as often as possible), ``"?"`` (as rarely) or ``"+"`` (possessive)."""

    body: Node
    low: int
    high: int | None
    mode: str = ""


@dataclass(frozen=True, slots=True)
class CaptureGroup:
    """A part whose text is kept, under a number and perhaps a name."""

    body: Node
    number: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """Whether a part fits ahead, or behind; `fits` is False for one that must not."""

    body: Node
    ahead: bool
    fits: bool


@dataclass(frozen=True, slots=True)
class Atomic:
    """A part of which only the first way to fit counts."""

    body: Node


@dataclass(frozen=True, slots=True)
class BackReference:
    """What a group has matched, once more; `flags` are those of `re`."""

    number: int
    flags: str = ""


Node = Chars | Assertion | Sequence | Branches | Repeat | CaptureGroup | Look | Atomic | BackReference

_QUANTIFIERS = {(0, 1): "?", (0, None): "*", (1, None): "+"}


def source(node: Node) -> str:
    """Return a part as `re` writes it within a sequence or a group, where nothing need hold it together."""
    match node:
        case Chars(members=members):
            return members.source
        case Assertion():
            return node.source
        case Sequence(parts=parts):
            return "".join(_item(part) if isinstance(part, Branches) else source(part) for part in parts)
        case Branches(options=options):
            return "|".join(map(source, options))
        case Repeat(body=body, low=low, high=high, mode=mode):
            often = _QUANTIFIERS.get((low, high)) or f"{{{low},{'' if high is None else high}}}"
            return f"{_item(body)}{often}{mode}"
        case CaptureGroup(body=body, name=name):
            return f"({'' if name is None else f'?P<{name}>'}{source(body)})"
        case Look(body=body, ahead=ahead, fits=fits):
            return f"(?{'' if ahead else '<'}{'=' if fits else '!'}{source(body)})"
        case Atomic(body=body):
            return f"(?>{source(body)})"
        case BackReference(number=number, flags=flags):
            # In a group of its own: a digit behind it would make it another reference
            return f"(?{flags}:\\{number})"


def _item(node: Node) -> str:
    """Return a part as one item, to which a quantifier may be put."""
    return f"(?:{source(node)})" if isinstance(node, Sequence | Branches | Repeat) else source(node)
