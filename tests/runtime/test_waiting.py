"""Waiting for a server that is away: it is told as it begins, again after ever longer pauses, and when it is over."""

from __future__ import annotations

import logging
import threading

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError

from spdist.connectors.kafka.link import KafkaAccess
from spdist.errors import TransportError
from spdist.runtime.waiting import Reminder, when_available

AWAY = KafkaAccess(("127.0.0.1:9999",), {}).away(KafkaTimeoutError("Unable to bootstrap"))


def test_a_reminder_comes_at_first_and_then_ever_less_often() -> None:
    reminder = Reminder(100.0)
    times = [now for now in range(100, 2_100) if reminder.due(now)]
    assert times == [100, 110, 130, 170, 250, 410, 710, 1_010, 1_310, 1_610, 1_910]
    assert (reminder.since(105.0), reminder.since(410.0)) == ("", " for 5 min 10 s")


def test_brokers_that_do_not_answer_are_named_with_what_to_do() -> None:
    assert str(AWAY) == (
        "Kafka at 127.0.0.1:9999 does not answer: KafkaTimeoutError: Unable to bootstrap\n"
        "Hint: is a broker up there, and is bootstrap.servers right? `spdist services up kafka` runs one here"
    )
    assert "does not answer: KafkaConnectionError" in str(KafkaAccess(("a:1",), {}).away(KafkaConnectionError()))


def test_who_waits_says_so_once_and_goes_on_when_the_server_is_there(caplog: pytest.LogCaptureFixture) -> None:
    answers = [AWAY, AWAY, None]
    said: list[str | None] = []

    def look() -> str:
        if (answer := answers.pop(0)) is not None:
            raise answer
        return "found"

    with caplog.at_level(logging.INFO, "spdist.runtime.waiting"):
        assert when_available(look, "A-g-1", threading.Event(), said.append) == "found"
    assert [record.getMessage() for record in caplog.records] == [
        "group A-g-1 waits: Kafka at 127.0.0.1:9999 does not answer: KafkaTimeoutError: Unable to bootstrap. Hint: is "
        "a broker up there, and is bootstrap.servers right? `spdist services up kafka` runs one here",
        "group A-g-1 goes on",
    ]
    assert said[-1] is None
    assert len(said) == 3
    assert "\n" not in str(said[0])


def test_waiting_ends_when_it_is_told_to_and_at_other_errors() -> None:
    ending = threading.Event()

    def away() -> None:
        ending.set()
        raise AWAY

    assert when_available(away, "A-g-1", ending, lambda _: None) is None

    def refused() -> None:
        raise TransportError("no such topic")

    with pytest.raises(TransportError, match="no such topic"):
        when_available(refused, "A-g-1", threading.Event(), lambda _: None)
