"""The description of the REST interface: it is complete, and what nodes answer is what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from spdist.cluster.api import manager_app, server_app, worker_app
from spdist.cluster.api.description import describe
from spdist.cluster.api.guard import new_app
from spdist.cluster.clients.client import ClusterClient
from spdist.cluster.manager import Manager
from spdist.cluster.server_node import ServerNode
from spdist.cluster.worker import Worker
from spdist.errors import SpdistError
from tests.cluster.shells import PASSWORD, FakeSpark, manager_config, worker_config
from tests.cluster.test_server_node import server_config
from tests.docs.routes import FOLDER, operations, rest

Json = dict[str, Any]
Operation = schemathesis.schemas.APIOperation[Any, Any, Any, Any]
Nodes = tuple[Manager, Worker, ServerNode]

APP = """@app:name('Trades') define stream S (k string, v int); define table T (k string, v int);
@info(name='keep') from S[v > 1] select k, v insert into T;
partition with (k of S) begin from S select k, sum(v) as total insert into Totals; end;"""
#: What is asked for by name: an app, which on a server is its one instance, an instance of its group, and what may not
#: be a name.
NAMES = ("Trades", "Trades-default-1", "revisions")
TEXTS = st.one_of(
    st.sampled_from([APP, "@app:name('Trades') nonsense", "", "\x00"]),
    st.integers(1, 9).map(lambda number: APP.replace("Trades", f"Drawn{number}")),
)
#: What others would miss: the app is gone, then a worker has drawn a term beyond the leader's.
LAST = ["DELETE /siddhi-apps/{name}", "POST /resourceManager/heartbeat"]
#: What neither drawn requests nor the examples bring about: without Spark no group has state or answers, and keeps
#: inputs as evidence; no stream has the name of the app; nobody draws a heartbeat or the id of a worker.
NEVER_DONE = {
    "POST /stores/query",
    "POST /siddhi-apps/{name}/backup",
    "POST /siddhi-apps/{name}/restore",
    "GET /siddhi-apps/{name}/evidence",
    "GET /siddhi-apps/{name}/evidence/messages",
    "GET /siddhi-apps/{name}/evidence/{shard}",
    "POST /resourceManager/heartbeat",
    "PUT /resourceClusterWorkers/{id}/cordon",
    "DELETE /resourceClusterWorkers/{id}/cordon",
    "POST /siddhi-apps/{name}/streams/{stream}/events",
    "GET /siddhi-apps/{name}/streams/{stream}/events",
}
DRAWS = settings(
    max_examples=6,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def running_nodes(home: Path, server_home: Path) -> Iterator[Nodes]:
    """Run a manager that plans as it does for users, a worker and a server whose groups need no Spark; an app runs."""
    manager = Manager(manager_config(home))
    manager.start()
    worker = Worker(worker_config(home, [manager.url]), launcher=FakeSpark())
    server = ServerNode(server_config(server_home), launcher=FakeSpark())
    try:
        worker.start()
        server.start()
        for node in (manager, server):
            with ClusterClient([node.url], "admin", PASSWORD) as client:
                client.deploy(APP).wait(timeout_s=30)
        yield manager, worker, server
    finally:
        server.stop()
        worker.stop()
        manager.stop()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running_nodes(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module", params=["worker", "manager", "server"])
def app(request: pytest.FixtureRequest, nodes: Nodes) -> FastAPI:
    manager, worker, server = nodes
    return {"manager": manager_app(manager), "worker": worker_app(worker), "server": server_app(server)}[request.param]


# ------------------------------------------------------------------------------------------------------- completeness
def test_every_route_says_what_it_does_and_what_may_come_back(app: FastAPI) -> None:
    document = app.openapi()
    assert len(document["paths"]) > 15
    open_to_all = ("GET /health", "GET /login/auth-type")
    for name, operation in operations(document):
        assert " " in operation["summary"], f"{name}: its handler has no docstring"
        done = [status for status in operation["responses"] if status < "300"]
        assert done, name
        content = operation["responses"][done[0]]["content"]
        assert all(one["schema"] for one in content.values()), f"{name}: what it answers is not described"
        assert ("401" in operation["responses"]) is (name not in open_to_all), name
        assert bool(operation.get("security")) is (name not in (*open_to_all, "POST /login/{app}")), name
        if "{" in name:
            assert "404" in operation["responses"], name


def test_the_list_of_routes_is_current(nodes: Nodes) -> None:
    apps = zip(("manager", "worker", "server"), (manager_app, worker_app, server_app), nodes, strict=True)
    text = rest({name: make(node).openapi() for name, make, node in apps})
    assert (FOLDER / "rest.md").read_text() == text, "run `make reference`"


def test_a_permission_is_part_of_the_description(app: FastAPI) -> None:
    found = {name: operation.get("security") for name, operation in operations(app.openapi())}
    assert found["GET /siddhi-apps/{name}"] == [{one: ["siddhiApp.view"]} for one in ("basic", "bearer")]
    assert found["DELETE /siddhi-apps/revisions"] == [{one: ["siddhiApp.manage"]} for one in ("basic", "bearer")]
    assert found["POST /logout/{app}"] == [{"basic": []}, {"bearer": []}]


def test_routes_that_others_add_are_described_without_their_doing() -> None:
    app = new_app("test")

    @app.get("/new/{name}")
    def new(name: str, limit: int = 3) -> list[str]:
        """Say something new.

        With a word of explanation.
        """
        return []

    (operation,) = (one for _, one in operations(describe(app, standby=True)))
    assert (operation["summary"], operation["description"]) == ("Say something new", "With a word of explanation.")
    assert set(operation["responses"]) == {"200", "400", "404"}


class Page(HTMLParser):
    """What a page would load or run, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag in ("script", "link", "img", "iframe") or "src" in known:
            self.loads.append(tag)
        self.links += [known["href"] or ""] if "href" in known else []
        self.ids |= {known["id"] or ""} if "id" in known else set()

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_every_route_and_needs_nothing_from_outside(nodes: Nodes) -> None:
    for node in nodes:
        with httpx.Client(base_url=node.url, auth=("admin", PASSWORD), trust_env=False) as http:
            document, answer = http.get("/openapi.json").json(), http.get("/docs")
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "script-src" not in answer.headers["Content-Security-Policy"]
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        page = Page(answer.text)
        assert page.loads == []
        assert {link[1:] for link in page.links if link.startswith("#")} <= page.ids
        assert [link for link in page.links if not link.startswith("#")] == ["openapi.json"]
        assert all(f"{method.upper()} {path} {one['summary']}" in page.text for method, path, one in (
            (method, path, one) for path, item in document["paths"].items() for method, one in item.items()
        ))  # fmt: skip


