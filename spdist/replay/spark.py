"""Cases on Spark: each is a group instance with a state of its own, and many share a query.

What a case is sent goes into topics of the embedded log, in a few parts, so that Spark cuts it into batches in the
middle of the case; islands run it, and its result is put together from the topic of answers. A case that fails is an
answer like any other. One that takes its Python process with it fails the query: then the others are tried again, in
ever smaller company, until it is alone.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spdist.config.datasources import Datasource
from spdist.config.sections import (
    Files,
    Log,
    ScriptSettings,
    Secrets,
    SiddhiProperties,
    Spark,
    StatePersistence,
    Transports,
)
from spdist.engine.local.recorder import error_of, silenced
from spdist.engine.spark.session import SparkHost
from spdist.errors import EngineError, ErrorKind
from spdist.replay.files import CaseLine, CaseResult, result_of
from spdist.replay.prepared import Answers, PreparedCase, prepare
from spdist.replay.work import CasePlace, Topics, Work, make_work
from spdist.runtime.group import GroupRuntime
from spdist.transports.log import LogTransport

__all__ = ["SparkOptions", "SparkReplay", "replay_on_spark"]

#: Cases that share a query.
_COMPANY = 300
#: Into how many smaller companies one is split that failed.
_SPLIT = 4
_PAUSE_S = 0.02
_READ_RECORDS = 500


@dataclass(frozen=True, slots=True)
class _HostSettings:
    """The settings of the Spark host of a replay."""

    spark: Spark
    transports: Transports
    state_persistence: StatePersistence
    script: ScriptSettings = field(default_factory=ScriptSettings)
    datasources: Mapping[str, Datasource] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    files: Files = field(default_factory=Files)
    properties: SiddhiProperties = field(default_factory=SiddhiProperties)
    shard_id: str = ""


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How cases are run on Spark.

    Parameters
    ----------
    parts : int
        Into how many parts the input of each case is cut, by lot; Spark makes at least as many batches.
    restarts : bool
        Whether the query is killed after each part, at whatever it does then, and another one goes on with the state.
    limit_s : float
        The time that one case may take.
    shards : int
        Into how many shards a case is split by key, where its app can be: of a step then only the events and their
        order for each key are the same.
    tell : callable, optional
        Is told, in a sentence, what is worth knowing meanwhile.
    """

    parts: int = 3
    restarts: bool = False
    limit_s: float = 60.0
    shards: int = 1
    tell: Callable[[str], None] | None = None


def replay_on_spark(
    lines: Sequence[CaseLine], jobs: int = 2, options: SparkOptions | None = None
) -> Iterator[CaseResult]:
    """Replay cases on a Spark session of their own and yield their results, in the order of the lines.

    Parameters
    ----------
    lines : sequence of CaseLine
        The cases.
    jobs : int
        Cores, and processes that host islands.
    options : SparkOptions, optional
        How.

    Raises
    ------
    EngineError
        Spark does not start.
    """
    if not lines:
        return
    directory = Path(tempfile.mkdtemp(prefix="spdist-replay-"))
    try:
        with silenced(), SparkReplay(directory, jobs) as replay:
            yield from replay.run(lines, options)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class SparkReplay:
    """A Spark session for cases; a context manager.

    Parameters
    ----------
    directory : path
        Where topics and states are.
    jobs : int
        See `replay_on_spark`.

    State
    -----
    Topics and states of all cases, until the directory is removed.
    """

    def __init__(self, directory: Path, jobs: int = 2) -> None:
        settings = _HostSettings(
            # Batches of any size: where they end is decided by the parts in which a case is fed.
            spark=Spark(cores=jobs, max_batch_events=10_000_000, optimize_for="start"),
            transports=Transports(log=Log(directory=directory / "topics")),
            state_persistence=StatePersistence(location=directory / "states"),
        )
        self.host = SparkHost(settings)
        # One thread starts Spark, the other one prepares cases.
        self._pool = ThreadPoolExecutor(2, "cases")
        self._jobs = jobs
        self._runs = 0

    def __enter__(self) -> SparkReplay:
        # Cases are read and checked while Spark starts, and while others run.
        self._started = self._pool.submit(self.host.start)
        return self

    def __exit__(self, *exc: object) -> None:
        # First: one of its threads may be starting the host.
        self._pool.shutdown(cancel_futures=True)
        self.host.stop()

    def run(self, lines: Sequence[CaseLine], options: SparkOptions | None = None) -> Iterator[CaseResult]:
        """Replay cases and yield their results, in the order of the lines."""
        pieces = [lines[begin : begin + _COMPANY] for begin in range(0, len(lines), _COMPANY)]
        reading = deque(self._pool.submit(_prepare_all, piece) for piece in pieces[:1])
        for number in range(len(pieces)):
            found = reading.popleft().result()
            # One piece ahead: it is read and checked while the one before it runs.
            reading.extend(self._pool.submit(_prepare_all, piece) for piece in pieces[number + 1 : number + 2])
            # Raises what the start of Spark has raised.
            self._started.result()
            yield from map(result_of, self._results(found, options or SparkOptions()))

    def _results(self, found: dict[int, PreparedCase | dict[str, Any]], options: SparkOptions) -> list[dict[str, Any]]:
        results = {number: one for number, one in found.items() if not isinstance(one, PreparedCase)}
        companies = deque([{number: one for number, one in found.items() if isinstance(one, PreparedCase)}])
        while companies:
            cases = companies.popleft()
            self._runs += 1
            company = _Company(f"replay-{self._runs}", cases, options)
            company.run(self.host, self._jobs)
            results |= company.results
            # One of these may have ended the query for all: smaller companies show which.
            left = {number: one for number, one in cases.items() if number not in results}
            if len(cases) == 1:
                results |= {
                    number: {"name": one.name, "error": error_of(company.error)} for number, one in left.items()
                }
            else:
                companies += _split(left)
        return [results[number] for number in range(len(found))]


