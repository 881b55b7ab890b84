"""No payload and no sender stops more than itself: what sources of users receive, and how much of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.connectors import receiving as module
from spdist.connectors.file import source as file_module
from spdist.connectors.http import source as http_module
from spdist.services.process import free_port
from spdist.transports.base import Record
from spdist.transports.errors import read_errors
from tests.runtime.test_sources import FILE, HTTP, Becomes, Fed, becomes, fed

__all__ = ["becomes", "fed"]

NESTED = "[" * 5000


def test_a_body_that_nobody_can_read_is_a_bad_request(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format(", on.error='STORE'", ""))
    hostile: tuple[bytes, ...] = (NESTED.encode(), b'{"event":' * 5000, b"[" * 1_000_000, b"9" * 5000)
    for body in hostile:
        answer = httpx.post(one.url, content=body)
        assert answer.status_code == 400
        assert len(answer.text) < 2000
    assert httpx.post(one.url, json={"event": {"k": "a", "n": 1}}).is_success
    assert (one.rows(), one.sources.rejected) == ([("a", 1)], {"S": len(hostile)})
    assert [len(entry["payload"]) for entry in read_errors(one.transport, "A")] == list(map(len, hostile))


def test_xml_with_odd_encodings_and_entities_is_a_bad_request(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format("", "").replace("json", "xml"))
    for body in (
        b'<?xml version="1.0" encoding="utf-7"?><events/>',
        b'<!DOCTYPE a [<!ENTITY x "y">]><events><event><k>&x;</k><n>1</n></event></events>',
        b"<a>" * 1_000_000,
    ):
        assert httpx.post(one.url, content=body).status_code == 400
    some = httpx.post(one.url, content="<r><e><k>a</k><n>x</n></e><e><k>b</k><n>2</n></e></r>")
    assert (some.status_code, some.json()["events"], len(some.json()["rejected"])) == (200, 1, 1)
    assert (one.rows(), one.sources.rejected) == ([("b", 2)], {"S": 4})


def test_who_guesses_a_password_of_a_source_has_to_wait_and_nobody_else(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format(", basic.auth.enabled='true'", ""))
    statuses = []
    for number in range(30):
        statuses.append(httpx.post(one.url, json={}, auth=("me", f"no{number}")).status_code)
        if number == 3:
            assert httpx.post(one.url, json={"event": {"k": "a", "n": 1}}, auth=("me", "pw")).is_success
    assert statuses[:4] == [401] * 4
    assert 429 in statuses
    assert httpx.post(one.url, json={"event": {"k": "a", "n": 2}}, auth=("me", "pw")).is_success
    assert httpx.post(one.url, json={"event": {"k": "a", "n": 3}}, auth=("other", "pw")).is_success
    assert [n for _, n in one.rows()] == [1, 2, 3]


def test_large_bodies_are_parsed_beside_those_who_listen(fed: Callable[..., Fed]) -> None:
    """While 7 MB are parsed for one source, others of the port are answered."""
    port = free_port()
    source = f"@source(type='http', receiver.url='http://127.0.0.1:{port}/%s', @map(type='json'))"
    one = fed(source % "a", f"{source % 'b'} define stream T (k string);")
    body = json.dumps([{"event": {"k": "x" * 20, "n": n}} for n in range(100_000)]).encode()
    done = threading.Event()

    def large() -> None:
        assert httpx.post(f"http://127.0.0.1:{port}/a", content=body, timeout=120).is_success
        done.set()

    sending = threading.Thread(target=large)
    sending.start()
    small = 0
    while not done.is_set():
        assert httpx.post(f"http://127.0.0.1:{port}/b", json={"event": {"k": "t"}}, timeout=120).is_success
        small += 1
    sending.join()
    assert (len(one.rows("S")), len(one.rows("T"))) == (100_000, small)
    assert small >= 3


def test_too_much_that_waits_is_to_be_sent_later(fed: Callable[..., Fed], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ", request.size.validation.configurations=\"'request.size.validation.maximum.value:100'\""
    monkeypatch.setattr(http_module, "_MOST_BYTES", 800)
    one = fed(HTTP.format(sizes, ""))
    go, append = threading.Event(), one.transport.append

    def later(records: list[Record]) -> None:
        go.wait(20)
        append(records)

    monkeypatch.setattr(one.transport, "append", later)
    answers: list[httpx.Response] = []

    def send(number: int) -> None:
        answers.append(httpx.post(one.url, json={"event": {"k": "x" * 60, "n": number}}, timeout=60))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 20
    while not answers and time.monotonic() < deadline:
        threads[0].join(0.02)
    go.set()
    for thread in threads:
        thread.join()
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused and all(answer.headers["Retry-After"] == "1" for answer in refused)
    assert len(one.rows()) == len(answers) - len(refused) == sum(answer.is_success for answer in answers)


def test_a_line_that_nobody_can_read_stops_nothing_but_itself(
    fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes
) -> None:
    path = tmp_path / "in.jsonl"
    lines = [json.dumps({"event": {"k": "a", "n": n}}) for n in range(6)]
    path.write_text("\n".join([*lines[:3], NESTED, "{" * 5000, '{"event":{"k":"x","n":1e5}}', *lines[3:]]) + "\n")
    one = fed(FILE.format(f"file.uri='{path}'").replace("csv", "json"))
    becomes(lambda: [n for _, n in one.rows()], list(range(6)))
    assert one.sources.rejected == {"S": 3}
    assert one.sources.problem is None
    one.again()
    with path.open("a") as file:
        file.write(lines[0] + "\n")
    becomes(lambda: [n for _, n in one.rows()], [*range(6), 0])


def test_a_line_that_is_too_long_is_passed_over_in_parts(
    fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "_SLICE", 10)
    path = tmp_path / "in.csv"
    path.write_text("a,1\n" + "x" * 1000)
    one = fed(FILE.format(f"file.uri='{path}', on.error='STORE'").replace("'csv'", "'csv', max.payload.size='25'"))
    becomes(lambda: one.sources.rejected, {"S": 1})
    one.again()  # in the middle of it
    with path.open("a") as file:
        file.write("y" * 100 + "\nb,2\n" + "z" * 26 + "\n" + "c" * 22 + ",3\n")
    becomes(one.rows, [("a", 1), ("b", 2), ("c" * 22, 3)])
    assert one.sources.rejected == {"S": 1}  # since it was made again
    first, second = read_errors(one.transport, "A")
    assert "is larger than 25 bytes" in first["cause"] and first["payload"] == "x" * 200
    assert (len(second["payload"]), "larger than 25 bytes" in second["cause"]) == (26, True)


def test_a_whole_file_that_is_too_large_is_not_read(fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    for name, size in (("1", 3), ("2", 101), ("3", 100)):
        (inbox / name).write_text("x" * size)
    map = "@map(type='text', max.payload.size='100', regex.A='(.+)', @attributes(k='A[1]'))"
    one = fed(
        f"@source(type='file', dir.uri='{inbox}', mode='TEXT.FULL', dir.polling.interval='20', {map})",
        stream="define stream S (k string);",
    )
    becomes(lambda: [len(k) for (k,) in one.rows()], [3, 100])
    assert one.sources.rejected == {"S": 1}


def test_a_value_that_cannot_travel_stops_only_its_chunk(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format("", ""), stream="define stream S (k object);")
    deep: Any = 1
    for _ in range(2000):
        deep = [deep]
    (context,) = one.sources._contexts
    assert context.append([[(1, ("a",))], [(1, (deep,))], [(1, ("b",)), (1, ("c",))]], 1) == 3
    assert one.chunks() == [[("a",)], [("b",), ("c",)]]
    assert one.sources.rejected == {"S": 1}


def test_a_bug_in_a_feeder_is_told_and_tried_again(
    fed: Callable[..., Fed], monkeypatch: pytest.MonkeyPatch, becomes: Becomes
) -> None:
    monkeypatch.setattr(module.Looping, "_LONGEST_PAUSE_S", 0.05)
    one = fed("@source(type='inMemory', topic='t', @map(type='json'))")

    def fails(*_: Any) -> Any:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(one.transport, "read", fails)
        becomes(lambda: one.sources.problem, "the @source of stream 'S': RuntimeError: a bug")
    becomes(lambda: one.sources.problem, None)
