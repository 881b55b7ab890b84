"""Apps are planned in a process of their own: the same topologies and errors, and no text holds up a manager."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from spdist.cluster.manager import Manager
from spdist.cluster.managers.planner import Planner, PlannerSettings
from spdist.cluster.managers.plans import plan_text
from spdist.cluster.managers.topics import stream_schemas
from spdist.errors import ClusterError, ErrorKind, PlanningError, SiddhiAppError, SpdistError
from spdist.planning.limits import AppLimits
from tests.cluster.shells import PASSWORD, manager_config
from tests.error_codes import coded

Eventually = Callable[..., Any]
CASES = sorted((Path(__file__).parents[1] / "planning" / "cases").glob("*.siddhi"))
HEAD = "@app:name('Big') define stream S (v int);"
SMALL = f"{HEAD} from S[v > 1] select v insert into T;"


def large(queries: int) -> str:
    return HEAD + "".join(f"from S select v insert into O{number};\n" for number in range(queries))


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    made = Planner(PlannerSettings(limits=AppLimits(elements=6000, groups=3, instances=5, characters=100_000)))
    yield made
    made.stop()


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or all that its error says."""

    def told(error: SpdistError) -> tuple[object, ...]:
        more = [told(one) for one in getattr(error, "errors", ()) if one is not error]
        return type(error), str(error), error.span, error.hint, error.text, more

    try:
        return call()
    except SpdistError as error:
        return told(error)


def test_a_topology_from_the_process_is_the_one_planned_here(planner: Planner) -> None:
    for case in CASES:
        text = case.read_text(encoding="utf-8")
        assert outcome(lambda text=text: planner.plan_again(text)) == outcome(lambda text=text: plan_text(text)), case


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "define stream S (v int);",
        f"{HEAD} from S select w insert into T;",
        f"{HEAD} from S select w, x insert into T; from Q select v insert into T;",
        "@app:name('A') define stream S (v ${type});",
        f"{HEAD} @dist(execGroup='a', parallel='2') from S#window.length(3) select v insert into T;",
    ],
)
def test_an_error_from_the_process_is_the_one_raised_here(planner: Planner, text: str) -> None:
    assert outcome(lambda: planner.plan(text)) == outcome(lambda: plan_text(text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (large(6000), "more than 6000 definitions, queries and partitions"),
        (HEAD + "".join(f"@dist(execGroup='g{n}') from S select v insert into O{n};" for n in range(4)), "4 execution"),
        (f"{HEAD} @dist(execGroup='g', parallel='6') from S select v insert into T;", "6 instances"),
        (
            HEAD + "".join(f"@dist(execGroup='g', parallel='5') from S select v insert into O{n};" for n in range(800)),
            "more than 100000 characters",
        ),
    ],
)
def test_a_text_that_is_too_large_is_refused_with_its_place(planner: Planner, text: str, says: str) -> None:
    with pytest.raises(PlanningError, match=says) as caught:
        planner.plan(text)
    assert caught.value.span is not None
    assert "siddhi.limits." in str(caught.value.hint)


def test_an_app_that_was_accepted_before_is_not_measured_again(planner: Planner) -> None:
    text = f"{HEAD} @dist(execGroup='g', parallel='6') from S select v insert into T;"
    assert len(planner.plan_again(text).assignments()) == 6


@pytest.mark.parametrize("name", ["S", "error"])
def test_streams_from_the_process_are_those_found_here(planner: Planner, name: str) -> None:
    text = f"@app:name('A') define stream {name} (v int, t string); from {name}[v > 1] select v insert into T;"
    assert planner.streams(text) == stream_schemas(text)


def test_what_an_update_changes_is_found_out_in_the_process(planner: Planner) -> None:
    after = SMALL.replace("v > 1", "v > 2")
    assert planner.compare(SMALL, after) == plan_text(SMALL).diff(plan_text(after))
    assert planner.compare(SMALL, SMALL).changes == ()


def test_planning_that_takes_too_long_is_stopped_and_the_next_app_is_planned() -> None:
    planner = Planner(PlannerSettings(time_ms=1500))
    try:
        planner.plan_again(SMALL)
        assert planner._child is not None
        child = planner._child._process.pid
        with pytest.raises(PlanningError, match=r"longer than 1.5 s"):
            planner.plan("@app:name('A')" + "@app:x('y')" * 90_000)
        assert planner.plan_again(SMALL).app == "Big"
        assert not psutil.pid_exists(child)
    finally:
        planner.stop()


