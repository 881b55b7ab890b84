"""The ports of http sources: whether one can listen there is found out before Spark is started."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from spdist.config.allowed import Allowed
from spdist.config.standalone import load_standalone
from spdist.connectors.http.addresses import check_ports
from spdist.errors import AppValidationError, TransportError
from spdist.planning.topology import Assignment
from spdist.runtime import standalone
from spdist.services.process import HOST, free_port
from tests.runtime.test_sources import HTTP, Fed, fed

__all__ = ["fed"]

APP = """@app:name('Orders')
@source(type='http', receiver.url='{url}/a', @map(type='json')) define stream A (k string);
@source(type='http', receiver.url='{url}/b', @map(type='json')) define stream B (k string);
from A select k insert into Out;
"""


def prepared(url: str) -> Assignment:
    return standalone.prepare(APP.format(url=url))


def test_a_port_that_is_free_may_have_several_sources() -> None:
    check_ports(prepared(f"http://{HOST}:{free_port()}"), Allowed())


def test_a_port_that_is_taken_is_named_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_spark(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(standalone, "SparkHost", no_spark)
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TransportError) as caught:
            standalone.run_app(prepared(f"http://{HOST}:{port}"), load_standalone(None, tmp_path), threading.Event())
    assert str(caught.value) == (
        f"cannot listen on {HOST}:{port}: it is in use by another process\n"
        f"Hint: stop that one (`ss -ltnp 'sport = :{port}'` names it), or set another port in the receiver.url of the "
        "@source"
    )


def test_an_address_of_another_machine_is_none_to_listen_on() -> None:
    with pytest.raises(TransportError, match=r"cannot listen on 192\.0\.2\.1:8280: .*\nHint: set the host and port"):
        check_ports(prepared("http://192.0.2.1:8280"), Allowed())


def test_a_wrong_address_shows_its_place() -> None:
    with pytest.raises(AppValidationError, match=r"is no address: 'ftp://x/a' \(line 2, column \d+\)\n@source"):
        check_ports(prepared("ftp://x"), Allowed())


def test_a_source_that_does_not_stop_keeps_no_other_from_it(
    fed: Callable[..., Fed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port is free for who takes over, while another source of the app still waits for its server."""
    one = fed(HTTP.format("", "") + HTTP.format("", "").replace("/in", "/other"))
    first, second = one.sources._sources
    ended = threading.Event()
    stop = second.stop
    monkeypatch.setattr(second, "stop", lambda: (stop(), ended.set()))
    waited = []
    monkeypatch.setattr(first, "stop", lambda: waited.append(ended.wait(20)))
    one.sources.stop()
    assert waited == [True]
    monkeypatch.undo()
