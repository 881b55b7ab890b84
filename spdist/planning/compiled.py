"""A group instance with what the text of its app means: a process parses and checks each text once.

What crosses to other processes stays an `Assignment`, which is small: each process makes its own `CompiledInstance`.
Python workers of Spark are forked from a process that has compiled nothing, and are used again by the next start: they
find the texts that they know.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from spdist.extension import catalog
from spdist.language.ast import SiddhiApp
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.topology import Assignment

__all__ = ["TEXTS_KEPT", "CompiledInstance", "checked_text", "tree_of"]

#: Texts whose trees, and trees whose checked apps, a process keeps: those asked for last.
TEXTS_KEPT = 64


# `lru_cache` has no lock that a process could be forked with: two threads may parse a text twice.
@lru_cache(TEXTS_KEPT)
def tree_of(text: str) -> SiddhiApp:
    """Return the syntax tree of an app; nobody can change it.

    Parameters
    ----------
    text : str
        The app, in SiddhiQL.

    Raises
    ------
    SiddhiAppError
        The text is no app.
    """
    return parse(text)


@lru_cache(TEXTS_KEPT)
def _checked(text: str, known: Catalog) -> CheckedApp:
    return check(tree_of(text), known, text)


def checked_text(text: str, scripts: bool | None = None) -> CheckedApp:
    """Return an app as the checker sees it, by the functions, windows and mappings that are registered now.

    Parameters
    ----------
    text : str
        The app, in SiddhiQL.
    scripts : bool, optional
        Whether it may define functions in Python; see `spdist.extension.catalog`.

    Raises
    ------
    SiddhiAppError
        The text is wrong.
    """
    return _checked(text, catalog(scripts))


@dataclass(frozen=True, slots=True)
class CompiledInstance:
    """A group instance whose text was parsed and checked.

    Parameters
    ----------
    assignment : Assignment
        The instance.
    checked : CheckedApp
        The app of its text; instances of one text in a process share it, and nobody changes it.
    catalog : Catalog
        The signatures that the names in it were looked up in.
    """

    assignment: Assignment
    checked: CheckedApp
    catalog: Catalog

    @classmethod
    def of(cls, assignment: Assignment, scripts: bool | None = None) -> CompiledInstance:
        """Compile an instance, or find what this process knows of its text.

        Parameters
        ----------
        assignment : Assignment
            The instance.
        scripts : bool, optional
            Whether its app may define functions in Python; see `spdist.extension.catalog`.

        Raises
        ------
        SiddhiAppError
            The text is wrong.
        """
        known = catalog(scripts)
        # The catalog is part of the key: what is registered later gives another one, and names may mean another thing
        return cls(assignment, _checked(assignment.text, known), known)

    def attributes(self, topic: str) -> tuple[str, str] | None:
        """Return the stream of a topic that is read, and its attributes; None for others."""
        stream = next((one.stream for one in self.assignment.inputs if one.topic == topic), None)
        return None if stream is None else (stream, str(self.checked.streams.get(stream)))

    def reads_on(self, topic: str, before: CompiledInstance) -> bool:
        """Tell whether it understands events of a topic that wait for their turn in the version before."""
        return before.attributes(topic) is not None and before.attributes(topic) == self.attributes(topic)

    def left(self, before: CompiledInstance) -> set[str]:
        """Return the topics whose events only the version before understands: it must process those that wait."""
        # Topics of users hold messages, which every version maps anew
        return {one.topic for one in before.assignment.inputs if not one.into and not self.reads_on(one.topic, before)}
