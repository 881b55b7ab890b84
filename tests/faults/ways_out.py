"""The kinds of sinks that results go to, and who receives at each as it is promised to users.

A file has each result once. In topics of ours, in Kafka and over HTTP a delivery may come again, under its id: readers
drop it then.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from kafka import KafkaConsumer, TopicPartition

from spdist.connectors.kafka.link import create_topics
from tests.faults.numbers import Tally, Turning
from tests.faults.ways_in import IslandPlaces

__all__ = ["WAYS_OUT", "WayOut"]

NAME = "sums"


@dataclass(frozen=True, slots=True)
class WayOut:
    """One kind of sink.

    Parameters
    ----------
    options : str
        Those of the ``@sink``, with its mapping.
    stop : callable
        Ends who receives.
    """

    options: str
    stop: Callable[[], None]


def _in_kafka(where: IslandPlaces, tally: Tally) -> WayOut:
    create_topics(where.kafka, {NAME: 1})
    consumer = KafkaConsumer(bootstrap_servers=where.kafka, enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(NAME, 0)])
    known: set[bytes] = set()

    def look() -> None:
        for messages in consumer.poll(200).values():
            for one in messages:
                id = dict(one.headers)["spdist-id"]
                if id in known:
                    tally.repeated += 1
                else:
                    known.add(id)
                    tally.note([_result(one.value)])

    turning = Turning(look, 0.02)

    def stop() -> None:
        turning.stop()
        consumer.close()

    return WayOut(f"bootstrap.servers='{where.kafka}', topic='{NAME}', @map(type='json')", stop)


class QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that are gone."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing."""


def _over_http(where: IslandPlaces, tally: Tally) -> WayOut:
    """As a receiver that remembers the greatest number of each origin: within one, numbers grow."""
    greatest: dict[tuple[str, str], int] = {}
    one_by_one = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            who, _, number = self.headers["spdist-id"].rpartition(":")
            origin = (self.headers["spdist-origin"], who)
            with one_by_one:
                if int(number) <= greatest.get(origin, -1):
                    tally.repeated += 1
                else:
                    greatest[origin] = int(number)
                    tally.note([_result(body)])
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    place = urlsplit(where.http)
    server = QuietServer((str(place.hostname), int(place.port or 0)), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return WayOut(f"publisher.url='{where.http}/{NAME}', on.error='WAIT', @map(type='json')", stop)


def _in_a_file(where: IslandPlaces, tally: Tally) -> WayOut:
    path, rest = where.files / f"{NAME}.jsonl", b""
    path.touch()
    file = path.open("rb")

    def look() -> None:
        nonlocal rest
        *lines, rest = (rest + file.read()).split(b"\n")
        tally.note([_result(line) for line in lines])

    turning = Turning(look, 0.05)

    def stop() -> None:
        turning.stop()
        file.close()

    return WayOut(f"file.uri='{NAME}.jsonl', @map(type='json')", stop)


def _result(payload: bytes) -> tuple[str, int]:
    event = json.loads(payload)["event"]
    return event["source"], event["n"]


#: By the type of the ``@sink``.
WAYS_OUT: dict[str, Callable[[IslandPlaces, Tally], WayOut]] = {
    "kafka": _in_kafka,
    "http": _over_http,
    "file": _in_a_file,
}
