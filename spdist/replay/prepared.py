"""Cases on their way to Spark and back: read and checked here, and their results put together from answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spdist.engine.local.recorder import Collected, error_of, observed_of
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.sharding import sharding
from spdist.planning.topology import shard_names
from spdist.replay.files import CaseLine, read_case
from spdist.transports.base import Record, Repeats
from spdist.transports.commands import ANSWERS, SCHEMAS
from spdist.transports.payloads.payload import Payload

__all__ = ["Answers", "PreparedCase", "prepare"]


@dataclass(frozen=True, slots=True)
class PreparedCase:
    """A case that is ready to run.

    Parameters
    ----------
    name : str
        Its name.
    case : mapping
        What its line says.
    checked : CheckedApp
        Its app.
    observed : sequence
        See `spdist.engine.local.recorder.observed_of`.
    """

    name: str
    case: Mapping[str, Any]
    checked: CheckedApp
    observed: Sequence[Any]

    @property
    def splits(self) -> bool:
        """Whether shards that each get the events of some keys give the same.

        Its app must allow that. Events that come as one chunk are one chunk no more when they are split, a question has
        one answer, and what a source of the app brings goes through no topic.
        """
        steps = self.case.get("events", [])
        streams = {step["stream"] for step in steps if "stream" in step}
        if any(ast.find_annotations(one.annotations, "source") for one in self.checked.app.definitions):
            return False
        if not streams <= self.checked.streams.keys() or any("batch" in step or "query" in step for step in steps):
            return False
        return bool(streams) and sharding(self.checked, streams).possible


def prepare(line: CaseLine) -> PreparedCase | dict[str, Any]:
    """Return the case on a line, or its result where there is nothing to run: no case, or a refused app."""
    name = line.name
    try:
        name, case = read_case(line)
        checked = check(parse(case["app"]), catalog(), case["app"])
        return PreparedCase(name, case, checked, observed_of(checked, case))
    except Exception as error:
        return {"name": name, "error": error_of(error)}


class Answers:
    """Puts the results of cases together from the records of the topic of answers.

    Parameters
    ----------
    cases : mapping
        The cases by the name of their group instances.
    shards : mapping, optional
        Into how many shards an instance is split, where it is.

    State
    -----
    The results so far, and one number per shard, which tells repeats.
    """

    def __init__(self, cases: Mapping[str, PreparedCase], shards: Mapping[str, int] | None = None) -> None:
        #: By instance, the results of cases that have ended.
        self.results: dict[str, dict[str, Any]] = {}
        self._cases = cases
        split = shards or {}
        self._shards = {instance: shard_names(instance, split.get(instance, 1)) for instance in cases}
        self._heard = {name: (instance, _ShardAnswers()) for instance, names in self._shards.items() for name in names}
        self._repeats = Repeats()
        self._payload = Payload(SCHEMAS[ANSWERS])

    def offer(self, record: Record) -> None:
        """Take a record of the topic."""
        # A batch that Spark repeats gives the same answers again, with the same ids.
        skip = self._repeats.fresh(record)
        if skip < record.count:
            for (text,) in self._payload.decode(record.value).part(skip, record.count).rows:
                self._take(record.producer, *json.loads(text))

    def _take(self, producer: str, section: str, name: str, entry: dict[str, Any]) -> None:
        instance, heard = self._heard[producer]
        if section in ("refused", "failed"):
            heard.error = heard.error or entry
        elif section != "end":
            heard.entries.append((section, name, entry))
        else:
            heard.ended = True
            shards = [self._heard[shard][1] for shard in self._shards[instance]]
            if all(shard.ended for shard in shards):
                self.results[instance] = self._result(self._cases[instance], shards)

    def _result(self, case: PreparedCase, shards: Sequence[_ShardAnswers]) -> dict[str, Any]:
        error = next((shard.error for shard in shards if shard.error is not None), None)
        if error is not None:
            return {"name": case.name, "error": error}
        collected = Collected(case.checked, case.observed)
        entries = [entry for shard in shards for entry in shard.entries]
        # Stable: of each step the entries of the first shard come first, in their order.
        for section, name, entry in sorted(entries, key=lambda entry: entry[2]["i"]) if len(shards) > 1 else entries:
            collected.put(section, name, entry)
        return {"name": case.name, **collected.result()}


@dataclass(slots=True)
class _ShardAnswers:
    """What one shard has answered so far."""

    entries: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    ended: bool = False
