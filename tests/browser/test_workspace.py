"""The workspace as people see it: a real JupyterLab in a real browser, over a real cluster on this machine."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spdist import LocalCluster
from tests.browser.conftest import Shoot
from tests.browser.lab import ROOT, command, live_panels, open_file, run_all, save, still_panels, write_notebook
from tests.browser.reading import hard_to_read
from tests.dashboard.running import running_dashboard

pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.slow]

Eventually = Callable[..., Any]
SMALL = {"SPDIST__SPARK__DRIVER_MEMORY": "512m"}
SHOP = """@app:name('Shop')
define stream Orders (customer string, item string, amount double);
@sink(type='embedded', topic='Shop.Alerts')
define stream Alerts (customer string, total double);

@dist(execGroup='valid', parallel='2')
from Orders[amount > 0.0] select customer, amount insert into Valid;

@dist(execGroup='totals', parallel='2')
partition with (customer of Valid) begin
  from Valid#window.length(20) select customer, sum(amount) as total insert into Totals;
end;

@dist(execGroup='alert')
from every e1=Totals[total > 400.0]
  -> not Totals[customer == e1.customer and total < 100.0] for 10 sec
select e1.customer as customer, e1.total as total insert into Alerts;
"""
COLD = """@app:name('Cold') @app:playback
define stream Readings (room string, celsius double);
define stream Alerts (room string, depth double);

@info(name='smooth')
from Readings#window.length(3) select room, avg(celsius) as mean group by room insert into Means;

@info(name='stays cold')
from every e1=Readings[celsius < 5.0] -> not Readings[room == e1.room and celsius >= 5.0] for 10 min
select e1.room as room, 5.0 - e1.celsius as depth insert into Alerts;
"""
CELLS = [
    """import os
import pandas as pd
import spdist
from spdist.panels import DebugPanel, ReplayPanel
%load_ext spdist

rooms, celsius = ["cellar", "attic", "attic", "cellar", "hall"], [4.0, 3.0, 20.0, 3.5, 19.0]
times = pd.Timestamp("2026-01-15 06:00") + pd.to_timedelta([0, 2, 9, 12, 25], unit="min")
readings = pd.DataFrame({"timestamp": times, "room": rooms, "celsius": celsius})
end_ms = int(times[-1].timestamp() * 1000) + 3_600_000""",
    f"%%siddhi --run Readings=readings --until 2026-01-15T08:00 --plan\n{COLD}",
    "debugger = DebugPanel(result)\ndebugger",
    """sink = "@sink(type='embedded', topic='Cold.Alerts')"
published = Cold.replace("define stream Alerts", f"{sink} define stream Alerts")
cluster = spdist.connect(os.environ["MANAGERS"].split(","))
app = cluster.deploy(published).wait(timeout_s=240)
replay = ReplayPanel(readings, app.feed("Readings"), speed=600_000.0, until_ms=end_ms)
replay""",
]
#: Where the first letter of a text is on the page, in a part of it.
LEFT = """(part, text) => {
    const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT), range = document.createRange();
    while (texts.nextNode()) {
        const at = texts.currentNode.textContent.indexOf(text);
        if (at < 0) continue;
        range.setStart(texts.currentNode, at);
        range.setEnd(texts.currentNode, at + 1);
        return range.getBoundingClientRect().left;
    }
}"""
#: Keeps all that a panel has said, as what is seen between two looks may be over.
RECORD = """panel => {
    panel.said = [];
    new MutationObserver(() => panel.said.push(panel.innerText)).observe(panel, {childList: true, subtree: true});
}"""


@pytest.fixture(scope="module")
def cluster(page: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with LocalCluster(1, 2, directory, settings=SMALL, start_timeout_s=240, quiet=True) as started:
        yield started
        for name in started.nodes:  # nobody needs what they would save
            started.kill(name)


@pytest.fixture(scope="module")
def kernel_environment(cluster: LocalCluster) -> dict[str, str]:
    node = cluster.nodes["manager-1"]
    return {"SPDIST_PASSWORD": node._environment["SPDIST_PASSWORD"], "MANAGERS": node.url}


def copy_notebook(home: Path, name: str, cluster: LocalCluster) -> None:
    """Copy one of the project's notebooks, with the address of the cluster among its parameters."""
    text = (ROOT / "notebooks" / name).read_text()
    assert text.count(r"url = \"\"") == 1
    (home / name).write_text(text.replace(r"url = \"\"", rf"url = \"{cluster.nodes['manager-1'].url}\""))


