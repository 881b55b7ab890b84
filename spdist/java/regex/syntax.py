r"""Java's regular expressions, read as Java reads them.

The two agree on most, not on all: in Java ``.`` stops at five line ends and ``$`` may stand before one, ``\w``, ``\d``
and case mean ASCII unless ``(?u)`` or ``(?U)`` say otherwise, character classes can be nested and intersected
(``[a-z&&[^aeiou]]``), ``\Q…\E`` quotes, flags change in the middle. All of that is translated; what cannot be is
refused by name.

Notes
-----
Source: java.util.regex.Pattern and Matcher of Java 17 (their documentation), verified on the engine.
"""

from __future__ import annotations

import re
import unicodedata

from spdist.java.regex.character_sets import (
    ASCII_SETS,
    HORIZONTAL,
    LINE_ENDS,
    VERTICAL,
    CharacterSet,
    property_set,
    unicode_set,
)
from spdist.java.regex.tree import (
    Assertion,
    Atomic,
    BackReference,
    Branches,
    CaptureGroup,
    Chars,
    Look,
    Node,
    Repeat,
    Sequence,
)

__all__ = ["JavaRegexError", "UntranslatableRegexError", "read_regex", "shortened"]


class JavaRegexError(ValueError):
    """Java refuses the regular expression too."""


class UntranslatableRegexError(ValueError):
    """Java would run the regular expression, Python cannot."""


#: Longer regular expressions, and deeper ones, are not run: reading them takes time and stack.
_LONGEST = 10_000
_DEEPEST = 50
#: The largest bound of a repetition, as in Java.
_MOST = (1 << 31) - 1


def shortened(regex: str) -> str:
    """Return a regular expression as messages show it."""
    return regex if len(regex) <= 100 else f"{regex[:100]}…"


def read_regex(regex: str) -> Node:
    """Return the tree of a Java regular expression.

    Raises
    ------
    JavaRegexError
        It is none.
    UntranslatableRegexError
        It is one that cannot be run here, or too large.
    """
    if len(regex) > _LONGEST:
        raise UntranslatableRegexError(f"the regular expression '{regex[:40]}…' has more than {_LONGEST} characters")
    return _Translator(regex).translated()


_END = ""
_FLAGS = "idmsuxU"
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_SETS = {"h": HORIZONTAL, "v": VERTICAL}
# In Java $ stands in front of one last line end of any kind, but not between \r and \n
_END_OF_TEXT = r"(?:(?=\r\n\Z|[\r\x85\u2028\u2029]\Z|\Z)|(?<!\r)(?=\n\Z))"
_END_OF_LINE = r"(?:(?=\r\n|[\r\x85\u2028\u2029]|\Z)|(?<!\r)(?=\n))"
# In Java ^ does not fit at the end of the text, even behind a line end
_START_OF_LINE = r"(?:(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n)))"
# (?!\b): Python's \B does not fit into an empty text
_ANCHORS = {"A": r"\A", "z": r"\Z", "b": r"\b", "B": r"(?!\b)"}
_QUANTIFIERS = "?*+{"
_BOUNDS = {"?": (0, 1), "*": (0, None), "+": (1, None)}
# Compared by identity: (?:) is empty as well, but may be repeated
_NOTHING = Sequence(())
_NEVER = Chars(CharacterSet(()))
_ANY_LINE_END = Branches((Sequence((Chars(CharacterSet.of("\r")), Chars(CharacterSet.of("\n")))), Chars(VERTICAL)))


