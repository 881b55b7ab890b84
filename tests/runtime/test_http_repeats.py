"""Requests that are sent again after a failure: told by their numbers, each user's and each sender's apart."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from spdist.connectors.http.sink import HttpSink
from spdist.transports.delivery import Delivery
from tests.runtime.test_sources import HTTP, Fed, fed

__all__ = ["fed"]


def numbered(number: int, origin: str = "life-1.0.0") -> dict[str, str]:
    return {"spdist-id": f"Sender-g-1:{number}", "spdist-origin": origin}


def test_a_numbered_request_that_is_sent_again_counts_once_also_after_a_restart(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format(", basic.auth.enabled='true'", ""))

    def send(number: int, user: str = "me", origin: str = "life-1.0.0", count: int = 1) -> None:
        rows = [{"event": {"k": user, "n": number}}] * count
        auth = (user, "pw")
        assert httpx.post(one.url, json=rows, headers=numbered(number, origin), auth=auth).status_code == 200

    send(0, count=3)
    send(1)
    one.again()  # the answer was lost, and what took it, too
    send(0, count=3)
    send(1)
    send(2)
    assert one.rows() == [("me", 0)] * 3 + [("me", 1), ("me", 2)]
    # Another user's numbers are its own, and so are those of a sender that began anew.
    send(1, "other")
    send(1, origin="life-2.0.0")
    assert one.rows()[5:] == [("other", 1), ("me", 1)]


@pytest.mark.parametrize(("option", "rows"), [("", 2), (", drop.repeats='true'", 1), (", drop.repeats='false'", 2)])
def test_whether_an_open_source_drops_repeats_is_for_the_app_to_say(
    fed: Callable[..., Fed], option: str, rows: int
) -> None:
    one = fed(HTTP.format(option, ""))
    for _ in range(2):
        httpx.post(one.url, json={"event": {"k": "a", "n": 1}}, headers=numbered(7))
    assert one.rows() == [("a", 1)] * rows


@pytest.mark.parametrize("id", [":", "7", "no number", "S:", "S:-1", "S:1.5", "S:\u0661", f"S:{10**12}"])
def test_a_number_that_cannot_be_read_is_refused_as_it_could_count_twice(fed: Callable[..., Fed], id: str) -> None:
    one = fed(HTTP.format(", drop.repeats='true'", ""))
    answer = httpx.post(one.url, json={"event": {"k": "a", "n": 1}}, headers={"spdist-id": id.encode("utf-8")})
    assert answer.status_code == 400
    assert "not a number of up to 12 digits behind who counts" in answer.json()["error"]
    assert "write it like spdist-id: press-1:7" in answer.json()["error"]
    assert httpx.post(one.url, json={"event": {"k": "a", "n": 2}}, headers={"spdist-id": ""}).is_success
    assert one.rows() == [("a", 2)]


def test_who_counts_may_stand_in_the_origin_alone(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format(", drop.repeats='true'", ""))
    for origin, number in (("press-1", 7), ("press-1", 7), ("press-2", 7), ("press-1", 8)):
        headers = {"spdist-origin": origin, "spdist-id": str(number)}
        assert httpx.post(one.url, json={"event": {"k": origin, "n": number}}, headers=headers).is_success
    assert one.rows() == [("press-1", 7), ("press-2", 7), ("press-1", 8)]


def test_what_is_sent_by_our_own_sink_is_told_apart_by_sink_and_destination(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format(", drop.repeats='true'", ""))
    options = {"publisher.url": one.url}
    sent = [
        Delivery("http", sink, destination, "O", options, json.dumps({"event": {"k": "a", "n": seq}}), "A-g-1", seq)
        for sink, destination, seq in [(0, 0, 3), (0, 1, 1), (1, 0, 2)]
    ]
    sink = HttpSink(options, origin="one")
    sink.send(sent)
    sink.send(sent)  # a replay
    sink.close()
    later = HttpSink(options, origin="another")
    later.send(sent[:1])
    later.close()
    assert [n for _, n in one.rows()] == [3, 1, 2, 3]
