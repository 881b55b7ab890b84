"""A process that runs the groups of an app on Spark until it is killed, for `tests.faults.test_kills`.

Arguments: directory for everything, file of the app, events in a batch at most. Prints ``RUNNING`` once all groups run,
``FAILED …`` where one does not. It ends with its parent: when its input is closed.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path

from spdist.engine.session import SparkHost
from spdist.language.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import Assignment
from spdist.runtime.group import GroupRuntime
from tests.runtime.host_settings import settings_in


def assignments(text: str) -> list[Assignment]:
    """What the instances of the app run; the group called `last` only makes the planner publish what it reads."""
    return [each for each in plan(parse(text)).assignments() if not each.group.endswith("-last")]


def main(directory: str, app: str, batch: str) -> None:
    """Run the groups."""
    ended = threading.Event()

    def watch() -> None:
        with contextlib.suppress(OSError):
            sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    with SparkHost(settings_in(Path(directory), max_batch_events=int(batch))) as host:
        groups = [GroupRuntime(each, host, "node") for each in assignments(Path(app).read_text(encoding="utf-8"))]
        for group in groups:
            group.start()
        told = ""
        while not ended.wait(0.05):
            statuses = [group.status() for group in groups]
            failed = [status for status in statuses if status.state == "FAILED"]
            said = f"FAILED {failed[0].error}" if failed else "RUNNING"
            if (failed or all(status.state == "RUNNING" for status in statuses)) and said != told:
                print(told := said, flush=True)
        for group in groups:
            group.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
