"""The commands for a running cluster, against a real manager; what it does not serve yet, against a small server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from typer.testing import CliRunner, Result

from spdist.__main__ import app
from spdist.cluster.api import serve
from spdist.commands import connection
from spdist.commands.events import Form, read_lines
from spdist.errors import MappingError
from spdist.language.types import Schema
from tests.cluster.shells import PASSWORD, manager_config
from tests.commands.trades import TEXT, deployed

SCHEMA = Schema.of([("symbol", "string"), ("price", "double"), ("n", "int"), ("ok", "bool")])


# ----------------------------------------------------------------------------------------------------------------- apps
def test_the_life_of_an_app(run: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "trades.siddhi"
    file.write_text(TEXT)
    done = run("deploy", str(file))
    assert (done.exit_code, done.stdout.splitlines()) == (0, ["Trades: deployed", "Trades: RUNNING"])
    assert "Trades: updated" in run("deploy", str(file)).stdout
    done = run("deploy", str(file), "--new")
    assert done.exit_code == 1
    assert "error SP0706" in done.stderr
    assert json.loads(run("deploy", str(file), "--json").stdout)["name"] == "Trades"
    assert json.loads(run("list", "--json").stdout)[0]["state"] == "RUNNING"
    assert "RUNNING" in run("list").stdout
    shown = run("status", "Trades").stdout
    assert all(part in shown for part in ("version 3", "Trades-default-1", "worker-1"))
    assert json.loads(run("status", "Trades", "--json").stdout)["groups"][0]["worker"] == "worker-1"
    shown = run("nodes").stdout
    assert all(part in shown for part in ("manager-1", "leads", "worker-1", "READY", "Trades-default-1"))
    assert json.loads(run("nodes", "--json").stdout)["leader"] == "manager-1"
    assert run("undeploy", "Trades").exit_code == 0
    assert json.loads(run("list", "--json").stdout) == []
    assert run("status", "Trades").exit_code == 1


def test_nodes_tell_which_worker_is_given_nothing_new(run: Callable[..., Result]) -> None:
    assert "cordoned" not in run("nodes").stdout
    for command, told in (("cordon", "cordoned, READY"), ("drain", "drained, READY")):
        assert run(command, "worker-1").exit_code == 0
        assert told in run("nodes").stdout
    assert run("uncordon", "worker-1").exit_code == 0
    assert "drained" not in run("nodes").stdout


def test_a_wrong_app_is_shown_with_its_place(run: Callable[..., Result]) -> None:
    done = run("deploy", "-", text=TEXT.replace("price > 10.0", "prize > 10.0"))
    assert done.exit_code == 1
    assert "line 5" in done.stderr
    assert "@info(name='q') from Trades[prize > 10.0]" in done.stderr
    assert "^" in done.stderr


def test_watching_looks_again_until_it_is_interrupted(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(run)
    looks: list[float] = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(connection, "pause", pause)
    done = run("status", "Trades", "--watch", "--json")
    assert done.exit_code == 130
    assert [json.loads(line)["name"] for line in done.stdout.splitlines()] == ["Trades"] * 3


# --------------------------------------------------------------------------------------------------------------- events
def test_events_go_in_and_come_out(run: Callable[..., Result], tmp_path: Path) -> None:
    deployed(run)
    lines = [
        '{"timestamp": 1000, "symbol": "IBM", "price": 75}',
        '{"timestamp": "1970-01-01T00:00:02Z", "event": {"symbol": "WSO2", "price": "Infinity"}}',
        "",
        '{"timestamp": 3000, "symbol": "é", "price": null}',
    ]
    done = run("feed", "Trades", "Trades", "--producer", "me", text="\n".join(lines))
    assert done.exit_code == 0, done.output
    assert "3 events" in done.stderr
    out = run("tail", "Trades", "Trades").stdout
    assert [json.loads(line) for line in out.splitlines()] == [
        {"timestamp": 1000, "event": {"symbol": "IBM", "price": 75.0}, "id": "me@Trades.Trades/0:0"},
        {"timestamp": 2000, "event": {"symbol": "WSO2", "price": "Infinity"}, "id": "me@Trades.Trades/0:1"},
        {"timestamp": 3000, "event": {"symbol": "é", "price": None}, "id": "me@Trades.Trades/0:2"},
    ]
    assert run("feed", "Trades", "Trades", "--producer", "me", text=out).exit_code == 0
    assert run("tail", "Trades", "Trades").stdout == out
    file = tmp_path / "more.csv"
    file.write_text("price,timestamp,symbol\n1.5,4000,X\n,5000,Y\n")
    assert run("feed", "Trades", "Trades", str(file)).exit_code == 0
    shown = run("tail", "Trades", "Trades", "--table").stdout
    assert "1970-01-01 00:00:04.000" in shown and "me@Trades.Trades/0:2" in shown
    assert run("tail", "Trades", "Trades", "--new").stdout == ""


def test_wrong_lines_are_told_by_their_number(run: Callable[..., Result]) -> None:
    deployed(run)
    before = run("tail", "Trades", "Trades").stdout
    text = '{"symbol": "a", "price": 1}\n{"symbol": "b"}\nnonsense\n{"symbol": "c", "price": "dear"}\n[]\n'
    done = run("feed", "Trades", "Trades", text=text)
    assert done.exit_code == 1
    for part in (
        "4 lines",
        "line 2: it has the attributes (symbol), the stream has (symbol string, price double)",
        "line 3: ",
        "line 4: the attribute price",
        "line 5",
    ):
        assert part in done.stderr
    assert run("tail", "Trades", "Trades").stdout == before


def test_csv_has_types_and_times() -> None:
    lines = ["symbol,price,n,ok,at\n", '"a,b",1.5,7,TRUE,1970-01-01T00:00:01+01:00\n', ",,,,\n"]
    (first, second) = read_lines(lines, Form.CSV, SCHEMA, "S", "at")
    assert first == (-3_599_000, ("a,b", 1.5, 7, True))
    assert second[0] > 1_700_000_000_000
    assert second[1] == (None, None, None, None)
    wrong_lines = """x,1.5,seven,true,0
        x,1.5,7,yes,0
        x,1.5,3000000000,true,0
        x,1.5,7,true,noon
        x,1.5
        a,1,2,true,0,more"""
    for wrong in wrong_lines.split():
        with pytest.raises(MappingError, match="line 2: "):
            list(read_lines([lines[0], wrong], Form.CSV, SCHEMA, "S", "at"))


# ----------------------------------------------------------------------------------------------------------- exit codes
def test_who_cannot_be_reached_is_3(run: Callable[..., Result], impatient: Callable[[float], None]) -> None:
    impatient(0.1)
    done = run("list", "--url", "http://127.0.0.1:1")
    assert done.exit_code == 3
    assert "error SP0720: no manager answered" in done.stderr


def test_wrong_command_lines_are_2(run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run("list", "--url", "nonsense").exit_code == 2
    assert run("list", "--trust-file", str(tmp_path / "none.pem")).exit_code == 2
    assert run("list", "--password-file", str(tmp_path / "none")).exit_code == 2
    assert run("feed", "Trades", "Trades", str(tmp_path / "none")).exit_code in (1, 2)
    assert run("deploy", str(tmp_path / "none")).exit_code == 2
    monkeypatch.delenv("SPDIST_PASSWORD")
    done = run("list")
    assert done.exit_code == 2
    assert "SPDIST_PASSWORD" in done.stderr


def test_the_password_comes_from_a_file_or_the_environment(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("SPDIST_PASSWORD", "wrong-and-hidden")
    done = run("list")
    assert (done.exit_code, "wrong-and-hidden" in done.output) == (1, False)
    assert "error SP0705" in done.stderr
    assert run("list", "--password-file", str(file)).exit_code == 0


def test_names_of_apps_are_completed_and_trouble_is_quiet(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed(run)
    context = typer.Context(typer.main.get_command(app))
    assert connection.complete_apps(context, "Tr") == ["Trades"]
    assert connection.complete_apps(context, "X") == []
    monkeypatch.setattr(connection, "_COMPLETION_S", 0.1)
    monkeypatch.setenv("SPDIST_URL", "http://127.0.0.1:1")
    assert connection.complete_apps(context, "") == []
    monkeypatch.setenv("SPDIST_URL", "nonsense")
    assert connection.complete_apps(context, "") == []


# ------------------------------------------------------------------------------------------- what other routes answer
@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A server that answers as their contracts say; yields what it was asked."""
    seen: list[str] = []
    server = FastAPI()

    @server.middleware("http")
    async def note(request: Request, call: Any) -> Any:
        seen.append(
            f"{request.method} {request.url.path}?{request.url.query} {(await request.body()).decode()}".strip()
        )
        return await call(request)

    url: list[str] = []
    node = {"receiver": False, "state": "READY", "reason": "", "groups": []}
    answers: dict[tuple[str, str], Any] = {
        ("POST", "/stores/query"): {
            "records": [["IBM", 75.0]],
            "details": [{"name": "symbol", "dataType": "STRING"}, {"name": "price", "dataType": "DOUBLE"}],
        },
        ("POST", "/siddhi-apps/Trades/backup"): {"revision": "r2"},
        ("POST", "/siddhi-apps/Trades/restore"): {},
        ("GET", "/siddhi-apps/Trades/revisions"): ["r1", "r2"],
        ("DELETE", "/siddhi-apps/Trades/revisions"): {"type": "success", "revisions": ["r1"]},
        ("PUT", "/resourceClusterWorkers/w%201/cordon".replace("%20", " ")): {},
        ("DELETE", "/resourceClusterWorkers/w 1/cordon"): {},
        ("POST", "/managers/rebalance"): {"moves": [{"group": "T-g-1", "from": "w1", "to": "w2", "reason": "room"}]},
        ("GET", "/managers/journal"): {"entries": [{"id": 7, "time": 1000, "kind": "deployed", "app": "Trades"}]},
        ("GET", "/logs"): {"records": [{"time": 2000, "level": "WARNING", "message": "[red]late"}]},
    }

    @server.get("/managers/nodes")
    def nodes() -> Any:
        gone = {**node, "id": "w9", "url": "http://127.0.0.1:1"}
        return {"managers": [{"id": "m1", "url": url[0], "leads": True}], "workers": [gone]}

    @server.get("/metrics")
    def metrics() -> Any:
        return PlainTextResponse("spdist_up 1\n")

    @server.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])
    def answer(path: str, request: Request) -> Any:
        return answers[request.method, f"/{path}"]

    running = serve(server, manager_config(tmp_path))
    url.append(running.url)
    monkeypatch.setenv("SPDIST_URL", running.url)
    monkeypatch.setenv("SPDIST_PASSWORD", "x")
    monkeypatch.setenv("COLUMNS", "200")
    yield seen
    running.stop()


