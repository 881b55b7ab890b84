r"""Sets of characters as Java's regular expressions name them: ranges of code points, and the properties behind ``\p``.

Source: java.util.regex.Pattern and CharPredicates (their documentation).
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "ASCII_SETS",
    "HORIZONTAL",
    "LINE_ENDS",
    "VERTICAL",
    "CharacterSet",
    "property_set",
    "unicode_set",
]

_LAST = sys.maxunicode
Range = tuple[int, int]


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _written(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\U{code:08x}"


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """A set of characters: `ranges` of code points, both ends included, in order and apart from each other."""

    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, *parts: str | Range) -> CharacterSet:
        """Return the set of all characters of texts and of ranges ``(first, last)``."""
        ranges: list[Range] = []
        for part in parts:
            ranges += [(ord(c), ord(c)) for c in part] if isinstance(part, str) else [part]
        return cls(_merged(ranges))

    def union(self, other: CharacterSet) -> CharacterSet:
        """Return what is in either."""
        return CharacterSet(_merged((*self.ranges, *other.ranges)))

    def negated(self) -> CharacterSet:
        """Return what is not in it."""
        gaps, at = [], 0
        for low, high in self.ranges:
            if low > at:
                gaps.append((at, low - 1))
            at = high + 1
        return CharacterSet((*gaps, (at, _LAST)) if at <= _LAST else tuple(gaps))

    def common(self, other: CharacterSet) -> CharacterSet:
        """Return what is in both."""
        return self.negated().union(other.negated()).negated()

    def in_any_case(self, unicode: bool) -> CharacterSet:
        """Return the set with the other case of each letter, of those of ASCII or of all."""
        if unicode:
            letters = CharacterSet(self.common(_cased()).ranges)
            texts = (chr(code) for low, high in letters.ranges for code in range(low, high + 1))
            # Python makes SS of ß, Java leaves what is no single character as it is
            return self.union(CharacterSet.of("".join(v for c in texts for v in _variants(c) if len(v) == 1)))
        cases = [
            # One bit tells the cases of ASCII apart
            (max(low, first) ^ 0x20, min(high, last) ^ 0x20)
            for low, high in self.ranges
            for first, last in ((0x41, 0x5A), (0x61, 0x7A))
            if max(low, first) <= min(high, last)
        ]
        return self.union(CharacterSet(_merged(cases)))

    @property
    def source(self) -> str:
        """The set as Python's `re` writes it."""
        if not self.ranges:
            # `re` has no empty class; this fits nowhere
            return "(?!)"
        shown, sign = self, ""
        # Most such sets are complements, whose missing part is the shorter text
        if self.ranges[-1][1] == _LAST:
            shown, sign = self.negated(), "^"
        if not shown.ranges:
            return r"[\s\S]"
        parts = (_written(a) if a == b else f"{_written(a)}-{_written(b)}" for a, b in shown.ranges)
        return f"[{sign}{''.join(parts)}]"


def _variants(character: str) -> tuple[str, ...]:
    upper = character.upper()
    # Java compares the lower cases of the upper cases, and so finds ſ equal to s
    return upper, upper.lower(), character.lower()


def _where(holds: Callable[[str], bool]) -> CharacterSet:
    ranges: list[list[int]] = []
    for code in range(_LAST + 1):
        if holds(chr(code)):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return CharacterSet(tuple((low, high) for low, high in ranges))


@lru_cache(maxsize=1)
def _cased() -> CharacterSet:
    return _where(lambda c: c.lower() != c or c.upper() != c)


