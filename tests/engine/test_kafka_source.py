"""What Spark's connector is told of the brokers."""

from __future__ import annotations

import pytest

from spdist.engine.spark.kafka_source import KafkaReading
from spdist.transports.kafka.options import KafkaSettings


@pytest.mark.parametrize(("patience_ms", "waits_ms"), [(1_000, "60000"), (300_000, "300000")])
def test_for_topics_between_groups_a_query_waits_as_long_as_it_is_told_to(patience_ms: int, waits_ms: str) -> None:
    settings = KafkaSettings("127.0.0.1:1", patience_ms=patience_ms)
    options = KafkaReading(settings, {"App.M": "App.M"}, {"App.M": {0: 0, 1: 7}}, 200).options()
    assert options["kafka.default.api.timeout.ms"] == waits_ms
    assert int(options["kafkaConsumer.pollTimeoutMs"]) > int(waits_ms)
    assert "fetchOffset.numRetries" not in options
    assert options["startingOffsets"] == '{"App.M": {"0": -2, "1": 7}}'


def test_of_a_users_source_it_is_told_soon_that_the_brokers_are_away() -> None:
    reading = KafkaReading(KafkaSettings("127.0.0.1:1"), {"t": "t"}, {"t": {0: 0}}, 200, headers=False)
    assert reading.options()["kafka.default.api.timeout.ms"] == "15000"
    assert reading.options()["fetchOffset.numRetries"] == "1"


def test_what_the_settings_say_of_timeouts_counts() -> None:
    settings = KafkaSettings("127.0.0.1:1", properties={"default.api.timeout.ms": "5000"})
    options = KafkaReading(settings, {"t": "t"}, {"t": {0: 0}}, 200).options()
    assert options["kafka.default.api.timeout.ms"] == "5000"
    assert "kafka.request.timeout.ms" not in options
