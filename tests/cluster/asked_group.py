"""A group that is asked: the engine of a real one on the embedded log, in a thread instead of a Spark query."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from spdist.engine.island.hosted import build_island
from spdist.planning.topology import Assignment
from spdist.runtime.command_topics import commanded
from spdist.transports.base import Record
from spdist.transports.commands import answers_topic, commands_topic
from spdist.transports.log import LogTransport

__all__ = ["asked_group"]


@contextmanager
def asked_group(directory: Path, assignment: Assignment) -> Iterator[threading.Event]:
    """Answer questions to the group instance; while the event that is yielded is set, they wait."""
    topics = LogTransport(directory)
    commands = commands_topic(assignment.name)
    for topic in (commands, answers_topic(assignment.name)):
        topics.ensure(topic, 1)
    island = build_island(commanded(replace(assignment, outputs=())), 0)
    over, silent = threading.Event(), threading.Event()

    def serve() -> None:
        offset = 0
        while not over.wait(0.01):
            if silent.is_set():
                continue
            records = topics.read(commands, 0, offset)
            offset += len(records)
            if records:
                topics.append([r for r in island.process(records, 0) if isinstance(r, Record)])

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield silent
    finally:
        over.set()
        thread.join()
        topics.close()