def left_of(part: Any, text: str) -> float:
    return float(part.evaluate(LEFT, text))


# ------------------------------------------------------------------------------------------------------------ deploy
def test_an_app_is_written_deployed_and_taken_back(
    page: Any, lab: str, home: Path, cluster: LocalCluster, shoot: Shoot, eventually: Eventually
) -> None:
    copy_notebook(home, "deploy.ipynb", cluster)
    open_file(page, lab, "deploy.ipynb")
    run_all(page)
    panel, topology = live_panels(page).nth(0), live_panels(page).nth(1)
    panel.get_by_text(re.compile(r"Cold version \d+ is RUNNING")).wait_for()
    topology.locator("svg").wait_for()
    # A mistake while typing is marked under its characters, mending it brings the picture.
    editor = panel.locator("textarea")
    editor.fill(SHOP.replace("Orders[", "["))
    editor.evaluate("(editor, at) => editor.setSelectionRange(at, at)", SHOP.index("Orders["))
    editor.press_sequentially("Oders")
    text = panel.locator("pre").filter(has_text="Did you mean 'Orders'?")
    text.wait_for()
    assert left_of(text, "Oders") == pytest.approx(left_of(text, "^^^^^"), abs=1.5)
    assert panel.get_by_role("button", name="Deploy", exact=True).is_disabled()
    shoot(panel, "error")
    for _ in "ders":
        editor.press("Backspace")
    editor.press_sequentially("rders")
    panel.get_by_text("Shop (live): 3 groups, 5 instances").wait_for()
    # Deploying says how far it is.
    panel.evaluate(RECORD)
    panel.get_by_role("button", name="Deploy", exact=True).click()
    panel.get_by_text(re.compile(r"Shop version \d+ is RUNNING; 5 of 5 groups run")).wait_for()
    said = "\n".join(panel.evaluate("panel => panel.said"))
    # Where it takes less than a second nobody sees the groups come.
    assert re.search(r"Shop version \d+ is DEPLOYING.* [0-4] of 5 groups run|deploying …", said), said
    panel.locator("svg").scroll_into_view_if_needed()
    assert hard_to_read(page, ".jp-OutputArea-output") == {}
    shoot(panel, "deploy")
    # Undeploying asks before.
    panel.get_by_role("button", name="Undeploy …").click()
    question = panel.get_by_text("Undeploy Shop? Its topics and its state stay.")
    question.wait_for()
    panel.get_by_role("button", name="No", exact=True).click()
    question.wait_for(state="hidden")
    assert "Shop" in cluster.client.apps()
    panel.get_by_role("button", name="Undeploy …").click()
    panel.get_by_role("button", name="Yes, undeploy").click()
    panel.get_by_text("not deployed; topics over log").wait_for()
    assert "Shop" not in cluster.client.apps()


# ---------------------------------------------------------------------------------------------- magic, debugger, replay
@pytest.fixture(scope="module")
def workshop(page: Any, lab: str, home: Path) -> Any:
    """The page with a notebook of the magic, a debugger and a replay, which has run."""
    write_notebook(home / "workshop.ipynb", CELLS)
    open_file(page, lab, "workshop.ipynb")
    run_all(page)
    return page


