"""What becomes of the groups, elements and topics of an app when another version of it is deployed. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from spdist.display import Shown, number_of, table_html, table_text

__all__ = ["ElementChange", "ElementChanges", "ElementKind", "Outcome", "TopologyChange"]


ElementKind = Literal["query", "partition", "table", "window", "aggregation", "trigger", "sink", "source"]
Outcome = Literal["keeps", "starts empty", "new", "removed"]

_HEAD = ("what", "becomes", "why")


@dataclass(frozen=True, slots=True)
class ElementChange:
    """What becomes of one element when another version of its app follows.

    Parameters
    ----------
    id, kind, label : str
        See `spdist.planning.updates.fingerprints.AppElement`.
    outcome : str
        ``keeps`` its state; ``starts empty`` where the old one ended; ``new``: was not there; ``removed``, with its
        state.
    reason : str
        Why it starts empty, in a few words; may be empty otherwise.
    """

    id: str
    kind: ElementKind
    label: str
    outcome: Outcome
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.label} {self.becomes}{f': {self.reason}' if self.reason else ''}"

    @property
    def becomes(self) -> str:
        """The outcome in words."""
        return _SAID[self.outcome]


_SAID: Mapping[Outcome, str] = {
    "keeps": "keeps its state",
    "starts empty": "starts empty",
    "new": "is new",
    "removed": "goes, with its state",
}


def _row(change: ElementChange) -> tuple[str, str, str]:
    return change.label, change.becomes, change.reason


class ElementChanges(tuple[ElementChange, ...], Shown):
    """What becomes of the elements of an app, one by one; shows itself as a table."""

    __slots__ = ()

    def __str__(self) -> str:
        return table_text(_HEAD, map(_row, self))

    def _repr_html_(self) -> str:
        return table_html(_HEAD, map(_row, self))


@dataclass(frozen=True, slots=True)
class TopologyChange(Shown):
    """Groups by name, their elements, and topics by name.

    Parameters
    ----------
    keeps : tuple of str
        Groups that stay as they are, with their state.
    changes : tuple of (str, str)
        Groups that go on under their name from where they were, each with what changes; `elements` says what of them
        keeps its state.
    added, removed : tuple of str
        Groups that come and go. One that comes starts empty, where the events begin that follow the update; the state
        of one that goes is lost.
    elements : mapping of str to tuple of ElementChange
        Of each of these groups what becomes of its queries, partitions, tables, windows, aggregations and triggers.
    kept_topics, added_topics, removed_topics : tuple of str
        Topics; one with another number of partitions is removed and added.
    """

    keeps: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    kept_topics: tuple[str, ...]
    added_topics: tuple[str, ...]
    removed_topics: tuple[str, ...]
    elements: Mapping[str, tuple[ElementChange, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "groups": {
                "keep": list(self.keeps),
                "change": dict(self.changes),
                "add": list(self.added),
                "remove": list(self.removed),
            },
            "elements": {group: [asdict(one) for one in changes] for group, changes in self.elements.items()},
            "topics": {
                "keep": list(self.kept_topics),
                "add": list(self.added_topics),
                "remove": list(self.removed_topics),
            },
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TopologyChange:
        """Rebuild it from `to_dict`."""
        groups, topics = data["groups"], data["topics"]
        return cls(
            keeps=tuple(groups["keep"]),
            changes=tuple(groups["change"].items()),
            added=tuple(groups["add"]),
            removed=tuple(groups["remove"]),
            kept_topics=tuple(topics["keep"]),
            added_topics=tuple(topics["add"]),
            removed_topics=tuple(topics["remove"]),
            elements={
                group: ElementChanges(ElementChange(**one) for one in each) for group, each in data["elements"].items()
            },
        )

    def __bool__(self) -> bool:
        """Return True where anything changes."""
        return bool(self.changes or self.added or self.removed or self.added_topics or self.removed_topics)

    def __str__(self) -> str:
        if not self:
            groups, topics = number_of(len(self.keeps), "group"), number_of(len(self.kept_topics), "topic")
            return f"nothing changes: {groups} and {topics} stay"
        lines = [f"  = {name} keeps its state" for name in self.keeps]
        for name, why in self.changes:
            lines += [f"  ~ {name} changes: {why}", *(f"      {one}" for one in self.elements.get(name, ()))]
        lines += [f"  + {name} is new, and starts empty" for name in self.added]
        lines += [f"  - {name} goes, with its state" for name in self.removed]
        lines += [f"  = topic {name}" for name in self.kept_topics]
        lines += [f"  + topic {name}" for name in self.added_topics]
        lines += [f"  - topic {name}" for name in self.removed_topics]
        return "\n".join(lines)

    def __repr__(self) -> str:
        counts = (("keep", self.keeps), ("change", self.changes), ("come", self.added), ("go", self.removed))
        return f"TopologyChange({', '.join(f'{len(names)} groups {word}' for word, names in counts if names)})"

    def _repr_html_(self) -> str:
        rows = [(f"group {name}", "keeps its state", "") for name in self.keeps]
        for name, why in self.changes:
            rows.append((f"group {name}", "changes", why))
            rows += [(f"\u2003{one.label}", one.becomes, one.reason) for one in self.elements.get(name, ())]
        rows += [(f"group {name}", "is new, and starts empty", "") for name in self.added]
        rows += [(f"group {name}", "goes, with its state", "") for name in self.removed]
        told = (("stays", self.kept_topics), ("is new", self.added_topics), ("goes", self.removed_topics))
        rows += [(f"topic {name}", word, "") for word, names in told for name in names]
        return table_html(_HEAD, rows, caption="" if self else "Nothing changes")
