"""What managers and workers have in common as processes."""

from __future__ import annotations

import gc
import threading

from spdist.cluster.process import wait_for_end


def test_what_a_node_has_loaded_is_passed_over_by_the_collector_while_it_works() -> None:
    stop = threading.Event()
    kept = []

    def look() -> None:
        kept.append(gc.get_freeze_count())
        stop.set()

    wait_for_end(stop, look)  # type: ignore[func-returns-value]
    assert kept[0] > 10_000
    assert gc.get_freeze_count() == 0