def test_who_waits_too_long_for_another_app_is_told_to_try_again(planner: Planner) -> None:
    impatient = Planner(PlannerSettings(time_ms=100))
    with impatient._turn, pytest.raises(ClusterError, check=coded(ErrorKind.PLANNER_BUSY)):
        impatient.plan(SMALL)


def test_a_planner_whose_process_was_killed_gets_another(planner: Planner) -> None:
    planner.plan_again(SMALL)
    assert planner._child is not None
    planner._child._process.kill()
    assert planner.plan_again(SMALL).app == "Big"


def test_no_process_is_left_behind() -> None:
    before = {one.pid for one in psutil.Process().children() if _plans(one)}
    planner = Planner(PlannerSettings())
    planner.plan(SMALL)
    assert {one.pid for one in psutil.Process().children() if _plans(one)} - before
    planner.stop()
    assert {one.pid for one in psutil.Process().children() if _plans(one)} - before == set()


def _plans(process: psutil.Process) -> bool:
    try:
        return "spdist.cluster.managers.planner" in process.cmdline()
    except psutil.Error:
        return False


# ------------------------------------------------------------------------------------------------------ a real manager
def test_a_large_app_costs_a_leader_neither_its_term_nor_its_answers(tmp_path: Path, eventually: Eventually) -> None:
    quick = {"SPDIST__CLUSTER__HEARTBEAT_INTERVAL": "250", "SPDIST__CLUSTER__HEARTBEAT_MAX_RETRY": "4"}
    manager = Manager(manager_config(tmp_path, **quick))
    manager.start()
    try:
        eventually(manager.leads, "it leads")
        term = manager._state_loop.ask(lambda state, _: state.term)
        waited: list[float] = []
        with httpx.Client(base_url=manager.url, auth=("admin", PASSWORD), trust_env=False, timeout=60) as client:
            put = threading.Thread(target=lambda: answers.append(_put(client, large(6000))))
            answers: list[httpx.Response] = []
            put.start()
            while put.is_alive():
                began = time.perf_counter()
                assert client.get("/managers").json()["haStatus"] == "Active"
                assert client.get("/siddhi-apps").status_code == 200
                waited.append(time.perf_counter() - began)
                put.join(0.05)
            assert [answer.status_code for answer in answers] == [201]
            update = threading.Thread(target=lambda: answers.append(_put(client, large(5990))))
            update.start()
            while update.is_alive():
                began = time.perf_counter()
                assert client.get("/managers").json()["haStatus"] == "Active"
                waited.append(time.perf_counter() - began)
                update.join(0.05)
            assert answers[-1].status_code == 200
            hostile = _put(client, "@app:name('A')\n" + "(" * 900_000)
            assert (hostile.status_code, hostile.json()["error"]) == (400, "SP0101")
            assert len(hostile.text) < 2000
        # two requests, on a machine that the planner keeps busy
        assert max(waited) < 2
        assert len(waited) > 3
        assert manager._state_loop.ask(lambda state, _: state.term) == term
        assert [one["name"] for one in manager.apps()] == ["Big"]
    finally:
        manager.stop()


def _put(client: httpx.Client, text: str) -> httpx.Response:
    return client.put("/siddhi-apps", content=text.encode(), headers={"Content-Type": "text/plain"})


def test_a_wrong_app_shows_the_part_of_a_long_line_around_its_place() -> None:
    with pytest.raises(SiddhiAppError) as caught:
        plan_text(HEAD + "from S select v insert into T; " * 3000 + "from S select w insert into T;" + " " * 100_000)
    shown = str(caught.value).splitlines()
    assert len(str(caught.value)) < 500
    assert shown[1][shown[2].index("^")] == "w"
    assert shown[1].startswith("…")
    assert shown[1].endswith("…")


def test_the_process_is_there_before_the_first_app(tmp_path: Path) -> None:
    def processes() -> set[psutil.Process]:
        return {one for one in psutil.Process().children() if "spdist.cluster.managers.planner" in one.cmdline()}

    before, manager = processes(), Manager(manager_config(tmp_path))
    manager.start()
    try:
        (own,) = processes() - before
    finally:
        manager.stop()
    assert not own.is_running()
