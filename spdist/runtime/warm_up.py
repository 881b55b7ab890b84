"""A group of no app, run once on a Spark session that nobody uses: the next begins without what that has to load."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING

from spdist.runtime.command_topics import commanded
from spdist.runtime.group import wait_until
from spdist.runtime.realtime import runtime_of
from spdist.runtime.standalone import prepare

if TYPE_CHECKING:
    from spdist.engine.spark.session import SparkHost

__all__ = ["warm_up"]

_APP = """
@app:name('Warming') @app:description('Runs once when Spark has started, for what it loads.')
define stream S (k string, v long);
from S[v > 0]#window.length(2) select k, sum(v) as v group by k insert into Out;
"""


def warm_up(host: SparkHost, ending: threading.Event, timeout_s: float = 60.0) -> bool:
    """Run a group until it has committed a batch; return whether it has.

    Parameters
    ----------
    host : SparkHost
        Started. Its topics and states are not touched.
    ending : threading.Event
        Set when the host is to be stopped, which does not wait for this.
    timeout_s : float
        How long it may take.
    """
    place = host.scratch / "warming"
    group = runtime_of(commanded(prepare(_APP)), host.apart(place), "warming", "micro-batch")
    group.start()
    wait_until(lambda: ending.is_set() or group.status().state != "STARTING", time.monotonic() + timeout_s)
    warm = group.status().state == "RUNNING"
    if warm:
        group.stop()
    else:
        group.kill()
    shutil.rmtree(place, ignore_errors=True)
    return warm
