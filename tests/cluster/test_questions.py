"""Queries on demand over REST, asked of managers and workers; a group in this process answers on the embedded log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.manager import Manager
from spdist.cluster.managers.questions import Question, Questions
from spdist.cluster.worker import Worker
from spdist.config import load_config
from spdist.errors import ClusterError, ErrorKind, OnDemandQueryError, SiddhiAppError, SpdistError
from spdist.transports.opening import TransportSettings
from tests.cluster.asked_group import asked_group
from tests.cluster.shells import CONF, PASSWORD, FakeSpark, settings, with_users, worker_config
from tests.error_codes import coded

Eventually = Callable[..., Any]

APP = """@app:name('Shop') define stream In (k string, v int);
define table Prices (k string, v int); define table Stock (k string, n long);
@info(name='a') @dist(execGroup='prices') from In select k, v insert into Prices;
@info(name='b') @dist(execGroup='stock') from In select k, convert(v, 'long') as n insert into Stock;"""
#: Set while the group of `nodes` shall not answer.
SILENT: list[threading.Event] = []
PUT_IN = "select 'IBM' as k, 7 as v insert into Prices"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Manager, Worker]]:
    """A manager and a worker; the group that keeps `Prices` answers, that of `Stock` does not."""
    home = tmp_path_factory.mktemp("home")
    path = with_users(home, CONF / "manager.yaml", {"vera": "viewer"})
    manager = Manager(load_config(path, role="manager", environment=settings(home, "manager-1")))
    manager.start()
    worker = Worker(worker_config(home, [manager.url]), launcher=FakeSpark())
    try:
        worker.start()
        with ClusterClient([manager.url], "admin", PASSWORD) as client:
            client.deploy(APP).wait(timeout_s=30)
        (keeps,) = (one for one in worker._known_supervisor().assignments().listed if "prices" in one.name)
        with asked_group(Path(manager.config.transports.log.directory), keeps) as silent:
            SILENT.append(silent)
            yield manager, worker
    finally:
        worker.stop()
        manager.stop()


@pytest.fixture(params=["manager", "worker"])
def node(request: pytest.FixtureRequest, nodes: tuple[Manager, Worker]) -> Manager | Worker:
    manager, worker = nodes
    return manager if request.param == "manager" else worker


def put(node: Manager | Worker, app: str, query: str, user: str = "admin", **more: Any) -> httpx.Response:
    secret = PASSWORD if user == "admin" else f"{user}-secret"
    body = {"appName": app, "query": query, **more}
    return httpx.post(f"{node.url}/stores/query", json=body, auth=(user, secret), trust_env=False, timeout=60)


def test_an_app_is_asked_through_any_node(node: Manager | Worker) -> None:
    assert put(node, "Shop", "delete Prices on Prices.v > 0").status_code == 200
    assert put(node, "Shop", PUT_IN).json() == {"records": []}
    assert put(node, "Shop", "from Prices select k, v * 2 as w").json() == {"records": [["IBM", 14]]}
    details = [{"name": "k", "dataType": "string"}, {"name": "w", "dataType": "long"}]
    asked = put(node, "Shop-prices-1", "from Prices select k, v * 2L as w", details=True)
    assert asked.json() == {"records": [["IBM", 14]], "details": details}


@pytest.mark.parametrize(
    ("app", "query", "status", "says"),
    [
        ("", "from Prices select k", 400, "name of the app is empty"),
        ("Shop", "  ", 400, "the query is empty"),
        ("Shop", "from Prices select", 400, ""),
        ("Shop", "from Prices select nothing", 400, "nothing"),
        ("Shop", "from Prices select k " + " " * 20_000, 400, "20000"),
        ("Nobody", "from Prices select k", 404, "Nobody"),
        ("Shop", "from Nothing select k", 404, "Nothing"),
        ("Shop-stock-1", "from Prices select k", 404, "Prices"),
        ("Shop", "from Stock select k", 500, "takes no questions"),
    ],
)
def test_what_cannot_be_answered_says_why(node: Manager | Worker, app: str, query: str, status: int, says: str) -> None:
    answer = put(node, app, query)
    assert (answer.status_code, says in answer.json()["message"]) == (status, True), answer.text


@pytest.mark.parametrize("body", ["", "[]", "{}x", '{"appName": "Shop", "query": 7}', '{"sql": ""}', '{"query": null}'])
def test_a_body_that_asks_nothing_is_refused(node: Manager | Worker, body: str) -> None:
    answer = httpx.post(f"{node.url}/stores/query", content=body, auth=("admin", PASSWORD), trust_env=False)
    assert answer.status_code == 400
    assert "OnDemandQuery" in answer.json()["message"]


def test_who_may_look_may_ask_and_change_nothing(nodes: tuple[Manager, Worker]) -> None:
    manager, _ = nodes
    assert put(manager, "Shop", "from Prices select k", "vera").status_code == 200
    for query in (PUT_IN, "delete Prices on Prices.v > 0", "update Prices set Prices.v = 1 on Prices.v > 0"):
        answer = put(manager, "Shop", query, "vera")
        assert (answer.status_code, "siddhiApp.manage" in answer.json()["message"]) == (403, True), query


def test_questions_that_wait_hold_up_nothing_else(node: Manager | Worker, eventually: Eventually) -> None:
    silent = SILENT[-1]
    answers: list[int] = []
    silent.set()
    try:
        waiting = [
            threading.Thread(target=lambda: answers.append(put(node, "Shop", "from Prices select k").status_code))
            for _ in range(8)
        ]
        for thread in waiting:
            thread.start()
        eventually(lambda: node.app_service._questions._slots._free._value == 0, "all are under way")
        refused = put(node, "Shop", "from Prices select k")
        assert refused.status_code == 503
        assert refused.headers["Retry-After"] == "1"
        assert answers == []
        assert httpx.get(f"{node.url}/siddhi-apps", auth=("admin", PASSWORD), trust_env=False).status_code == 200
    finally:
        silent.clear()
    for thread in waiting:
        thread.join()
    assert answers == [200] * 8


def test_a_group_that_does_not_answer_is_given_up_and_few_are_waited_for(
    nodes: tuple[Manager, Worker], tmp_path: Path, eventually: Eventually
) -> None:
    _, worker = nodes
    (keeps,) = (one for one in worker._known_supervisor().assignments().listed if "prices" in one.name)
    questions = Questions(TransportSettings("log", str(tmp_path)), timeout_s=1.0, most=2)
    failed: list[str] = []

    def ask() -> None:
        try:
            questions.ask(keeps.name, "from Prices select k")
        except SpdistError as error:
            failed.append(error.code)

    with asked_group(tmp_path, keeps) as silent:
        assert questions.ask(keeps.name, "from Prices select k").records == []
        silent.set()
        waiting = [threading.Thread(target=ask) for _ in range(2)]
        for thread in waiting:
            thread.start()
        eventually(lambda: questions._slots._free._value == 0, "two are under way")
        with pytest.raises(ClusterError, match="2 queries on demand are under way", check=coded(ErrorKind.BUSY)):
            questions.ask(keeps.name, "from Prices select k")
        for thread in waiting:
            thread.join()
    questions.close()
    assert failed == [ErrorKind.UNANSWERED, ErrorKind.UNANSWERED]


@pytest.mark.parametrize(
    ("text", "element", "changes"),
    [
        ("from T on a > 1 select *", "T", False),
        ("select 1 as a insert into T", "T", True),
        ("delete T on T.a == 1", "T", True),
        ("update T set T.a = 1 on T.a == 2", "T", True),
        ("select 1 as a update or insert into T set T.a = 1 on T.a == 1", "T", True),
    ],
)
def test_a_query_names_one_element_and_may_change_it(text: str, element: str, changes: bool) -> None:
    assert Question.read(text) == Question(text, element, changes)


def test_a_query_that_cannot_be_read_is_refused() -> None:
    for text, kind in (("", OnDemandQueryError), ("(" * 20_001, OnDemandQueryError), ("(" * 20_000, SiddhiAppError)):
        with pytest.raises(kind):
            Question.read(text)