def test_a_cell_of_siddhiql_shows_its_app_and_marks_what_is_wrong(workshop: Any, shoot: Shoot) -> None:
    page = workshop
    cell = page.locator(".jp-CodeCell").nth(1)
    assert cell.locator(".jp-OutputArea svg").count() >= 1
    cell.get_by_text("stays cold").first.wait_for()
    shoot(cell, "magic")
    cell.click()
    command(page, "notebook:insert-cell-below")
    wrong = page.locator(".jp-CodeCell").nth(2)
    wrong.locator(".cm-content").click()
    page.keyboard.insert_text(f"%%siddhi\n{COLD.replace('e1.room as room', 'e1.rom as room')}")
    page.keyboard.press("Shift+Enter")
    told = wrong.locator(".jp-OutputArea pre").filter(has_text="Did you mean 'room'?")
    told.wait_for()
    assert "'e1' has no attribute 'rom' (line 11, column 8)" in told.inner_text(), "as the cell counts its lines"
    assert "Traceback" not in told.inner_text()
    assert left_of(told, "e1.rom") == pytest.approx(left_of(told, "^^^^^^"), abs=1.5)
    assert hard_to_read(page, ".jp-OutputArea-output") == {}
    wrong.click()
    command(page, "notebook:delete-cell")


def test_a_debugger_goes_step_by_step(workshop: Any, shoot: Shoot) -> None:
    panel = live_panels(workshop).nth(0)
    step, back = (panel.get_by_role("button", name=name, exact=True) for name in ("Step", "Back"))
    tables = panel.get_by_role("table")
    window, attempts = (tables.filter(has_text=kind) for kind in ("window smooth", "attempts stays cold"))
    panel.get_by_text("Cold: step 0 at").wait_for()
    assert window.count() == attempts.count() == 0
    step.click()
    panel.get_by_text("1 of 5 events sent").wait_for()
    assert (window.locator("tbody tr").count(), attempts.locator("tbody tr").count()) == (1, 1)
    step.click()
    panel.get_by_text("2 of 5 events sent").wait_for()
    assert (window.locator("tbody tr").count(), attempts.locator("tbody tr").count()) == (2, 2)
    assert "attic" in attempts.inner_text()
    step.click()
    panel.get_by_text("3 of 5 events sent").wait_for()
    assert "attic" not in attempts.inner_text(), "it got warm in time"
    shoot(panel, "debug")
    back.click()
    panel.get_by_text("2 of 5 events sent").wait_for()
    assert attempts.locator("tbody tr").count() == 2
    panel.locator("select").select_option("Alerts")
    panel.get_by_role("button", name="Run to").click()
    panel.get_by_text("Cold: step 4 at").wait_for()
    assert attempts.count() == 0, "one has been fulfilled"


def test_a_replay_goes_step_by_step_into_a_running_app(
    workshop: Any, cluster: LocalCluster, eventually: Eventually
) -> None:
    page = workshop
    panel = live_panels(page).nth(1)
    panel.get_by_text("replay ready: 0 of 5 events").wait_for()
    for sent in (1, 2):
        panel.get_by_role("button", name="Step").click()
        panel.get_by_text(f"replay paused: {sent} of 5 events").wait_for()
    panel.get_by_role("button", name="Start").click()
    panel.get_by_text("replay done: 5 of 5 events (100 %)").wait_for()
    expected = [("cellar", 1.0), ("cellar", 1.5)]
    eventually(lambda: [row for _, row in cluster.read("Cold", "Alerts")] == expected, "both alerts", 60)
    assert hard_to_read(page, ".jp-OutputArea-output") == {}


def test_a_saved_notebook_has_what_its_panels_showed_last(
    workshop: Any, home: Path, lab: str, eventually: Eventually
) -> None:
    page, file = workshop, home / "workshop.ipynb"
    debugger = live_panels(page).nth(0)
    debugger.get_by_role("button", name="Back", exact=True).click()
    debugger.get_by_text("Cold: step 3 at").wait_for()
    assert "Cold: step 3 at" in save(page, file)
    # The page is loaded again, and the panels go on.
    open_file(page, lab, file.name)
    debugger.get_by_role("button", name="Back", exact=True).click()
    debugger.get_by_text("Cold: step 2 at").wait_for()
    saved = save(page, file)
    assert "Cold: step 2 at" in saved
    assert "Cold: step 3 at" not in saved
    # Its kernel is gone: static HTML is there.
    page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    open_file(page, lab, file.name)
    for at, told in enumerate(["Cold: step 2 at", "replay done: 5 of 5 events"]):
        still_panels(page).nth(at).get_by_text(told).wait_for()
    assert not page.get_by_text("model not found").first.is_visible()


