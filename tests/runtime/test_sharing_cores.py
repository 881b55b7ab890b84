"""Groups share the cores of their worker: who always has work leaves some to the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist.config.sections import ScriptSettings
from spdist.engine.spark.session import SparkHost
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.planning.groups import plan
from spdist.runtime.group import GroupRuntime
from spdist.transports.feed import Feed
from spdist.transports.log import LogTransport
from tests.runtime.host_settings import settings_in

Eventually = Callable[..., object]
INPUT = Schema.of([("k", "string"), ("v", "long")])
SLOW = """
    @app:name('{0}') @app:playback define stream S (k string, v long);
    define function slowly[python] return string {{ __import__('threading').Event().wait(0.02); return data[0] }};
    @dist(execGroup='a') from S#window.length(1) select slowly(k) as k, v insert into Out;
    @dist(execGroup='last') from Out select k insert into End;
"""


def events(start: int) -> list[tuple[int, tuple[Any, ...]]]:
    return [(1000 + n, ("k", n)) for n in range(start, start + 10)]


@pytest.mark.spark
@pytest.mark.usefixtures("own_spark")
def test_groups_that_always_have_work_leave_the_core_to_the_others(tmp_path: Path, eventually: Eventually) -> None:
    """One core, two groups with a backlog of two hundred batches: a third one does not wait for their end."""
    plain = settings_in(tmp_path, cores=1, max_batch_events=10)
    groups: dict[str, GroupRuntime] = {}
    with SparkHost(replace(plain, script=ScriptSettings(python_enabled=True))) as host:
        log = LogTransport(host.log_directory)
        try:
            for name, count in (("A", 2000), ("B", 2000), ("Z", 0)):
                app = parse(SLOW.format(name))
                (work,) = [a for a in plan(app, check(app, catalog(True))).assignments() if a.group.endswith("-a")]
                log.ensure(f"{name}.S", 1)
                for start in range(0, count, 10):
                    Feed(log, f"{name}.S", INPUT, f"feed{start}").send(events(start))
                groups[name] = GroupRuntime(work, host, "worker-1")
                groups[name].start()
            eventually(lambda: all(one.status().batches for one in groups.values()), "all are running", 90)
            Feed(log, "Z.S", INPUT).send(events(0))
            eventually(lambda: groups["Z"].status().events_out == 10, "the third one has its turn", 60)
            assert all(groups[name].status().events_out < 2000 for name in "AB"), "the others were still at work"
        finally:
            for group in groups.values():
                group.kill()
