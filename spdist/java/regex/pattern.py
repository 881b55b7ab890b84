"""Regular expressions as functions of an app use them: Java's meaning, and a bound on what one search may cost.

How long `re` may take at worst is worked out beforehand (`cost`). Texts up to the length at which that stays
small are searched by `re`; others, and those of expressions for which there is no such length, in counted steps
(`steps`). Which of the two runs, and where counting ends, depends on expression and text only: an event that
fails does so in every replay, however busy the machine is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property, lru_cache, partial

from spdist.java.regex.cost import begins_with, steps_at_a_place, steps_of_search
from spdist.java.regex.steps import RegexMatch, RegexStepsError, SteppedPattern
from spdist.java.regex.syntax import UntranslatableRegexError, read_regex, shortened
from spdist.java.regex.tree import Node, source

__all__ = ["JavaPattern", "Match", "java_pattern"]

#: What `re` may spend on one search, at worst: about a second.
_MOST = 1e8
Match = re.Match[str] | RegexMatch


class JavaPattern:
    """A regular expression of Java's; its methods are those of `re.Pattern`.

    Parameters
    ----------
    regex : str
        As it is written.
    tree : Node
        What it means.

    Raises
    ------
    UntranslatableRegexError
        Python cannot run it.
    """

    def __init__(self, regex: str, tree: Node) -> None:
        self.pattern = regex
        self._tree = tree
        try:
            self._re = re.compile(source(tree))
        except (re.error, OverflowError, RecursionError) as error:
            # `re` refuses look-behinds of varying width, and raises OverflowError for bounds that it cannot hold
            raise UntranslatableRegexError(
                f"the regular expression '{shortened(regex)}' cannot be run here: {error}"
            ) from error
        self._longest = steps_at_a_place(tree).length(_MOST)
        self._longest_searched = steps_of_search(tree).length(_MOST)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self._re.groups

    def search(self, text: str, at: int = 0) -> Match | None:
        """Return the first match from `at` on.

        Raises
        ------
        ValueError
            It takes too many steps; so do `match` and `fullmatch`.
        """
        if len(text) <= self._longest_searched:
            return self._re.search(text, at)
        return self.searcher(text)(at)

    def searcher(self, text: str) -> Callable[[int], Match | None]:
        """Return what gives the first match from a place on, for all matches of a text: what they cost is bounded too.

        It raises as `search` does.
        """
        if len(text) <= self._longest_searched:
            return partial(self._re.search, text)
        return partial(self._counted, self._stepped.searcher(text), text)

    def match(self, text: str) -> Match | None:
        """Return the match at the beginning of `text`."""
        if len(text) <= self._longest:
            return self._re.match(text)
        return self._counted(lambda _: self._stepped.match(text), text, 0)

    def fullmatch(self, text: str) -> Match | None:
        """Return the match of all of `text`."""
        if len(text) <= self._longest:
            return self._re.fullmatch(text)
        return self._counted(lambda _: self._stepped.fullmatch(text), text, 0)

    # Made for the first text that is too long for `re`, which most expressions never meet
    @cached_property
    def _stepped(self) -> SteppedPattern:
        return SteppedPattern(self._re, self._tree, begins_with(self._tree))

    def _counted(self, search: Callable[[int], RegexMatch | None], text: str, at: int) -> RegexMatch | None:
        try:
            return search(at)
        except RegexStepsError as error:
            raise ValueError(
                f"the regular expression '{shortened(self.pattern)}' is not run on a text of {len(text)} characters: "
                f"{error}"
            ) from error


@lru_cache(maxsize=512)
def java_pattern(regex: str) -> JavaPattern:
    """Return a Java regular expression as a pattern with the same groups; the last 512 are kept.

    Raises
    ------
    JavaRegexError
        It is none.
    UntranslatableRegexError
        It is one that Python cannot run.
    """
    return JavaPattern(regex, read_regex(regex))