# ------------------------------------------------------------------------------------------------------- conformance
def examples(operation: Operation) -> Iterator[schemathesis.Case]:
    """Yield the requests that the description gives as examples, with the password that it cannot know."""
    places = {one.name: "" for one in operation.path_parameters}
    for media, content in operation.definition.raw.get("requestBody", {}).get("content", {}).items():
        if (body := content.get("example")) is not None:
            body = body | {"password": PASSWORD} if "password" in body else body
            yield operation.Case(path_parameters=places, body=body, media_type=media)


def statuses(operation: Operation) -> set[int]:
    """Make the requests of the description, then drawn ones, and return the statuses of the answers."""
    found: set[int] = set()
    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]

    @DRAWS
    @given(case=operation.as_strategy(), text=TEXTS)
    def conforms(name: str, case: schemathesis.Case, text: str) -> None:
        case.path_parameters = dict.fromkeys(case.path_parameters or {}, name)
        if case.media_type == "text/plain":
            case.body = text
        answer = case.call(auth=("admin", PASSWORD))
        found.add(answer.status_code)
        assert answer.status_code < 500 or answer.json()["error"] != SpdistError.code, f"a defect: {answer.text}"
        case.validate_response(answer, checks=checks)

    for case in examples(operation):
        conforms = example(case=case, text=case.body)(conforms)
    for name in NAMES if "{" in operation.path else [""]:
        conforms(name)
    return found


@pytest.mark.filterwarnings("ignore:Do not use the .random. module")
def test_what_comes_back_is_what_the_description_says(app: FastAPI) -> None:
    """A defect (500) fails, and what the description does not say.

    Whether a drawn body is of any use is chance, as Hypothesis draws with the constants of all modules; examples are.
    """
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    drawn_from = sorted(
        (one.ok() for one in schema.get_all_operations()),
        key=lambda one: LAST.index(one.label) + 1 if one.label in LAST else 0,
    )
    found = {one.label: statuses(one) for one in drawn_from}
    assert set(found) == {name for name, _ in operations(app.openapi())}
    assert {name for name, seen in found.items() if not {200, 201} & seen} <= NEVER_DONE
