"""Why something came out of a deployed app: its topics say what came in, and the rest is a replay."""

from __future__ import annotations

from typing import Any

import pytest

import spdist
from spdist.errors import NotFoundError, StateError

APP = """
@app:name('Rooms') @app:playback
define stream Readings (room string, degrees double);
define stream Noise (text string);
@sink(type='embedded', topic='Rooms.Alerts') define stream Alerts (room string);
@dist(execGroup='a') from Readings[degrees > 30.0] select room insert into Hot;
@dist(execGroup='b') from every h=Hot -> not Hot[room == h.room] for 10 sec select h.room as room insert into Alerts;
from Noise select text insert into Heard;
"""
READINGS = [(1000 * n, (room, 28.0 + n)) for n in range(8) for room in ("attic", "cellar")]


class Deployed:
    """What a handle of a deployed app says of its text and its topics."""

    def __init__(self, published: list[tuple[int, tuple[Any, ...]]]) -> None:
        self.topics = {"Readings": READINGS, "Alerts": published}

    def text(self) -> str:
        return APP

    def read(self, stream: str) -> list[tuple[int, tuple[Any, ...]]]:
        return self.topics[stream]


def test_an_alert_of_a_deployed_app_is_found_in_a_replay_of_its_topics() -> None:
    # In the topic they stand in another order than they come out here.
    app: Any = Deployed([(17_000, ("cellar",)), (17_000, ("attic",))])
    assert spdist.run(APP, {"Readings": READINGS}, 17_000)["Alerts"] == [(17_000, ("attic",)), (17_000, ("cellar",))]
    for which, room in ((0, 15), (-1, 14), (("attic",), 14)):
        evidence = spdist.why(app, "Alerts", which)
        assert [(cause.stream, cause.position) for cause in evidence.causes] == [("Readings", room)]
        assert str(evidence.intervals[0]).startswith("no Hot[room == h.room] from 7,000 ms to 17,000 ms")


def test_what_a_replay_does_not_give_is_told() -> None:
    app: Any = Deployed([(17_000, ("attic",)), (18_000, ("attic",)), (17_000, ("attic",))])
    for which in (1, 2):
        with pytest.raises(StateError, match="16 events in the topics of Readings"):
            spdist.why(app, "Alerts", which)
    with pytest.raises(NotFoundError, match="3 events were published"):
        spdist.why(app, "Alerts", 3)