#: ``\d``, ``\s`` and ``\w``.
ASCII_SETS = {
    "d": CharacterSet.of((0x30, 0x39)),
    "s": CharacterSet.of(" ", (0x09, 0x0D)),
    "w": CharacterSet.of("_", (0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
}
#: Blanks and line ends: ``\h``, ``\v``, and what ends a line for ``.``, ``^`` and ``$``.
HORIZONTAL = CharacterSet.of(" \t\xa0\u1680\u180e\u202f\u205f\u3000", (0x2000, 0x200A))
VERTICAL = CharacterSet.of("\x85\u2028\u2029", (0x0A, 0x0D))
LINE_ENDS = CharacterSet.of("\n\r\x85\u2028\u2029")

_POSIX = {
    "Lower": CharacterSet.of((0x61, 0x7A)),
    "Upper": CharacterSet.of((0x41, 0x5A)),
    "ASCII": CharacterSet.of((0, 0x7F)),
    "Alpha": CharacterSet.of((0x41, 0x5A), (0x61, 0x7A)),
    "Digit": CharacterSet.of((0x30, 0x39)),
    "Alnum": CharacterSet.of((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "Punct": CharacterSet.of((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)),
    "Graph": CharacterSet.of((0x21, 0x7E)),
    "Print": CharacterSet.of((0x20, 0x7E)),
    "Blank": CharacterSet.of(" \t"),
    "Cntrl": CharacterSet.of((0, 0x1F), "\x7f"),
    "XDigit": CharacterSet.of((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
    "Space": CharacterSet.of(" ", (0x09, 0x0D)),
    "L1": CharacterSet.of((0, 0xFF)),
    "all": CharacterSet.of((0, _LAST)),
    "javaISOControl": CharacterSet.of((0, 0x1F), (0x7F, 0x9F)),
}
_CATEGORIES = "C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
_NO_BREAK = "\xa0\u2007\u202f"


def _category(*wanted: str) -> Callable[[str], bool]:
    return lambda c: unicodedata.category(c).startswith(wanted)


_PREDICATES: dict[str, Callable[[str], bool]] = {
    **{name: _category(name) for name in _CATEGORIES.split()},
    "LC": _category("Lu", "Ll", "Lt"),
    "LD": _category("L", "Nd"),
    "javaLowerCase": str.islower,
    "javaUpperCase": str.isupper,
    "javaTitleCase": _category("Lt"),
    "javaAlphabetic": _category("L", "Nl"),
    "javaLetter": _category("L"),
    "javaDigit": _category("Nd"),
    "javaLetterOrDigit": _category("L", "Nd"),
    "javaSpaceChar": _category("Z"),
    "javaWhitespace": lambda c: (
        c in "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f" or (unicodedata.category(c)[0] == "Z" and c not in _NO_BREAK)
    ),
    "javaMirrored": lambda c: unicodedata.mirrored(c) == 1,
    "javaDefined": lambda c: unicodedata.category(c) != "Cn",
    "isalphabetic": _category("L", "Nl"),
    "isletter": _category("L"),
    "islowercase": str.islower,
    "isuppercase": str.isupper,
    "istitlecase": _category("Lt"),
    "isdigit": _category("Nd"),
    "ispunctuation": _category("P"),
    "iscontrol": _category("Cc"),
    "iswhite_space": lambda c: c in "\t\n\x0b\x0c\r\x85" or unicodedata.category(c)[0] == "Z",
    "word": _category("L", "M", "Nd", "Nl", "Pc"),
}


# Each set costs a walk over all code points
@lru_cache(maxsize=64)
def _named(name: str) -> CharacterSet:
    holds = _PREDICATES.get(name) or _PREDICATES[name.lower()]
    return _where(holds)


# Where case does not matter, each of these means any letter that has one.
_ONE_CASE = {"Lu", "Ll", "Lt", "javaLowerCase", "javaUpperCase", "javaTitleCase"}
_ONE_CASE |= {"IsLowercase", "IsUppercase", "IsTitlecase"}


def property_set(name: str, any_case: bool = False) -> CharacterSet | None:
    r"""Return the set that ``\p{name}`` means: a general category, a POSIX class, or one of Java's own.

    `any_case` is for expressions in which case does not matter. None for what Python's character database does not
    tell: scripts and blocks, and rarer properties.
    """
    key, separator, value = name.partition("=")
    if separator:
        if key.lower() not in ("general_category", "gc"):
            return None
        name = value
    if name in _POSIX:
        return _POSIX["Alpha" if any_case and name in ("Lower", "Upper") else name]
    if name.startswith("Is") and name[2:] in (*_CATEGORIES.split(), "LC", "LD"):
        name = name[2:]
    if any_case and name in _ONE_CASE:
        name = "LC"
    # Keys in small letters are those of Is…, which Java takes in any case; alone they are no properties
    if name in _PREDICATES and not name.islower():
        return _named(name)
    return _named(name) if name.startswith("Is") and name.lower() in _PREDICATES else None


def unicode_set(kind: str) -> CharacterSet:
    r"""Return what ``(?U)`` makes of ``\d``, ``\s`` and ``\w``."""
    return _named({"d": "Nd", "s": "IsWhite_Space", "w": "word"}[kind])
