"""Fault streams: the faults of a stream stay in the instance where they arise, so their readers must be there.

What a ``@sink`` cannot send with ``on.error='STREAM'`` comes back through a topic, as does what a ``@source`` cannot
read: the group that has the sink or source reads it.
"""

from __future__ import annotations

from spdist.language.ast import find_annotations
from spdist.planning.elements import Problems
from spdist.planning.forming import Group
from spdist.planning.receivers import Received
from spdist.planning.sinks import EMBEDDED, sink_hosts
from spdist.planning.wiring import Wiring

__all__ = ["check_faults", "coming_back"]


def check_faults(received: Received, wiring: Wiring, problems: Problems) -> None:
    """Refuse a reader of ``!S`` that would miss faults: those arise where ``S`` is read, sent, or comes in."""
    for group in received.groups:
        for part in group.parts:
            for ref in (ref for ref in part.inputs if ref.fault):
                arising = [g.name for g in received.readers.get(ref.name, ())]
                arising += _telling(ref.name, received, wiring)
                others = [name for name in dict.fromkeys(arising) if name != group.name]
                if others:
                    names = " and ".join(f"'{name}'" for name in others)
                    problems.unsupported(
                        f"query '{part.name}' uses the fault stream '{ref.id}', which arises in group {names} and "
                        "does not leave it yet",
                        ref.span or part.query.span,
                        f"give all queries that use '{ref.name}' the same execGroup",
                    )


def coming_back(group: Group, received: Received, wiring: Wiring) -> tuple[str, ...]:
    """Return the streams whose faults come back to `group` through a topic: it reads those of its sinks and sources."""
    names = dict.fromkeys(ref.name for part in group.parts for ref in part.inputs if ref.fault)
    return tuple(name for name in names if group.name in _telling(name, received, wiring))


def _telling(name: str, received: Received, wiring: Wiring) -> list[str]:
    """Return the groups whose sources or sinks of stream `name` put what fails into its fault stream."""
    definition = received.definitions.get(name)
    told: list[str] = []
    for sink in find_annotations(definition.annotations if definition else (), "sink"):
        if (sink.get("on.error") or "").upper() == "STREAM" and sink.get("type") != EMBEDDED and name in wiring.streams:
            told += sink_hosts(wiring.streams[name], received)
    passing = [group.name for group in received.writers.get(name, ()) if group.receiver]
    for group in (*passing, *received.reading_sources.get(name, ())):
        read = received.reads.get(group, definition)
        sources = find_annotations(read.annotations, "source") if read is not None else ()
        told += [group for one in sources if (one.get("on.error") or "").upper() == "STREAM"]
    return told
