"""What Java does with the matches of a regular expression: finding one after the other, splitting, replacing.

Notes
-----
Source: java.util.regex.Matcher and java.lang.String (their documentation), verified on the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from spdist.java.bounds import check_length
from spdist.java.regex.pattern import Match, java_pattern

__all__ = ["found_in", "java_replaced", "java_split"]


def found_in(search: Callable[[int], Match | None], text: str) -> Iterator[Match]:
    """Give one match after the other as ``Matcher.find`` does: behind an empty one it goes on a character later.

    Parameters
    ----------
    search : callable
        Gives the first match from a place on: `JavaPattern.searcher` where all searches of a text have one bound.
    text : str
        What is searched.
    """
    at = 0
    while at <= len(text) and (match := search(at)) is not None:
        yield match
        at = match.end() + (match.start() == match.end())


def java_split(text: str, regex: str) -> list[str]:
    """Return the parts between matches as ``String.split`` does: without empty ones at the end."""
    parts, at = [], 0
    for match in found_in(java_pattern(regex).searcher(text), text):
        if match.end() == 0:
            continue  # nothing stands before an empty match at the beginning
        parts.append(text[at : match.start()])
        at = match.end()
    # Java returns the text itself where nothing matched, even an empty one
    if not at:
        return [text]
    parts.append(text[at:])
    while parts and not parts[-1]:
        parts.pop()
    return parts


def java_replaced(text: str, regex: str, replacement: str, count: int = 0) -> str:
    """Return the text with matches replaced, all or the first `count` of them.

    In the replacement ``$1`` and ``${name}`` are groups and a backslash takes the next character as it is. One that is
    wrong raises ValueError where there is a match, as in Java; so does a result that is too long (`check_length`).
    """
    pattern, parts, at, length = java_pattern(regex), [], 0, 0
    for number, match in enumerate(found_in(pattern.searcher(text), text), start=1):
        parts += [text[at : match.start()], _expanded(replacement, match)]
        at = match.end()
        length += sum(map(len, parts[-2:]))
        # While it grows: each match may add more than the text has
        check_length(length)
        if number == count:
            break
    return "".join([*parts, text[at:]])


_SPECIAL = re.compile(r"[\\$]")
_NAMED_GROUP = re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}")


def _expanded(replacement: str, match: Match) -> str:
    parts, at = [], 0
    while (special := _SPECIAL.search(replacement, at)) is not None:
        parts.append(replacement[at : special.start()])
        at = special.end()
        if at == len(replacement):
            raise ValueError(f"the replacement '{replacement}' ends within '{special.group()}'")
        if special.group() == "\\":
            parts.append(replacement[at])
            at += 1
        else:
            group, at = _group_in(replacement, at, match.re)
            # Matcher writes nothing for a group that took no part
            parts.append(match.group(group) or "")
    return "".join([*parts, replacement[at:]])


def _group_in(replacement: str, at: int, pattern: re.Pattern[str]) -> tuple[int | str, int]:
    """Return the group that stands behind a ``$``, and where the replacement goes on."""
    named = _NAMED_GROUP.match(replacement, at)
    if named is not None and named[1] in pattern.groupindex:
        return named[1], named.end()
    digit = replacement[at]
    if digit not in "0123456789" or int(digit) > pattern.groups:
        raise ValueError(f"the replacement '{replacement}' names no group of '{pattern.pattern}'")
    group, at = int(digit), at + 1
    # A further digit belongs to it only where there is such a group.
    while replacement[at : at + 1] in tuple("0123456789") and group * 10 + int(replacement[at]) <= pattern.groups:
        group, at = group * 10 + int(replacement[at]), at + 1
    return group, at
