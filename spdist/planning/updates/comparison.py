"""Compares two versions of an app: what becomes of its groups, elements and topics."""

from __future__ import annotations

from dataclasses import replace

from spdist.planning.compiled import checked_text
from spdist.planning.topology import ExecutionGroup, Topology
from spdist.planning.updates.change import ElementChanges, TopologyChange
from spdist.planning.updates.fingerprints import compare_elements

__all__ = ["compare"]


def compare(before: Topology, after: Topology) -> TopologyChange:
    """Return what becomes of `before` when `after` replaces it.

    Elements keep their state where their fingerprints are the same (`spdist.planning.updates.fingerprints`) and their
    group goes on, in as many instances: with another number of them keys are spread in another way.
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
    texts = (None if group is None else group.instances[0].text for group in (old, new))
    changes = compare_elements(*(None if text is None else checked_text(text, scripts=True) for text in texts))
    if old is None or new is None or old.parallel == new.parallel:
        return ElementChanges(changes)
    why = _difference(old, new)
    return ElementChanges(
        replace(one, outcome="starts empty", reason=why) if one.outcome == "keeps" else one for one in changes
    )


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
