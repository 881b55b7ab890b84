"""What a group on Spark may refer to: secrets in its tasks' sinks, databases with passwords, files in one directory."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spdist.config import Secret
from spdist.config.datasources import Datasource
from spdist.config.sections import Files, Secrets
from spdist.engine.spark.session import SparkHost
from spdist.language.types import Schema
from spdist.runtime.group import GroupRuntime
from spdist.runtime.standalone import prepare
from spdist.transports.feed import Feed
from spdist.transports.log import LogTransport
from tests.runtime.host_settings import HostSettings, settings_in
from tests.transports.receiver import Receiver

APP = """@app:name('Named') define stream S (k string, n long);
@store(type='rdbms', datasource='SHOP') define table T (k string, n long);
@sink(type='http', publisher.url='{url}/in', basic.auth.username='u', basic.auth.password='${{secret:SINK}}',
    headers="'X-Key: ${{secret:KEY}}','X-Name: {{{{k}}}}'", @map(type='text', @payload('{{{{n}}}}')))
@sink(type='file', file.uri='out/{{{{k}}}}.txt', @map(type='text', @payload('{{{{n}}}}')))
define stream Out (k string, n long);
from S insert into T;
from S select k, n insert into Out;
"""
SCHEMA = Schema.of([("k", "string"), ("n", "long")])


@pytest.fixture
def settings(tmp_path: Path) -> HostSettings:
    other = Datasource("OTHER", "postgresql+psycopg://h/db", username="u", password=Secret("geheim-db"))
    sources = {"SHOP": Datasource("SHOP", f"sqlite:///{tmp_path / 'shop.db'}"), "OTHER": other}
    secrets = Secrets({"SINK": Secret("geheim-sink"), "KEY": Secret("geheim-key")})
    files = Files((tmp_path / "files",))
    return replace(settings_in(tmp_path), datasources=sources, secrets=secrets, files=files)


@pytest.mark.spark
@pytest.mark.usefixtures("own_spark")
def test_secrets_reach_the_receiver_and_nothing_else(
    tmp_path: Path, settings: HostSettings, eventually: Callable[..., object], capfd: pytest.CaptureFixture[str]
) -> None:
    receiver = Receiver()
    receiver.answers["/in"] = [(422, "refused: geheim-sink geheim-key")]
    rows = [("a", 1), ("../../escaped", 2), ("b\r\nX-Evil: 1", 3), ("${secret:KEY}", 4)]
    try:
        with SparkHost(settings) as host:
            work = prepare(APP.format(url=receiver.url), allowed=host.allowed)
            log = LogTransport(host.log_directory)
            log.ensure("Named.S", 1)
            feed = Feed(log, "Named.S", SCHEMA)
            feed.send([(1000 + n, row) for n, row in enumerate(rows)])
            group = GroupRuntime(work, host, "worker-1")
            group.start()
            try:
                eventually(lambda: group.status().state == "FAILED" or len(receiver.got) >= 3, "all are sent", 90)
                eventually(lambda: (tmp_path / "files/out/${secret:KEY}.txt").exists(), "all are written", 30)
                assert group.error is None
                assert group.stop(30)
                status = group.status()
            finally:
                group.kill()
            scratch = [path for path in host.scratch.rglob("*") if path.is_file()]
            holding = {path.name for path in scratch if b"geheim" in path.read_bytes()}
    finally:
        receiver.close()
    assert holding == {"allowed.spdist-private.json"}
    login = "Basic " + base64.b64encode(b"u:geheim-sink").decode()
    got = [
        (body, headers["x-name"], headers["x-key"], headers["authorization"]) for _, _, headers, body in receiver.got
    ]
    names = {"1": "a", "2": "../../escaped", "4": "${secret:KEY}"}
    assert got == [(number, name, "geheim-key", login) for number, name in names.items()]
    assert not any("x-evil" in headers for _, _, headers, _ in receiver.got)
    written = {path.name for path in (tmp_path / "files/out").iterdir() if path.suffix == ".txt"}
    assert written == {"a.txt", "${secret:KEY}.txt"}
    assert not list(tmp_path.rglob("*escaped*"))
    said = capfd.readouterr()
    assert "answers 422 refused: *** ***" in said.err + said.out
    assert "geheim" not in said.err + said.out + repr(status)
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        assert connection.execute('SELECT count(*) FROM "T"').fetchone() == (4,)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("secret:SINK", "secret:OTHER", "names the secret OTHER, which this node does not have"),
        ("out/", "/etc/", "lies outside of the directories that apps may use"),
    ],
)
def test_a_group_that_names_what_it_may_not_fails_before_it_starts(
    settings: HostSettings, eventually: Callable[..., object], old: str, new: str, told: str
) -> None:
    """No Spark is started for it; who deployed it reads why, with the place in the app."""
    host: Any = SparkHost(settings)
    work = prepare(APP.format(url="http://h"), allowed=host.allowed)
    group = GroupRuntime(replace(work, text=work.text.replace(old, new)), host, "worker-1")
    group.start()
    eventually(lambda: group.status().state == "FAILED", "it has failed")
    assert told in str(group.status().error) and "line " in str(group.status().error)
    assert host._session is None