def _prepare_all(lines: Sequence[CaseLine]) -> dict[int, PreparedCase | dict[str, Any]]:
    return dict(enumerate(map(prepare, lines)))


def _split(cases: dict[int, PreparedCase]) -> Iterator[dict[int, PreparedCase]]:
    numbers = list(cases)
    size = -(-len(numbers) // _SPLIT)
    for begin in range(0, len(numbers), max(size, 1)):
        yield {number: cases[number] for number in numbers[begin : begin + size]}


class _Company:
    """Cases that share a query.

    Parameters
    ----------
    name : str
        A new one.
    cases : mapping
        By number.
    options : SparkOptions
        How they are run.
    """

    def __init__(self, name: str, cases: Mapping[int, PreparedCase], options: SparkOptions) -> None:
        self.error: Exception = EngineError(
            "the query ended without a result of this case", code=ErrorKind.QUERY_FAILED
        )
        self.results: dict[int, dict[str, Any]] = {}
        self.work: list[Work] = []
        self._name = name
        self._topics = Topics(name)
        self._options = options
        # Each ends itself when it takes too long, and all in all there is something to hear at least so often.
        self._limit_s = 2 * options.limit_s + 60
        self._numbers: dict[str, int] = {}
        for number, one in cases.items():
            instance = f"{name}-{number}"
            try:
                shards = options.shards if options.shards > 1 and one.splits else 1
                # The place in `work` is the case's partition: those that cannot be written have none.
                place = CasePlace(self._topics, instance, len(self.work), shards, options.parts, options.limit_s)
                self.work.append(make_work(one.case, one.checked, one.observed, place))
                self._numbers[instance] = number
            except Exception as error:
                self.results[number] = {"name": one.name, "error": error_of(error)}
        by_instance = {instance: cases[number] for instance, number in self._numbers.items()}
        self._answers = Answers(by_instance, {work.assignment.name: work.assignment.shards for work in self.work})
        self._offset = 0
        split = [by_instance[work.assignment.name].name for work in self.work if work.assignment.shards > 1]
        if options.tell is not None and options.shards > 1:
            options.tell(
                f"{len(split)} of {len(cases)} cases are split over {options.shards} shards: {', '.join(split)}"
            )

    def run(self, host: SparkHost, jobs: int) -> None:
        """Run them; returns when all have ended, or none of them goes on."""
        if not self.work:
            return
        log = LogTransport(host.log_directory)
        self._ensure(log)
        group = self._group(host, jobs)
        try:
            # Before the query: its first batch has the first part to read.
            self._feed(log, 0)
            group.start()
            for part in range(1, self._options.parts):
                # A query that was started again counts from 0.
                batches = 1 if self._options.restarts else part
                if not self._wait(group, log, functools.partial(_has_done, group, batches)):
                    return
                self._feed(log, part)
                if self._options.restarts:
                    group.kill()
                    group = self._group(host, jobs)
                    group.start()
            self._wait(group, log, lambda: len(self._answers.results) == len(self.work))
        finally:
            group.stop()
            # The last answers may have come while the query ended.
            self._read(log)
            self.results |= {self._numbers[name]: result for name, result in self._answers.results.items()}
            log.close()

    def _group(self, host: SparkHost, jobs: int) -> GroupRuntime:
        assignments = [work.assignment for work in self.work]
        partitions = min(jobs, sum(assignment.shards for assignment in assignments))
        return GroupRuntime(assignments, host, "replay", name=self._name, partitions=partitions)

    def _ensure(self, log: LogTransport) -> None:
        log.ensure(self._topics.commands, len(self.work))
        log.ensure(self._topics.answers, 1)
        # Each case has an input for its commands, which is not one of these.
        for number in range(max(len(work.assignment.inputs) for work in self.work) - 1):
            log.ensure(self._topics.events(number), len(self.work))

    def _feed(self, log: LogTransport, part: int) -> None:
        log.append([record for work in self.work for record in work.parts[part]])

    def _wait(self, group: GroupRuntime, log: LogTransport, done: Callable[[], bool]) -> bool:
        """Wait for what `done` looks at; False where the query has failed, or nothing was heard for too long."""
        pace = threading.Event()
        heard, batches = time.monotonic(), 0
        while not done():
            status = group.status()
            if status.state == "FAILED":
                self.error = group.error or self.error
                return False
            # A batch counts, too: there are cases that run for long before they answer.
            if self._read(log) or status.batches > batches:
                heard, batches = time.monotonic(), status.batches
            if time.monotonic() - heard > self._limit_s:
                self.error = TimeoutError(f"nothing was heard of the query for {self._limit_s:g} s")
                return False
            pace.wait(_PAUSE_S)
        return True

    def _read(self, log: LogTransport) -> bool:
        """Take the answers that are new; whether there were any."""
        before = self._offset
        while records := log.read(self._topics.answers, 0, self._offset, _READ_RECORDS):
            for record in records:
                self._answers.offer(record)
            self._offset = records[-1].offset + 1
        return self._offset > before


def _has_done(group: GroupRuntime, batches: int) -> bool:
    return group.status().batches >= batches
