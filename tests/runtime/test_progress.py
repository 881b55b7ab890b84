"""The newest counters of a query are found, and all its reports are asked for only where there is news."""

from __future__ import annotations

from dataclasses import dataclass, field

from spdist.engine.spark.streaming_query import OBSERVED
from spdist.runtime.progress import NewestCounted


@dataclass(frozen=True)
class Told:
    """A progress as Spark tells it: with our counters where its batch had any."""

    timestamp: str
    events: int | None = None
    runId: str = "run"

    @property
    def observedMetrics(self) -> dict[str, dict[str, int]]:
        return {} if self.events is None else {OBSERVED: {"events_in": self.events}}


@dataclass
class Query:
    """A query that has told so much, and counts how often all of that was asked for."""

    told: list[Told] = field(default_factory=list)
    asked: int = 0

    @property
    def lastProgress(self) -> Told | None:
        return self.told[-1] if self.told else None

    @property
    def recentProgress(self) -> list[Told]:
        self.asked += 1
        return list(self.told)


def test_the_newest_counters_are_those_of_the_last_batch_that_had_any() -> None:
    query, counted = Query(), NewestCounted()
    assert counted.of(query) is None
    for told, events in [
        ([Told("10:00:00")], None),
        ([Told("10:00:10", 3)], 3),
        ([Told("10:00:20")], 3),
        # Of these the first was not looked at while it was the last one
        ([Told("10:00:30", 5), Told("10:00:40")], 5),
    ]:
        query.told += told
        assert getattr(counted.of(query), "events", None) == events


def test_an_idle_query_is_asked_for_all_its_reports_once_for_each() -> None:
    query, counted = Query([Told("10:00:00", 3), Told("10:00:10")]), NewestCounted()
    assert [counted.of(query).events for _ in range(5)] == [3] * 5
    assert query.asked == 1
    query.told.append(Told("10:00:20"))
    assert [counted.of(query).events for _ in range(5)] == [3] * 5
    assert query.asked == 2


def test_a_query_that_began_again_is_not_told_by_the_reports_of_the_one_before() -> None:
    counted = NewestCounted()
    assert counted.of(Query([Told("10:00:00", 3), Told("10:00:10")])).events == 3
    assert counted.of(Query([Told("10:00:05", 4, "other"), Told("10:00:10", runId="other")])).events == 4
