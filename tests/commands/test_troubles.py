"""What goes wrong while a command runs: real processes, pipes and signals, and servers that are no managers."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from typer.testing import CliRunner, Result

from spdist.__main__ import app
from spdist.cluster.api import serve
from spdist.commands import connection
from spdist.commands.events import Form, read_lines
from spdist.commands.lines import Lines, opened_lines
from spdist.errors import MappingError
from spdist.language.types import Schema
from spdist.transports.sockets.listening import Listener
from spdist.transports.sockets.tls import VERIFY_CLIENT, server_context
from tests.cluster.shells import manager_config
from tests.commands.trades import deployed
from tests.transports.certificates import HERE, authority, certificate

Run = Callable[..., Result]
Eventually = Callable[..., Any]
SCHEMA = Schema.of([("symbol", "string"), ("price", "double")])
EVENT = {"symbol": "a", "price": 1.0}


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own, which Ctrl-C can reach also where tests run in the background."""
    started = subprocess.Popen(
        [sys.executable, "-m", "spdist", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def line_of(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline()


def told(run: Run, stream: str = "Trades") -> list[dict[str, Any]]:
    return [json.loads(line)["event"] for line in run("tail", "Trades", stream).stdout.splitlines()]


@pytest.fixture
def trades(run: Run) -> Run:
    """`run`, with an app and an event in its stream."""
    deployed(run)
    assert run("feed", "Trades", "Trades", "--producer", "first", text=json.dumps(EVENT)).exit_code == 0
    return run


# ------------------------------------------------------------------------------------------------- signals and pipes
@pytest.mark.parametrize("command", ["tail Trades Trades --follow", "status Trades --watch --json"])
def test_ctrl_c_ends_a_command_with_130_and_no_traceback(trades: Run, command: str) -> None:
    with process(*command.split()) as running:
        assert line_of(running)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=20)
        assert (running.returncode, said) == (130, "")


def test_what_comes_slowly_is_sent_as_it_comes_and_counted_where_it_is_interrupted(
    trades: Run, eventually: Eventually
) -> None:
    with process("feed", "Trades", "Trades") as running:
        assert running.stdin is not None
        for price in (1, 2):
            running.stdin.write(f'{{"symbol": "live", "price": {price}}}\n')
            running.stdin.flush()
            there = {"symbol": "live", "price": float(price)}
            eventually(lambda: there in told(trades), "it is there before the input ends")  # noqa: B023
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=20)
        # The second is sent when the first was answered; its own answer may be under way.
        assert running.returncode == 130 and said in ("1 events\n", "2 events\n")


def test_a_wrong_line_ends_a_feed_whose_input_goes_on(trades: Run) -> None:
    with process("feed", "Trades", "Trades") as running:
        assert running.stdin is not None and running.stderr is not None
        running.stdin.write("nonsense\n")
        running.stdin.flush()
        assert running.wait(20) == 1
        assert "line 1: " in running.stderr.read()


def test_a_reader_that_goes_away_leaves_no_traceback(trades: Run) -> None:
    with process("tail", "Trades", "Trades", "--follow") as running:
        assert line_of(running)
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert trades("feed", "Trades", "Trades", text=json.dumps(EVENT)).exit_code == 0
        assert running.wait(20) == 1
        assert running.stderr.read() == ""


def test_a_pipe_with_a_name_is_read_too(trades: Run, tmp_path: Path) -> None:
    """As `<(zcat events.gz)` makes it: it has no size and no place in it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text('{"symbol": "piped", "price": 1}\n'))
    writer.start()
    done = trades("feed", "Trades", "Trades", str(pipe))
    writer.join()
    assert (done.exit_code, done.stderr) == (0, "1 events\n")
    assert {"symbol": "piped", "price": 1.0} in told(trades)


# ---------------------------------------------------------------------------------------------------------- wrong lines
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"symbol": "\xff", "price": 1}', "line 1 is not UTF-8 text"),
        (b"[" * 100_000, "line 1: "),
        (b'{"symbol": "a", "price": 1' + b"0" * 400 + b"}", "line 1: the attribute price is of type double"),
        (b'{"event": {"symbol": "a"}}', "line 1: it has the attributes (symbol)"),
        (b'{"data": ["a"]}', "line 1: the event ('a',) has 1 values"),
        (b'{"event": {"symbol": "a", "price": 1}, "data": ["a", 1]}', "line 1: it has the attributes (event, data)"),
    ],
)
def test_a_line_that_is_no_event_is_told(trades: Run, tmp_path: Path, line: bytes, said: str) -> None:
    file = tmp_path / "lines.json"
    file.write_bytes(line)
    before = told(trades)
    done = trades("feed", "Trades", "Trades", str(file))
    assert done.exit_code == 1
    assert said in done.stderr, done.exception
    assert told(trades) == before


def read(*lines: str, schema: Schema = SCHEMA, form: Form = Form.JSON) -> list[tuple[int, tuple[Any, ...]]]:
    return list(read_lines(lines, form, schema, "S"))


def test_events_as_rest_has_them_are_events_too() -> None:
    assert read(
        '{"timestamp": 1, "data": ["a", 1]}',
        '{"timestamp": 2, "event": {"price": 1, "symbol": "a"}}',
        '{"timestamp": 3, "price": 1, "symbol": "a"}',
    ) == [(1, ("a", 1.0)), (2, ("a", 1.0)), (3, ("a", 1.0))]
    # Attributes may have the names of the forms.
    odd = Schema.of([("event", "object"), ("data", "object")])
    assert read('{"timestamp": 1, "event": [1], "data": [2]}', schema=odd) == [(1, ([1], [2]))]
    one = Schema.of([("event", "object")])
    assert read('{"timestamp": 1, "event": {"event": [1]}}', '{"timestamp": 2, "event": [1]}', schema=one) == [
        (1, ([1],)),
        (2, ([1],)),
    ]


def test_times_are_read_to_the_millisecond() -> None:
    for ms in (1, 1001, 2003, 1_700_000_000_123):
        whole, part = divmod(ms, 1000)
        at = f"{connection.shown_time(whole * 1000)[:19]}.{part:03d}Z"
        assert read(f'{{"timestamp": "{at}", "symbol": "a", "price": 1}}')[0][0] == ms


def test_numbers_of_csv_have_no_underscores() -> None:
    with pytest.raises(MappingError, match="price is of type double"):
        read("symbol,price\n", "a,1_0\n", form=Form.CSV)


def test_lines_are_those_of_the_file_wherever_it_is_cut(tmp_path: Path) -> None:
    text = "\ufeff" + "".join(f"{number} é {'x' * number}\r\n" for number in range(1000)) + "\n\nend"
    file = tmp_path / "text"
    file.write_text(text, encoding="utf-8", newline="")
    with opened_lines(file) as lines:
        found = list(lines)
        assert (lines.read, lines.size) == (file.stat().st_size, file.stat().st_size)
    assert found == text[1:].splitlines(keepends=True)
    assert list(Lines(io.BytesIO(b""))) == []  # type: ignore[arg-type]
    with pytest.raises(typer.BadParameter), opened_lines(tmp_path):
        pass


# -------------------------------------------------------------------------------------------------- who cannot answer
def test_a_command_that_waits_for_a_manager_says_so(run: Run, impatient: Callable[[float], None]) -> None:
    impatient(0.5)
    done = run("list", "--url", "http://127.0.0.1:1")
    assert done.exit_code == 3
    assert done.stderr.startswith("no manager answered: ")
    assert done.stderr.count("tried again for 0.5 s") == 1
    assert not logging.getLogger("spdist.cluster.clients.calling").handlers


def test_a_password_in_an_address_is_refused_and_not_shown(run: Run) -> None:
    done = run("list", "--url", "http://admin:geheim@127.0.0.1:1")
    assert (done.exit_code, "geheim" in done.output) == (2, False)
    assert run("list", "--url", "http://127.0.0.1:1?a=b").exit_code == 2
    assert run("list", "--key-file", "x.key").exit_code == 2


def test_a_certificate_is_shown_where_nodes_ask_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority(tmp_path)
    tls = server_context(certificate(tmp_path, "node"), tmp_path / "ca.crt", VERIFY_CLIENT["require"])
    server = FastAPI()

    @server.get("/siddhi-apps/T/revisions")
    def revisions() -> list[str]:
        return ["1__T"]

    listener = Listener(HERE, 0, tls)
    listener.start(server)
    monkeypatch.setenv("SPDIST_PASSWORD", "x")
    command = ["revisions", "T", "--url", listener.url, "--trust-file", str(tmp_path / "ca.crt")]
    pair = ["--cert-file", str(tmp_path / "ann.crt"), "--key-file", str(tmp_path / "ann.key")]
    try:
        done = CliRunner().invoke(app, [*command, *pair])
    finally:
        listener.stop()
    assert (done.exit_code, done.stdout) == (0, "1__T\n"), done.stderr
    for wrong in ("--trust-file", "--cert-file"):
        done = CliRunner().invoke(app, [*command, wrong, str(tmp_path / "none.pem")], env={"COLUMNS": "400"})
        assert (done.exit_code, "none.pem" in done.stderr, "--cert-file" in done.stderr) == (2, True, True)


@pytest.mark.parametrize(
    "command", ["list", "nodes", "status T", "revisions T", "logs", "metrics", "journal", "tail T S", "backup T"]
)
def test_a_server_that_is_no_manager_is_told(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = FastAPI()

    @server.api_route("/{path:path}", methods=["GET", "POST"])
    def answer(path: str) -> HTMLResponse:
        return HTMLResponse("<h1>Welcome</h1>")

    running = serve(server, manager_config(tmp_path))
    monkeypatch.setenv("SPDIST_PASSWORD", "x")
    try:
        done = CliRunner().invoke(app, [*command.split(), "--url", running.url])
    finally:
        running.stop()
    assert (done.exit_code, "is that a manager of spdist" in done.stderr) == (1, True), done.exception


# --------------------------------------------------------------------------------------------------------------- output
def test_lines_of_tables_are_whole_where_a_program_reads_them(trades: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    rows = trades("journal").stdout.splitlines()
    assert any("app-deployed" in row and "Trades" in row and "admin" in row for row in rows)


def test_json_is_text_that_standard_output_has_characters_for(trades: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trades("feed", "Trades", "Trades", text='{"symbol": "é→", "price": 1}').exit_code == 0
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    with process("tail", "Trades", "Trades") as running:
        out, said = running.communicate(timeout=20)
    assert said == ""
    assert "é→" in [json.loads(line)["event"]["symbol"] for line in out.splitlines()]
