"""Files of WSO2 that name a broker: what is opened from them, as they are and converted, reaches a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.config import load_config
from spdist.config.converting import convert
from spdist.language.types import Schema
from spdist.transports.feed import Feed, read_events
from spdist.transports.opening import open_transport, transport_settings
from tests.test_config_wso2 import PLAIN, ROOT

SCHEMA = Schema.of([("symbol", "string"), ("price", "double")])
EVENTS = [(1000 + n, (f"s{n % 3}", float(n))) for n in range(20)]


@pytest.mark.services
@pytest.mark.parametrize(
    ("kind", "name", "address"),
    [("kafka", "manager_postgresql", "kafka-1.example:9092"), ("nats", "manager_nats", "nats://nats.example:4222")],
)
@pytest.mark.parametrize("converted", [False, True], ids=["as it is", "converted"])
def test_what_is_published_with_the_settings_of_wso2_is_read_again(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, name: str, address: str, converted: bool
) -> None:
    server = request.getfixturevalue("kafka_broker" if kind == "kafka" else "nats_server")
    text = (ROOT / "tests/config_wso2" / f"{name}.yaml").read_text(encoding="utf-8")
    assert address in text
    file, environment = tmp_path / "deployment.yaml", PLAIN
    file.write_text(text.replace(address, server.url), encoding="utf-8")
    if converted:
        made = convert(file, tmp_path / "new.yaml", environment={})
        file, environment = tmp_path / "new.yaml", {one.variable: one.value.reveal() for one in made.secrets}
        file.write_text(made.text, encoding="utf-8")
    config = load_config(file, role="manager", environment=environment)
    settings = transport_settings(config.transports)
    assert settings.kind == kind
    topic = f"Wso2.{kind}.{converted}"
    transport = open_transport(settings)
    try:
        transport.ensure(topic, 2)
        Feed(transport, topic, SCHEMA, "one", "symbol").send(EVENTS)
        assert sorted(read_events(transport, topic, SCHEMA)) == EVENTS
    finally:
        transport.close()
