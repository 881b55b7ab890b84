"""Where an instance begins that comes with an update of a running app: nothing before it is for the new text. Pure.

Three rules, so that each event is processed once:

- An instance that goes on under its name, in a group of as many instances, keeps its state and its positions.
- An instance that is new starts empty. In a partition that an instance of the old version has read, and nobody of the
  old version goes on reading, it begins where that one ended (a group that was renamed, or has more instances now);
  in any other partition at the end that the partition had when the update was accepted.
- What an instance no longer reads because the topic of its stream is another one now, it reads to the end.

An instance that was removed by an update and comes back with a later one is new: `Origin.update` tells its lives apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from spdist.language.ast import StreamDefinition
from spdist.planning.compiled import tree_of
from spdist.planning.topology import AssignedInput, Assignment
from spdist.planning.updates.origin import FIRST, Begin, Origin

__all__ = ["Ends", "newly_read", "restored_origins", "stored_origins", "with_origins"]

#: Topic → partition → offset of the next record.
Ends = Mapping[str, Mapping[int, int]]


def stored_origins(assignments: Iterable[Assignment]) -> dict[str, Any]:
    """Return as JSON values what no plan says of instances, by name: what `restored_origins` needs."""
    return {
        one.name: {"origin": asdict(one.origin), "drains": [asdict(read) for read in one.inputs if read.drains]}
        for one in assignments
        if one.origin != FIRST or any(read.drains for read in one.inputs)
    }


def restored_origins(planned: Iterable[Assignment], stored: Mapping[str, Any]) -> tuple[Assignment, ...]:
    """Return instances as planned with what `stored_origins` has kept of them."""
    made = []
    for one in planned:
        if known := stored.get(one.name):
            drains = tuple(map(AssignedInput.from_dict, known["drains"]))
            one = replace(one, origin=Origin.from_dict(known["origin"]), inputs=(*one.inputs, *drains))
        made.append(one)
    return tuple(made)


def newly_read(before: Iterable[Assignment], after: Iterable[Assignment]) -> tuple[str, ...]:
    """Return the topics whose ends matter when `after` replaces `before`: those that an instance did not read."""
    old = {one.name: one.places for one in before}
    return tuple(sorted({topic for one in after for topic, _ in one.places - old.get(one.name, set())}))


def with_origins(
    before: Sequence[Assignment], after: Sequence[Assignment], update: str, ends: Ends
) -> tuple[Assignment, ...]:
    """Return the instances of `after` with their origins, as an update of the instances `before`.

    Parameters
    ----------
    before : sequence of Assignment
        What the version before is running, with its origins.
    after : sequence of Assignment
        What replaces it, as planned.
    update : str
        A name for the update that no other one has.
    ends : mapping
        The ends of the topics that `newly_read` names; a topic that does not exist is missing.
    """
    old = {one.name: one for one in before}
    sizes = Counter(one.group for one in before), Counter(one.group for one in after)
    drained = _drained(before, after)
    made = []
    for one in after:
        known = old.get(one.name)
        if known is not None and sizes[0][one.group] != sizes[1][one.group]:
            known = None  # its keys are spread in another way
        one = replace(one, inputs=(*one.inputs, *drained.get(one.name, ())))
        places = one.places
        begins = tuple(
            Begin(topic, number, ends.get(topic, {}).get(number, 0), _reader(before, after, one, topic, number), update)
            for topic, number in sorted(places - (known.places if known is not None else set()))
        )
        # At offset 0 it begins in any case
        begins = tuple(begin for begin in begins if begin.offset or begin.after)
        if known is None:
            origin = Origin(update, begins)
        else:
            # A place that is read no more may come back later, and then begins anew
            kept = tuple(begin for begin in known.origin.begins if (begin.topic, begin.partition) in places)
            origin = Origin(known.origin.update, (*kept, *begins))
        made.append(replace(one, origin=origin))
    return tuple(made)


def _reader(before: Sequence[Assignment], after: Sequence[Assignment], one: Assignment, topic: str, number: int) -> str:
    """Return the instance of the old version after which `one` reads a partition; empty if there is none."""
    place = (topic, number)
    go_on = {other.name for other in after if place in other.places}
    readers = [known for known in before if place in known.places]
    # The instance itself, else one of its group, else one that stops: one that goes on reading has its own events
    for fits in (
        lambda known: known.name == one.name,
        lambda known: known.group == one.group,
        lambda known: known.name not in go_on,
    ):
        if found := [known.name for known in readers if fits(known)]:
            return found[0]
    return ""


def _drained(before: Sequence[Assignment], after: Sequence[Assignment]) -> dict[str, tuple[AssignedInput, ...]]:
    """Return what each instance reads to the end: topics that its group has read, of streams that it still reads.

    The first instance sees to those of instances that are no more.
    """
    planned = {(one.group, read.topic) for one in after for read in one.inputs}
    made: dict[str, tuple[AssignedInput, ...]] = {}
    for known in before:
        heirs = [one for one in after if one.group == known.group]
        if not heirs:
            continue
        heir = next((one for one in heirs if one.name == known.name), heirs[0])
        for read in known.inputs:
            if (known.group, read.topic) not in planned and not read.source and _same_stream(known, heir, read.stream):
                # Nobody writes there again, so nobody's clock is waited for
                drain = replace(read, producers=(), own=(), drains=True)
                made[heir.name] = _joined(made.get(heir.name, ()), drain)
    return made


def _joined(drains: tuple[AssignedInput, ...], more: AssignedInput) -> tuple[AssignedInput, ...]:
    """Return `drains` with another one, whose topic may be among them already."""
    partitions = {n for one in (*drains, more) if one.topic == more.topic for n in one.partitions}
    others = tuple(one for one in drains if one.topic != more.topic)
    return (*others, replace(more, partitions=tuple(sorted(partitions))))


def _same_stream(old: Assignment, new: Assignment, stream: str) -> bool:
    """Return whether what is in the topics of a stream can be read by the new version: its attributes are the same."""
    if stream not in {read.stream for read in new.inputs}:
        return False
    schemas = [_schema(one.text, stream) for one in (old, new)]
    return schemas[0] is not None and schemas[0] == schemas[1]


def _schema(text: str, stream: str) -> list[tuple[str, str]] | None:
    for definition in tree_of(text).definitions:
        if isinstance(definition, StreamDefinition) and definition.name == stream:
            return [(one.name, str(one.type)) for one in definition.attributes]
    return None
