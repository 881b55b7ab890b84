"""What becomes of the groups and topics of an app when another version of it is deployed."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from spdist.planning.topology import ExecutionGroup, Topology

__all__ = ["TopologyChange", "compare"]


@dataclass(frozen=True, slots=True)
class TopologyChange:
    """Groups by name, and topics by name.

    Parameters
    ----------
    keeps : tuple of str
        Groups that stay as they are, with their state.
    changes : tuple of (str, str)
        Groups that go on under their name but start anew, each with the reason.
    added, removed : tuple of str
        Groups that come and go; the state of those that go is lost.
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

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "groups": {
                "keep": list(self.keeps),
                "change": dict(self.changes),
                "add": list(self.added),
                "remove": list(self.removed),
            },
            "topics": {
                "keep": list(self.kept_topics),
                "add": list(self.added_topics),
                "remove": list(self.removed_topics),
            },
        }

    def __bool__(self) -> bool:
        """Return True where anything changes."""
        return bool(self.changes or self.added or self.removed or self.added_topics or self.removed_topics)

    def __str__(self) -> str:
        if not self:
            return f"nothing changes: {_count(self.keeps, 'group')} and {_count(self.kept_topics, 'topic')} stay"
        lines = [f"  = {name} keeps its state" for name in self.keeps]
        lines += [f"  ~ {name} starts anew: {why}" for name, why in self.changes]
        lines += [f"  + {name} is new" for name in self.added]
        lines += [f"  - {name} goes, with its state" for name in self.removed]
        lines += [f"  = topic {name}" for name in self.kept_topics]
        lines += [f"  + topic {name}" for name in self.added_topics]
        lines += [f"  - topic {name}" for name in self.removed_topics]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def compare(before: Topology, after: Topology) -> TopologyChange:
    """Return what becomes of `before` when `after` replaces it.

    A group keeps its state where it runs the same text in as many instances, on the same topics: what it reads then has
    the same events in the same partitions.
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
    )


def _difference(old: ExecutionGroup, new: ExecutionGroup) -> str:
    """Say why a group cannot go on from its state, in a word; nothing where it can."""
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


def _count(names: tuple[str, ...], word: str) -> str:
    return f"{len(names)} {word}{'' if len(names) == 1 else 's'}"
