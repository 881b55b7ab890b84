"""Regular expressions as programs for counted steps (`spdist.java.regex.steps`): a list of instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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
    source,
)

__all__ = [
    "ATOMIC",
    "FITS",
    "JUMP",
    "LEAF",
    "LOOK",
    "MARK",
    "MOVED",
    "REFERENCE",
    "RUN",
    "SAVE",
    "SPLIT",
    "Instruction",
    "RegexProgram",
    "RegexStepsError",
    "program_of",
]

#: Instructions of a program: bounded repetitions are written out.
_LARGEST_PROGRAM = 20_000


class RegexStepsError(ValueError):
    """The regular expression takes too many steps on this text, or its program is too large."""


LEAF, SPLIT, JUMP, SAVE, RUN, LOOK, ATOMIC, REFERENCE, MARK, MOVED, FITS = range(11)
Instruction = tuple[Any, ...]
_Match = Callable[[str, int], Any]


@dataclass(slots=True)
class RegexProgram:
    """Instructions with what they need besides the place in the text.

    `marks` are the registers that loops with possibly empty bodies keep, `read` the groups that references read: what
    happens at a place depends on them too.
    """

    groups: int
    code: list[Instruction] = field(default_factory=list)
    marks: int = 0
    read: set[int] = field(default_factory=set)

    def add(self, *instruction: Any) -> int:
        """Append an instruction and return where it stands."""
        if len(self.code) >= _LARGEST_PROGRAM:
            raise RegexStepsError("its repetitions are too many")
        self.code.append(instruction)
        return len(self.code) - 1


def program_of(tree: Node, groups: int) -> RegexProgram:
    """Return the program of a tree with so many groups.

    Raises
    ------
    RegexStepsError
        Its bounded repetitions are too many to be written out.
    """
    program = RegexProgram(groups)
    _RegexWriter(program).write(tree)
    program.add(FITS)
    return program


class _RegexWriter:
    """Writes the program of a tree."""

    def __init__(self, program: RegexProgram) -> None:
        self.program = program
        self.add = program.add
        self._read = program.read

    def write(self, node: Node) -> None:
        match node:
            case Chars() | Assertion():
                self.add(LEAF, _matcher(source(node)))
            case Sequence(parts=parts):
                self._sequence(parts)
            case CaptureGroup(body=body, number=number):
                self.add(SAVE, 2 * number)
                self.write(body)
                self.add(SAVE, 2 * number + 1)
            case Branches(options=options):
                self._branches(options)
            case Repeat():
                self._repeat(node)
            case Atomic(body=body):
                self.add(ATOMIC, self._inner(body))
            case Look(body=body, ahead=ahead, fits=fits):
                self.add(LOOK, self._inner(body), 0 if ahead else _width(body), fits)
            case BackReference(number=number):
                self._read.add(number)
                self.add(REFERENCE, number, bool(node.flags), "a" in node.flags)

    def _inner(self, body: Node) -> RegexProgram:
        # One set for all: what a reference within a look reads decides about places around it too
        program = RegexProgram(self.program.groups, read=self._read)
        _RegexWriter(program).write(body)
        program.add(FITS)
        return program

    def _sequence(self, parts: tuple[Node, ...]) -> None:
        plain: list[Node] = []
        # What `re` matches in one way stays together: one instruction for many characters
        for part in (*parts, None):
            if isinstance(part, Chars | Assertion):
                plain.append(part)
                continue
            if plain:
                self.add(LEAF, _matcher(source(Sequence(tuple(plain)))))
                plain = []
            if part is not None:
                self.write(part)

    def _branches(self, options: tuple[Node, ...]) -> None:
        ends = []
        for option in options[:-1]:
            # Its targets are known once the branch is written
            split = self.add(SPLIT)
            self.write(option)
            ends.append(self.add(JUMP))
            self.program.code[split] = (SPLIT, split + 1, len(self.program.code))
        self.write(options[-1])
        for end in ends:
            self.program.code[end] = (JUMP, len(self.program.code))

    def _repeat(self, node: Repeat) -> None:
        if node.mode == "+":
            # In Java, too, each pass keeps the first way in which it fits.
            body = node.body if isinstance(node.body, Chars) else Atomic(node.body)
            self.add(ATOMIC, self._inner(Repeat(body, node.low, node.high)))
        elif isinstance(node.body, Chars):
            most = "" if node.high is None else node.high
            longest = _matcher(f"{source(node.body)}{{0,{most}}}")
            self.add(RUN, longest, node.low, node.mode == "?", node.high is None)
        else:
            # Written out, since an instruction keeps no count
            for _ in range(node.low):
                self.write(node.body)
            if node.high is None:
                self._loop(node)
            else:
                self._optional(node, node.high - node.low)

    def _optional(self, node: Repeat, often: int) -> None:
        splits = []
        for _ in range(often):
            splits.append(self.add(SPLIT))
            self._once(node.body)
        end = len(self.program.code)
        for split in splits:
            ways = (split + 1, end)
            self.program.code[split] = (SPLIT, *(ways[::-1] if node.mode == "?" else ways))
        self._close(end)

    def _loop(self, node: Repeat) -> None:
        split = self.add(SPLIT)
        self._once(node.body)
        self.add(JUMP, split)
        end = len(self.program.code)
        ways = (split + 1, end)
        self.program.code[split] = (SPLIT, *(ways[::-1] if node.mode == "?" else ways))
        self._close(end)

    def _once(self, body: Node) -> None:
        """Write one more pass: an empty one is the last, as in Java."""
        if not _may_be_empty(body):
            self.write(body)
            return
        register = self.program.marks
        self.program.marks += 1
        self.add(MARK, register)
        self.write(body)
        self.add(MOVED, register, None)

    def _close(self, end: int) -> None:
        # Inner loops have their ends by now: what is still open belongs to this one
        for at, instruction in enumerate(self.program.code):
            if instruction[0] == MOVED and instruction[2] is None:
                self.program.code[at] = (MOVED, instruction[1], end)


def _matcher(regex: str) -> _Match:
    return re.compile(regex).match


def _may_be_empty(node: Node) -> bool:
    match node:
        case Chars():
            return False
        case Repeat(body=body, low=low):
            return low == 0 or _may_be_empty(body)
        case Sequence(parts=parts):
            return all(map(_may_be_empty, parts))
        case Branches(options=options):
            return any(map(_may_be_empty, options))
        case CaptureGroup(body=body) | Atomic(body=body):
            return _may_be_empty(body)
    return True


def _width(node: Node) -> int:
    """Return how many characters a part behind takes; `re` has seen to it that there is one number."""
    match node:
        case Chars():
            return 1
        case Repeat(body=body, low=low):
            return low * _width(body)
        case Sequence(parts=parts):
            return sum(map(_width, parts))
        case Branches(options=options):
            return _width(options[0])
        case CaptureGroup(body=body) | Atomic(body=body):
            return _width(body)
    return 0
