"""What becomes of the groups, elements and topics of an app when another version of it is deployed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from spdist.extension import catalog
from spdist.language.checked import CheckedApp
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.look import Shown, number_of, table_html, table_text
from spdist.planning.fingerprints import ElementChange, compare_elements
from spdist.planning.topology import ExecutionGroup, Topology

__all__ = ["ElementChanges", "TopologyChange", "compare"]


_HEAD = ("what", "becomes", "why")


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


def compare(before: Topology, after: Topology) -> TopologyChange:
    """Return what becomes of `before` when `after` replaces it.

    Elements keep their state where their fingerprints are the same (`spdist.planning.fingerprints`) and their group
    goes on, in as many instances: with another number of them keys are spread in another way.
    """
    old = {group.name: group for group in before.groups}
    new = {group.name: group for group in after.groups}
    reasons = {name: _difference(old[name], new[name]) for name in new if name in old}
    old_topics = {(topic.name, topic.partitions) for topic in before.topics}
    new_topics = {(topic.name, topic.partitions) for topic in after.topics}
    return TopologyChange(
        keeps=tuple(name for name, reason in reasons.items() if not reason),
        changes=tuple((name, reason) for name, reason in reasons.items() if reason),
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        kept_topics=tuple(t.name for t in after.topics if (t.name, t.partitions) in old_topics),
        added_topics=tuple(t.name for t in after.topics if (t.name, t.partitions) not in old_topics),
        removed_topics=tuple(t.name for t in before.topics if (t.name, t.partitions) not in new_topics),
        elements={name: _elements(old.get(name), new.get(name)) for name in (*new, *(n for n in old if n not in new))},
    )


def _elements(old: ExecutionGroup | None, new: ExecutionGroup | None) -> ElementChanges:
    """Return what becomes of the elements of a group; None where it is not there."""
    before, after = (None if group is None else _checked(group.instances[0].text) for group in (old, new))
    changes = compare_elements(before, after)
    if old is None or new is None or old.parallel == new.parallel:
        return ElementChanges(changes)
    why = _difference(old, new)
    return ElementChanges(
        replace(one, outcome="starts empty", reason=why) if one.outcome == "keeps" else one for one in changes
    )


@lru_cache(64)
def _checked(text: str) -> CheckedApp:
    return check(parse(text), catalog(scripts=True), text)


def _difference(old: ExecutionGroup, new: ExecutionGroup) -> str:
    """Say in a word what of a group is another one; nothing where it stays as it is."""
    if old.parallel != new.parallel:
        return f"{new.parallel} instances instead of {old.parallel}"
    if [one.text for one in old.instances] != [one.text for one in new.instances]:
        return "other queries or definitions"
    if _read(old) != _read(new):
        return "it reads other topics"
    if {o.stream: o.publishing for o in old.outputs} != {o.stream: o.publishing for o in new.outputs}:
        return "it publishes to other topics"
    return ""


def _read(group: ExecutionGroup) -> list[tuple[str, str, int]]:
    return [(one.stream, one.topic, one.partitions) for one in group.inputs]