def test_a_saved_notebook_as_a_page(page: Any, home: Path) -> None:
    convert = [sys.executable, "-m", "nbconvert", "--to", "html", str(home / "workshop.ipynb")]
    subprocess.run(convert, check=True, capture_output=True)
    away = re.compile("^https?:")  # scripts for formulas and the like
    page.route(away, lambda route: route.abort())
    try:
        page.goto((home / "workshop.html").as_uri(), wait_until="domcontentloaded")
        for told in ("Cold: step 2 at", "replay done: 5 of 5 events"):
            page.locator("div[class^=spdist-still-]").get_by_text(told).wait_for()
    finally:
        page.unroute(away)


# --------------------------------------------------------------------------------------------------------- web pages
def test_the_panels_are_web_pages_for_those_without_jupyterlab(page: Any, cluster: LocalCluster, shoot: Shoot) -> None:
    node = cluster.nodes["manager-1"]
    with running_dashboard(node.url) as url:
        page.goto(f"{url}/deploy")
        page.get_by_label("User").fill("admin")
        page.get_by_label("Password").fill(node._environment["SPDIST_PASSWORD"])
        page.get_by_role("button", name="Log in").click()
        page.locator("textarea").fill(SHOP)
        page.get_by_text("Shop (live): 3 groups, 5 instances").wait_for()
        page.get_by_role("button", name="Deploy", exact=True).click()
        page.get_by_text(re.compile(r"Shop version \d+ is RUNNING; 5 of 5 groups run")).wait_for()
        page.get_by_role("link", name="Monitor").click()
        page.get_by_role("cell", name="Shop-totals-1").wait_for()
        shoot(page.locator("#rendered_cells > div"), "dashboard")
        # Whoever logs out elsewhere is told so here.
        token = next(one["value"] for one in page.context.cookies(url) if one["name"] == "_xsrf")
        page.request.post(f"{url}/logout", form={"_xsrf": token})
        page.get_by_text("this page's session has ended").wait_for()
        page.get_by_role("link", name="Load it again").click()
        page.get_by_role("button", name="Log in").wait_for()
        page.problems[:] = [one for one in page.problems if "403" not in one]  # it has asked once more


# ----------------------------------------------------------------------------------------------------------- monitor
def test_a_monitor_shows_a_worker_that_is_lost(
    page: Any, lab: str, home: Path, cluster: LocalCluster, shoot: Shoot, eventually: Eventually
) -> None:
    # The test before has deployed it, and it runs; alone, this one deploys it.
    app = cluster.deployment("Shop") if "Shop" in cluster.client.apps() else cluster.deploy(SHOP)
    app.wait(timeout_s=240, quiet=True)
    copy_notebook(home, "monitor.ipynb", cluster)
    open_file(page, lab, "monitor.ipynb")
    run_all(page)
    monitor = live_panels(page).nth(0)
    monitor.get_by_text("worker-2", exact=True).first.wait_for()
    feed = cluster.feed(app, "Orders")
    orders = [(f"customer {number % 7}", "tea", float(number % 40)) for number in range(200)]

    sent_s = 0.0

    def curve() -> bool:
        nonlocal sent_s
        if time.monotonic() > sent_s + 0.5:
            sent_s = time.monotonic()
            feed.send([(int(time.time() * 1000), order) for order in orders])
        drawn = monitor.locator("table polyline").evaluate_all("lines => lines.map(one => one.getAttribute('points'))")
        return any(len(points.split()) >= 5 for points in drawn)

    eventually(curve, "a curve", 90)
    monitor.locator("select").nth(1).select_option("Shop-totals-1")
    monitor.get_by_text("Shop-totals-1: RUNNING").wait_for()
    assert hard_to_read(page, ".jp-OutputArea-output") == {}
    shoot(monitor, "monitor")
    shoot(live_panels(page).nth(2), "topology")
    cluster.kill("worker-2")
    monitor.get_by_text("LOST").first.wait_for()
    monitor.get_by_text("worker worker-2 is gone").wait_for()
    assert hard_to_read(page, ".jp-OutputArea-output") == {}
    command(page, "apputils:change-theme", theme="JupyterLab Dark")
    shoot(monitor, "monitor-dark")
    command(page, "apputils:change-theme", theme="JupyterLab Light")
