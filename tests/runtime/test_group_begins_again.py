"""A group whose disk is full in the middle of its start: what had begun is stopped before it begins again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from spdist import plan
from spdist.engine.spark.session import SparkHost
from spdist.errors import StateError
from spdist.runtime.group import GroupRuntime
from tests.runtime.host_settings import settings_in

APP = """@app:name('Again') define stream In (v long);
@sink(type='embedded', topic='Again.Out') define stream Out (v long);
from In select v insert into Out;"""


class Begun:
    """A query, or the sources of an instance: whether it runs now."""

    problem = None
    lastProgress = None
    recentProgress = ()
    rejected: ClassVar[dict[str, int]] = {}

    def __init__(self, error: Exception | None = None) -> None:
        self.isActive = False
        self._error = error

    def start(self) -> None:
        if self._error is not None:
            raise self._error
        self.isActive = True

    def stop(self) -> None:
        self.isActive = False

    def finish(self, timeout_s: float) -> None:
        """Have nothing to write."""

    def exception(self) -> None:
        """End without an error."""


def test_what_had_begun_is_stopped_before_it_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., Any]
) -> None:
    full = StateError("No space left on device")
    made = [(Begun(), Begun(full)), (Begun(), Begun())]
    sources, queries = iter(made), list[Begun]()

    def start_query(group: GroupRuntime) -> None:
        queries.append(Begun())
        queries[-1].start()
        group._query = queries[-1]  # type: ignore[assignment]

    monkeypatch.setattr(SparkHost, "start", lambda _host: None)
    monkeypatch.setattr(GroupRuntime, "_start_query", start_query)
    monkeypatch.setattr("spdist.runtime.sources.sources_of", lambda *_given: next(sources))
    monkeypatch.setattr("spdist.runtime.waiting._FULL_S", 0.5)
    (assignment,) = plan(APP).assignments()
    group = GroupRuntime(assignment, SparkHost(settings_in(tmp_path)), "worker-1")
    try:
        group.start()
        eventually(lambda: "No space left" in (group.status().waiting or ""), "it waits for room", 20)
        assert [one.isActive for one in (*queries, *made[0])] == [False] * 3
        eventually(lambda: made[1][1].isActive, "it has begun again", 20)
        assert [query.isActive for query in queries] == [False, True]
        assert [one.isActive for one in made[0]] == [False, False]
        assert group.status().state != "FAILED"
    finally:
        group.kill()
