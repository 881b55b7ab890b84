"""Runs a regular expression in counted steps: for those that may take `re` longer than an event may take.

What has failed at a place of the text is never tried there again, so most expressions take steps in proportion to the
length of the text, those that hang `re` among them. Back references and looks around may still take more; the count of
steps then ends the search. It depends on the expression and the text only: a replay ends at the same step.

Notes
-----
Source: backtracking with memory (Norvig 1991; BitState of RE2, Russ Cox 2010), extended by what Java's have more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spdist.java.regex.program import (
    ATOMIC,
    FITS,
    JUMP,
    LEAF,
    LOOK,
    MARK,
    MOVED,
    REFERENCE,
    RUN,
    SAVE,
    SPLIT,
    Instruction,
    RegexProgram,
    RegexStepsError,
    program_of,
)
from spdist.java.regex.tree import Node

__all__ = ["MOST_STEPS", "RegexMatch", "RegexStepsError", "SteppedPattern"]

#: Of one search: about a second.
MOST_STEPS = 500_000
#: So many characters that one instruction reads count as a step.
_READ_TOGETHER = 64

Spans = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RegexMatch:
    """A match; as far as it goes, what `re.Match` is."""

    string: str
    re: re.Pattern[str]
    spans: Spans

    def start(self, group: int | str = 0) -> int:
        """Return where a group begins, -1 if it took no part."""
        return self.spans[2 * self._number(group)]

    def end(self, group: int | str = 0) -> int:
        """Return where a group ends, -1 if it took no part."""
        return self.spans[2 * self._number(group) + 1]

    def group(self, group: int | str = 0) -> str | None:
        """Return what a group matched, None if it took no part."""
        start = self.start(group)
        return None if start < 0 else self.string[start : self.end(group)]

    def _number(self, group: int | str) -> int:
        number = self.re.groupindex[group] if isinstance(group, str) else group
        if not 0 <= number <= self.re.groups:
            raise IndexError("no such group")
        return number


class SteppedPattern:
    """A pattern as `re.Pattern` is, as far as it goes.

    Parameters
    ----------
    compiled : re.Pattern
        The same for `re`, which is asked for its groups.
    tree : Node
        What it means.
    begins : str
        What every match begins with, as `re` writes it: one character, an assertion, or nothing.

    Raises
    ------
    RegexStepsError
        Its bounded repetitions are too many to be written out.
    """

    def __init__(self, compiled: re.Pattern[str], tree: Node, begins: str) -> None:
        self._re = compiled
        self._begins = re.compile(begins)
        self._program = program_of(tree, compiled.groups)

    def searcher(self, text: str) -> Callable[[int], RegexMatch | None]:
        """Return what gives the first match from a place on; it counts the steps of all its calls together.

        It raises RegexStepsError where they are too many.
        """
        return partial(self._searched, _RegexSearch(text, whole=False), text)

    def _searched(self, search: _RegexSearch, text: str, at: int) -> RegexMatch | None:
        # Where a match can begin is found by `re`: a single character cannot make it go back
        while at <= len(text) and (begin := self._begins.search(text, at)) is not None:
            spans = search.run(self._program, begin.start(), self._nothing)
            if spans is not None:
                search.failures.clear()  # what led to the match has not failed
                return self._found(text, spans)
            at = begin.start() + 1
        return None

    def match(self, text: str) -> RegexMatch | None:
        """Return the match at the beginning of the text; raises as `search` does."""
        return self._found(text, _RegexSearch(text, whole=False).run(self._program, 0, self._nothing))

    def fullmatch(self, text: str) -> RegexMatch | None:
        """Return the match of the whole text; raises as `search` does."""
        return self._found(text, _RegexSearch(text, whole=True).run(self._program, 0, self._nothing))

    @property
    def _nothing(self) -> Spans:
        return (-1, -1) * (self._re.groups + 1)

    def _found(self, text: str, spans: Spans | None) -> RegexMatch | None:
        return None if spans is None else RegexMatch(text, self._re, spans)


@dataclass(slots=True)
class _Failures:
    """What has failed while a program ran, so that it need not be tried again.

    `states` are places in program and text. Of a run of characters that has no upper bound, `runs` keeps where it began
    and ended, and `tried` the lowest end from which the rest was tried, so that a start further on has nothing to try.
    """

    states: set[Any] = field(default_factory=set)
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)
    tried: dict[Any, int] = field(default_factory=dict)


@dataclass(slots=True)
class _State:
    """Where a search is: at an instruction, at a place of the text, with groups and marks of loops.

    `choice` is where a run of characters is to end this time, -1 for the first time.
    """

    at: int
    place: int
    spans: Spans
    marks: Spans
    choice: int = -1


class _RegexSearch:
    """One search in one text, with its count of steps."""

    def __init__(self, text: str, *, whole: bool) -> None:
        self.text = text
        self.whole = whole
        self.steps = 0
        self.failures: dict[int, _Failures] = {}
        self._rules = {
            LEAF: self._leaf,
            SPLIT: self._split,
            JUMP: self._jump,
            SAVE: self._save,
            RUN: self._run,
            LOOK: self._look,
            ATOMIC: self._atomic,
            REFERENCE: self._reference,
            MARK: self._mark,
            MOVED: self._moved,
        }

    def run(self, program: RegexProgram, start: int, spans: Spans, *, inner: bool = False) -> Spans | None:
        """Return the groups of the first way in which a program fits from `start` on, group 0 for all of it."""
        # For each program: what fails within a look has not failed outside of it
        failures = self.failures.setdefault(id(program), _Failures())
        frame = _Frame(program, failures, [_State(0, start, spans, (-1,) * program.marks)])
        while frame.waiting:
            # The last one first: `re` and Java, too, go into the depth
            state = frame.waiting.pop()
            while True:
                self.steps += 1
                if self.steps > MOST_STEPS:
                    raise RegexStepsError(f"it takes more than {MOST_STEPS} steps")
                instruction = program.code[state.at]
                if instruction[0] != FITS:
                    if not self._rules[instruction[0]](instruction, state, frame):
                        break
                elif inner or not self.whole or state.place == len(self.text):
                    if inner:
                        del self.failures[id(program)]  # what it went through has not failed
                    return (start, state.place, *state.spans[2:])
                else:
                    break
        return None

    # Each takes an instruction and changes the state; False where that way fails.

    def _leaf(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        found = instruction[1](self.text, state.place)
        if found is None:
            return False
        state.place = found.end()
        state.at += 1
        return True

    def _split(self, instruction: Instruction, state: _State, frame: _Frame) -> bool:
        key = self._key(frame.program, state)
        if key in frame.failures.states:
            return False
        # Noted before it is tried: who comes here again has gone in a circle, or tries what has failed
        frame.failures.states.add(key)
        frame.waiting.append(_State(instruction[2], state.place, state.spans, state.marks))
        state.at = instruction[1]
        return True

    def _jump(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        state.at = instruction[1]
        return True

    def _save(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        slot = instruction[1]
        state.spans = (*state.spans[:slot], state.place, *state.spans[slot + 1 :])
        state.at += 1
        return True

    def _run(self, instruction: Instruction, state: _State, frame: _Frame) -> bool:
        lengths = self._ends(instruction, state, frame)
        if lengths is None:
            return False
        end, following = lengths
        if following >= 0:
            frame.waiting.append(_State(state.at, state.place, state.spans, state.marks, following))
        state.place, state.choice = end, -1
        state.at += 1
        return True

    def _look(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        _, program, behind, fits = instruction
        at = state.place - behind
        # In front of the text there is nothing that could fit
        inside = None if at < 0 else self.run(program, at, state.spans, inner=True)
        if (inside is not None) is not fits:
            return False
        if inside is not None:
            # Group 0 stays that of the whole search
            state.spans = (*state.spans[:2], *inside[2:])
        state.at += 1
        return True

    def _atomic(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        inside = self.run(instruction[1], state.place, state.spans, inner=True)
        if inside is None:
            return False
        state.place = inside[1]
        state.spans = (*state.spans[:2], *inside[2:])
        state.at += 1
        return True

    def _reference(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        _, group, any_case, ascii_only = instruction
        start, end = state.spans[2 * group], state.spans[2 * group + 1]
        # In Java a group that took no part never matches again
        if start < 0:
            return False
        self.steps += (end - start) // _READ_TOGETHER
        first, again = self.text[start:end], self.text[state.place : state.place + end - start]
        if first != again and not (any_case and _equal_in_any_case(first, again, ascii_only)):
            return False
        state.place += end - start
        state.at += 1
        return True

    def _mark(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        register = instruction[1]
        state.marks = (*state.marks[:register], state.place, *state.marks[register + 1 :])
        state.at += 1
        return True

    def _moved(self, instruction: Instruction, state: _State, _frame: _Frame) -> bool:
        state.at = state.at + 1 if state.marks[instruction[1]] != state.place else instruction[2]
        return True

    def _key(self, program: RegexProgram, state: _State) -> Any:
        """Return what decides about what follows: place in program and text, and what loops and references look at."""
        # Both in one number: a place is at most the length of the text
        key = state.at * (len(self.text) + 1) + state.place
        if not state.marks and not program.read:
            return key
        return key, self._seen(program, state)

    @staticmethod
    def _seen(program: RegexProgram, state: _State) -> Any:
        return state.marks, tuple(state.spans[2 * group : 2 * group + 2] for group in sorted(program.read))

    def _ends(self, instruction: Instruction, state: _State, frame: _Frame) -> tuple[int, int] | None:
        """Return where a run of characters is to end, and where the next time if that fails, -1 for nowhere.

        None where nothing is left to be tried.
        """
        _, longest, low, lazy, endless = instruction
        failures, place, choice = frame.failures, state.place, state.choice
        known = failures.runs.get(state.at)
        # From every place within it a run without upper bound ends where it ended before
        if endless and known is not None and known[0] <= place <= known[1]:
            end = known[1]
        else:
            end = longest(self.text, place).end()
            self.steps += (end - place) // _READ_TOGETHER
            failures.runs[state.at] = place, end
        least = place + low
        if lazy:
            now = least if choice < 0 else choice
            # ~ makes the key negative, so that it is none of a split
            key = self._key(frame.program, _State(~state.at, now, state.spans, state.marks))
            while now <= end and key in failures.states:
                now += 1
                key = self._key(frame.program, _State(~state.at, now, state.spans, state.marks))
                self.steps += 1
            if now > end:
                return None
            failures.states.add(key)
            return now, now + 1 if now < end else -1
        now = end if choice < 0 else choice
        tried = state.at, end, self._seen(frame.program, state)
        lowest = failures.tried.get(tried)
        if lowest is not None and choice < 0:
            now = min(now, lowest - 1)
        if now < least:
            return None
        failures.tried[tried] = now if lowest is None else min(lowest, now)
        return now, now - 1 if now > least else -1


@dataclass(frozen=True, slots=True)
class _Frame:
    """A program that runs: what has failed in it, and the ways that are still to be tried, the next one last."""

    program: RegexProgram
    failures: _Failures
    waiting: list[_State]


def _equal_in_any_case(one: str, other: str, ascii_only: bool) -> bool:
    return len(one) == len(other) and all(
        a == b or (a.lower() == b.lower() and not (ascii_only and max(a, b) > "\x7f"))
        for a, b in zip(one, other, strict=True)
    )