@pytest.mark.parametrize(
    ("command", "request_line", "shown"),
    [
        (
            "query Trades from=T",
            'POST /stores/query? {"appName": "Trades", "query": "from=T", "details": true}',
            "75.0",
        ),
        ("backup Trades", "POST /siddhi-apps/Trades/backup?", "r2"),
        ("restore Trades r1", "POST /siddhi-apps/Trades/restore?revision=r1", "revision r1"),
        ("revisions Trades", "GET /siddhi-apps/Trades/revisions?", "r1\nr2"),
        ("revisions Trades --clear", "DELETE /siddhi-apps/Trades/revisions?", "r1"),
        ("cordon w+1", 'PUT /resourceClusterWorkers/w 1/cordon? {"drain": false}', "nothing new"),
        ("drain w+1", 'PUT /resourceClusterWorkers/w 1/cordon? {"drain": true}', "goes elsewhere"),
        ("uncordon w+1", "DELETE /resourceClusterWorkers/w 1/cordon?", "groups again"),
        ("rebalance", "POST /managers/rebalance?dryRun=true", "would be moved"),
        ("rebalance --dry-run", "POST /managers/rebalance?dryRun=true", "would be moved"),
        ("rebalance --now", "POST /managers/rebalance?dryRun=false", "T-g-1"),
        ("journal --app Trades", "GET /managers/journal?app=Trades&limit=50", "1970-01-01 00:00:01.000"),
        ("logs --level WARNING", "GET /logs?level=WARNING&limit=50", "[red]late"),
        ("metrics", "GET /metrics?", "spdist_up 1"),
    ],
)
def test_commands_ask_what_the_routes_take(asked: list[str], command: str, request_line: str, shown: str) -> None:
    done = CliRunner().invoke(app, [word.replace("+", " ") for word in command.split()])
    assert done.exit_code == 0, done.output
    assert request_line in asked
    assert shown in done.stdout


def test_the_same_as_json(asked: list[str]) -> None:
    def said(*command: str) -> Any:
        return json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)

    assert said("query", "Trades", "from T") == [{"symbol": "IBM", "price": 75.0}]
    assert said("backup", "Trades") == {"revision": "r2"}
    assert said("revisions", "Trades") == ["r1", "r2"]
    assert said("rebalance")[0]["to"] == "w2"
    assert said("journal")[0]["id"] == 7
    assert said("logs")[0]["node"] == "m1"
    one = CliRunner().invoke(app, ["logs", "w9"])
    assert (one.exit_code, "node w9 does not answer" in one.stderr) == (3, True)
    assert CliRunner().invoke(app, ["logs", "w8"]).exit_code == 1