class _RegexReader:
    """Reads a regular expression from left to right: its characters, escapes and classes of characters."""

    def __init__(self, regex: str) -> None:
        self.regex = regex
        self.at = 0
        self.flags: frozenset[str] = frozenset()
        self.groups = 0
        self.closed: set[int] = set()
        self.names: dict[str, int] = {}

    def _wrong(self, what: str) -> JavaRegexError:
        return JavaRegexError(f"'{shortened(self.regex)}' is no regular expression: {what} near position {self.at}")

    def _cannot(self, what: str) -> UntranslatableRegexError:
        return UntranslatableRegexError(
            f"the regular expression '{shortened(self.regex)}' uses {what}, which is not supported"
        )

    def _peek(self) -> str:
        if "x" in self.flags:
            self._skip_comments()
        return self.regex[self.at : self.at + 1]

    def _skip_comments(self) -> None:
        while self.at < len(self.regex):
            character = self.regex[self.at]
            if character == "#":
                while self.at < len(self.regex) and self.regex[self.at] not in "\n\r\x85\u2028\u2029":
                    self.at += 1
            elif character in " \t\n\x0b\f\r":
                self.at += 1
            else:
                return

    def _next(self) -> str:
        character = self.regex[self.at : self.at + 1]
        self.at += 1
        return character

    def _accept(self, text: str) -> bool:
        if self.regex.startswith(text, self.at):
            self.at += len(text)
            return True
        return False

    def _until(self, end: str, what: str) -> str:
        stop = self.regex.find(end, self.at)
        if stop < 0:
            raise self._wrong(f"{what} without '{end}'")
        text, self.at = self.regex[self.at : stop], stop + len(end)
        return text

    # Escapes.

    def _escaped_characters(self) -> CharacterSet | str:
        """Read what may stand after a backslash in a class and outside: a set of characters, or one character."""
        character = self._next()
        kind = character.lower()
        if kind in ASCII_SETS or kind in _SETS:
            found = _SETS.get(kind) or (unicode_set(kind) if "U" in self.flags else ASCII_SETS[kind])
            return found if character == kind else found.negated()
        if kind == "p":
            return self._property(character == "P")
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character in ("x", "u", "0", "c", "N"):
            return self._numbered(character)
        if character == _END or (character.isascii() and character.isalnum()):
            raise self._wrong(f"an unknown escape '\\{character}'")
        return character

    def _numbered(self, kind: str) -> str:
        if kind == "c":
            if self.at >= len(self.regex):
                raise self._wrong("an incomplete control character")
            # Java turns one bit round, whatever the character is
            return chr(ord(self._next()) ^ 64)
        if kind == "N":
            if not self._accept("{"):
                raise self._wrong("an incomplete name")
            try:
                return unicodedata.lookup(self._until("}", "a name"))
            except KeyError:
                raise self._wrong("an unknown name of a character") from None
        if kind == "0":
            return chr(int(self._digits(r"[0-3][0-7]{0,2}|[0-7]{1,2}"), 8))
        if kind == "x" and self._accept("{"):
            code = int(self._digits(r"[0-9A-Fa-f]{1,6}(?=\})"), 16)
            self.at += 1
            if code > 0x10FFFF:
                raise self._wrong("a code point that is too large")
            return chr(code)
        code = int(self._digits("[0-9A-Fa-f]{2}" if kind == "x" else "[0-9A-Fa-f]{4}"), 16)
        # Java reads the two escapes of a surrogate pair as one character
        low = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})").match(self.regex, self.at)
        if kind == "u" and 0xD800 <= code < 0xDC00 and low is not None:
            self.at = low.end()
            code = 0x10000 + ((code - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        return chr(code)

    def _digits(self, form: str) -> str:
        found = re.compile(form).match(self.regex, self.at)
        if found is None:
            raise self._wrong("an incomplete number of a character")
        self.at = found.end()
        return found.group()

    def _property(self, negated: bool) -> CharacterSet:
        name = self._until("}", "a property") if self._accept("{") else self._next()
        if not name:
            raise self._wrong("a property without name")
        found = property_set(name, "i" in self.flags)
        if found is None:
            raise self._cannot(f"the property '{name}'")
        return found.negated() if negated else found

    # Classes of characters.

    def _class(self, inner: bool = False, depth: int = 0) -> CharacterSet:
        """Read a class behind its ``[``, or, where it is `inner`, what stands behind ``&&`` up to the ``]``."""
        if depth > _DEEPEST:
            raise self._cannot(f"classes that are nested more than {_DEEPEST} deep")
        negated = not inner and self._accept("^")
        found: CharacterSet | None = None
        while True:
            character = self._peek()
            if character == _END:
                raise self._wrong("an unclosed class of characters")
            # In the first place a ] is a member
            if character == "]" and found is not None:
                # The ] behind && closes the class around it too, which reads it
                self.at += not inner
                return found.negated() if negated else found
            if self._accept("&&"):
                found = self._intersected(found, depth)
                continue
            part = self._nested(depth) if character == "[" else self._range()
            found = part if found is None else found.union(part)

    def _nested(self, depth: int) -> CharacterSet:
        self.at += 1
        return self._class(depth=depth + 1)

    def _intersected(self, left: CharacterSet | None, depth: int) -> CharacterSet:
        right: CharacterSet | None = None
        while (character := self._peek()) not in ("]", "&"):
            if character == _END:
                raise self._wrong("an unclosed class of characters")
            if character != "[":
                right = self._class(inner=True, depth=depth + 1)
            else:
                nested = self._nested(depth)
                right = nested if right is None else right.union(nested)
        if left is None and right is None:
            raise self._wrong("an empty intersection")
        if left is None or right is None:
            return left or right or CharacterSet(())
        return left.common(right)

    def _range(self) -> CharacterSet:
        if self._accept("\\Q"):
            return self._cased(CharacterSet.of(self._until("\\E", "a quotation")))
        first = self._class_member()
        if isinstance(first, CharacterSet):
            return first
        # In front of a bracket the - means itself
        if self._peek() == "-" and self.regex[self.at + 1 : self.at + 2] not in ("]", "[", _END):
            self.at += 1
            # Passes over blanks and comments of (?x)
            self._peek()
            last = self._class_member()
            if isinstance(last, CharacterSet) or last < first:
                raise self._wrong("an illegal range of characters")
            return self._cased(CharacterSet.of((ord(first), ord(last))))
        return self._cased(CharacterSet.of(first))

    def _class_member(self) -> CharacterSet | str:
        character = self._next()
        return self._escaped_characters() if character == "\\" else character

    def _cased(self, members: CharacterSet) -> CharacterSet:
        return members.in_any_case(bool(self.flags & {"u", "U"})) if "i" in self.flags else members


class _Translator(_RegexReader):
    """Makes the tree of a regular expression: its branches, groups and repetitions."""

    def __init__(self, regex: str) -> None:
        super().__init__(regex)
        self._depth = 0

    def translated(self) -> Node:
        tree = self._branches()
        if self.at < len(self.regex):
            raise self._wrong("a ')' without its '('")
        return tree

    # Structure.

    def _branches(self) -> Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self.at += 1
            branches.append(self._sequence())
        return Branches(tuple(branches)) if len(branches) > 1 else branches[0]

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while (character := self._peek()) not in (_END, "|", ")"):
            if self._accept("\\Q"):
                parts += self._quoted()
                continue
            atom = self._atom(character)
            if atom is not _NOTHING:
                parts.append(self._repeated(atom))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        stop = self.regex.find("\\E", self.at)
        text = self.regex[self.at :] if stop < 0 else self.regex[self.at : stop]
        self.at = len(self.regex) if stop < 0 else stop + 2
        atoms: list[Node] = [self._literal(character) for character in text]
        if atoms:
            # A quantifier behind the quotation belongs to its last character
            atoms[-1] = self._repeated(atoms[-1])
        return atoms

    def _repeated(self, atom: Node) -> Node:
        character = self._peek()
        if character == _END or character not in _QUANTIFIERS:
            return atom
        self.at += 1
        low, high = self._bounds() if character == "{" else _BOUNDS[character]
        mode = self._next() if self._peek() in ("?", "+") else ""
        return Repeat(atom, low, high, mode)

    def _bounds(self) -> tuple[int, int | None]:
        bounds = re.compile(r"([0-9]+)(,?)([0-9]*)\}").match(self.regex, self.at)
        # Java reads up to 2^31 - 1; Python would not even read thousands of digits.
        if bounds is None or (bounds[3] and not bounds[2]) or max(len(bounds[1]), len(bounds[3])) > 20:
            raise self._wrong("an illegal repetition")
        low = int(bounds[1])
        high = int(bounds[3]) if bounds[3] else None if bounds[2] else low
        if low > _MOST or (high is not None and not low <= high <= _MOST):
            raise self._wrong("an illegal repetition")
        self.at = bounds.end()
        return low, high

    def _atom(self, character: str) -> Node:
        if character in _QUANTIFIERS:
            raise self._wrong(f"a dangling '{character}'")
        if character == "\\":
            return self._escaped()
        self.at += 1
        if character == "[":
            return Chars(self._class())
        if character == "(":
            return self._group()
        if character == "^":
            return Assertion(_START_OF_LINE if "m" in self.flags else r"(?:\A)")
        if character == "$":
            return Assertion(self._dollar())
        if character == ".":
            return Chars(self._dot())
        return self._literal(character)

    def _dollar(self) -> str:
        if "d" in self.flags:
            return r"(?=\n|\Z)" if "m" in self.flags else r"(?=\n?\Z)"
        return _END_OF_LINE if "m" in self.flags else _END_OF_TEXT

    def _dot(self) -> CharacterSet:
        if "s" in self.flags:
            return CharacterSet(()).negated()
        return (CharacterSet.of("\n") if "d" in self.flags else LINE_ENDS).negated()

    def _literal(self, character: str) -> Node:
        members = CharacterSet.of(character)
        return Chars(members.in_any_case("u" in self.flags or "U" in self.flags) if "i" in self.flags else members)

    # Groups.

    def _group(self) -> Node:
        outside = self.flags
        node: Node
        if not self._accept("?"):
            node = self._captured(None)
        elif self._accept("<=") or self._accept("<!"):
            node = self._behind(self.regex[self.at - 1] == "=")
        elif self._accept("<"):
            name = self._until(">", "a name")
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name) or name in self.names:
                raise self._wrong(f"the group name '{name}'")
            self.names[name] = self.groups + 1
            node = self._captured(name)
        elif (kind := self._next()) in (":", "=", "!", ">") and kind:
            body = self._inside()
            node = body if kind == ":" else Atomic(body) if kind == ">" else Look(body, ahead=True, fits=kind == "=")
        else:
            self.at -= 1
            if not self._changed_flags():
                return _NOTHING  # (?i) alone holds to the end of the group around it
            node = self._inside()
        self.flags = outside
        return node

    def _captured(self, name: str | None) -> Node:
        self.groups += 1
        # Taken before what is inside is read: groups are numbered by their opening brackets
        number = self.groups
        body = self._inside()
        self.closed.add(number)
        return CaptureGroup(body, number, name)

    def _inside(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._cannot(f"groups that are nested more than {_DEEPEST} deep")
        node = self._branches()
        if self._next() != ")":
            raise self._wrong("an unclosed group")
        self._depth -= 1
        return node

    def _behind(self, fits: bool) -> Node:
        # Python wants branches of one width; those of different widths can stand apart.
        inside = self._inside()
        branches = inside.options if isinstance(inside, Branches) else (inside,)
        looks = tuple(Look(branch, ahead=False, fits=fits) for branch in branches)
        return Branches(looks) if fits else Sequence(looks)

    def _changed_flags(self) -> bool:
        """Read flags; tell whether they are those of a group, not of all that follows."""
        on = True
        while (character := self._next()) not in (":", ")"):
            if character == "-" and on:
                on = False
            elif character and character in _FLAGS:
                self.flags = self.flags | {character} if on else self.flags - {character}
            else:
                raise self._wrong("an unknown flag or kind of group")
        return character == ":"

    # Escapes.

    def _escaped(self) -> Node:
        self.at += 1
        character = self._next()
        if character == _END:
            raise self._wrong("a backslash at the end")
        if character in "123456789":
            return self._backreference(character)
        if character == "k":
            if not self._accept("<"):
                raise self._wrong(r"'\k' without '<'")
            name = self._until(">", "a name")
            if name not in self.names:
                raise self._wrong(f"no group is named '{name}' so far")
            return self._reference(self.names[name])
        if character in "GX" or (character == "b" and self._accept("{g}")):
            raise self._cannot(f"'\\{character}'")
        if character in _ANCHORS:
            return Assertion(f"(?:{_ANCHORS[character]})")
        if character == "Z":
            return Assertion(r"(?=\n?\Z)" if "d" in self.flags else _END_OF_TEXT)
        if character == "R":
            return _ANY_LINE_END
        self.at -= 1
        found = self._escaped_characters()
        return Chars(found) if isinstance(found, CharacterSet) else self._literal(found)

    def _backreference(self, digits: str) -> Node:
        # A further digit belongs to it only where there is such a group.
        while (more := self.regex[self.at : self.at + 1]).isdecimal() and int(digits + more) <= self.groups:
            digits += more
            self.at += 1
        return self._reference(int(digits))

    def _reference(self, number: int) -> Node:
        if number not in self.closed:
            return _NEVER  # what has not matched yet never matches again
        return BackReference(number, "" if "i" not in self.flags else "i" if self.flags & {"u", "U"} else "ai")
