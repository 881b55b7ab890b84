"""Statements of an app that need not parse yet: where each begins and ends, as far as its tokens tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spdist.language.editing.tokens import Token

__all__ = ["OPENING", "Statement", "closing", "is_word", "statements"]

#: Brackets that open, and what closes each.
OPENING = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class Statement:
    """A definition, a query, or the head of a partition up to its ``begin``.

    Parameters
    ----------
    tokens : sequence of Token
        Without comments and without the ``;`` behind it.
    body : int
        The position of the first token behind its annotations.
    inside : bool
        Whether it stands in a partition.
    """

    tokens: Sequence[Token]
    body: int
    inside: bool

    def words(self) -> Iterator[tuple[int, str]]:
        """Yield positions and texts, in lower case, of the words of its body outside of brackets."""
        at = self.body
        while at < len(self.tokens):
            if self.tokens[at].text in OPENING:
                at = closing(self.tokens, at)
            elif self.tokens[at].kind == "word":
                yield at, self.tokens[at].text.lower()
            at += 1


def is_word(token: Token | None, *words: str) -> bool:
    """Tell whether a token is one of these words, in any case."""
    return token is not None and token.kind == "word" and token.text.lower() in words


def closing(found: Sequence[Token], at: int) -> int:
    """Return the position of the bracket that closes the one at `at`; that of the last token where none does."""
    waiting: list[str] = []
    for position in range(at, len(found)):
        text = found[position].text
        if text in OPENING:
            waiting.append(OPENING[text])
        elif waiting and text == waiting[-1]:
            waiting.pop()
            if not waiting:
                return position
    return len(found) - 1


def statements(text: str, found: Sequence[Token]) -> list[Statement]:
    """Return the statements of a text: they end at ``;``, or where a line begins what can only be another one."""
    made: list[Statement] = []
    current: list[Token] = []
    inside = False

    def end() -> None:
        nonlocal inside
        if current:
            made.append(Statement(tuple(current), _body(current), inside))
            inside = inside and not is_word(current[-1], "end")
        current.clear()

    for token in found:
        if token.text == ";":
            end()
            continue
        if current and _begins(text, token, current):
            end()
        current.append(token)
        if is_word(token, "begin") and is_word(current[_body(current)], "partition"):
            end()
            inside = True
    end()
    return made


def _body(found: Sequence[Token]) -> int:
    """Return the position of the first token that belongs to no annotation; the last one where all do."""
    at = 0
    while at < len(found) and found[at].kind == "mark":
        has_elements = at + 1 < len(found) and found[at + 1].text == "("
        at = (closing(found, at + 1) if has_elements else at) + 1
    return min(at, len(found) - 1)


def _begins(text: str, token: Token, current: Sequence[Token]) -> bool:
    """Tell whether a statement begins here although the one before has no ``;`` yet: only at a line's beginning."""
    # Nothing but a ; can follow the end of a partition
    if is_word(current[0], "end"):
        return True
    if text[text.rfind("\n", 0, token.start) + 1 : token.start].strip():
        return False
    at = _body(current)
    if current[at].kind == "mark" or current[at].text in (")", "("):
        return False  # only annotations so far
    if token.kind == "mark" or is_word(token, "define", "partition"):
        return True
    # A from begins another statement, unless it is the first one of a query or an aggregation
    reading = any(is_word(one, "from") for one in current[at:]) or (
        is_word(current[at], "define") and not any(is_word(one, "aggregation") for one in current[at : at + 2])
    )
    return is_word(token, "from") and reading and current[-1].text != "("
