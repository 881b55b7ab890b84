"""How panels show themselves in a real kernel: still where nobody is there, alive where somebody is; what is saved."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client import BlockingKernelClient, KernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
PREPARED = f"""
import gc, sys, threading, time
sys.path.insert(0, {str(ROOT)!r})
from spdist.cluster.clients.client import ClusterClient
from tests.widgets.fake_cluster import TEXT, FakeCluster
from spdist.panels import DeployPanel, MonitorPanel, TopologyPanel
cluster = FakeCluster()
cluster.deploy(TEXT)
monitor = MonitorPanel(cluster)

def until(there):
    deadline = time.monotonic() + 20
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.05)
"""
CELLS = [
    PREPARED + "monitor",
    "cluster.run_on('worker-1')\nuntil(lambda: 'RUNNING' in monitor.widget().children[-1].value)",
    "monitor.wait(iter([(1, 3), (2, 3), (3, 3)]).__next__, 'alerts')\nmonitor.stop()",
]


def test_where_nobody_is_there_the_saved_form_is_what_was_seen_last() -> None:
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, kernel_name="python3", timeout=120, startup_timeout=180).execute()
    (still,), _, (line,) = ([output["data"] for output in cell.outputs] for cell in notebook.cells)
    assert set(still) == {"text/html", "text/plain"}, "a widget would be a blank"
    for form in still.values():
        assert "manager-1 leads" in form
        assert "RUNNING" in form, "not as it was when the cell ran"
        assert "WAITING" not in form
    assert "3 of 3 alerts; 3 groups RUNNING" in line["text/plain"], "one output, with what it said last"


class Kernel:
    """A kernel, with somebody in front of it who runs cells as JupyterLab does."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        #: what stands in the outputs of the last cell, each as it is now
        self.outputs: list[dict[str, Any]] = []
        self._named: dict[str, dict[str, Any]] = {}

    def run(self, code: str, cell: str = "") -> str:
        """Run a cell, and return what it printed."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True, "stop_on_error": True}
        message = self.client.session.msg("execute_request", content, metadata={"cellId": cell} if cell else {})
        self.client.shell_channel.send(message)
        printed, deadline_s, self.outputs = "", time.monotonic() + 60, []
        while True:
            try:
                told = self.client.get_iopub_msg(timeout=deadline_s - time.monotonic())
            except queue.Empty:
                pytest.fail(f"the cell has not ended: {code}")
            if told["msg_type"] == "update_display_data":
                self._named[told["content"]["transient"]["display_id"]].update(told["content"]["data"])
            if told["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if told["msg_type"] == "error":
                pytest.fail("\n".join(told["content"]["traceback"]))
            if told["msg_type"] == "display_data":
                self.outputs.append(told["content"]["data"])
                self._named[told["content"]["transient"].get("display_id", "")] = self.outputs[-1]
            if told["msg_type"] == "stream":
                printed += told["content"]["text"]
            if told["msg_type"] == "status" and told["content"]["execution_state"] == "idle":
                return printed


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=180)
    started = Kernel(client)
    started.run(PREPARED)
    yield started
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_where_somebody_is_there_the_widget_is_alive_and_the_still_form_follows(kernel: Kernel) -> None:
    kernel.run("monitor", "a")
    live, still = kernel.outputs
    assert set(live) == {"application/vnd.jupyter.widget-view+json", "text/plain"}
    assert live["text/plain"] == ""
    for cell in CELLS[1:]:
        kernel.run(cell)
    kernel.run("pass")  # what was said from the other thread has come
    for form in still.values():
        assert "RUNNING" in form
        assert "WAITING" not in form
    kernel.run("pass", "a")


def test_a_cell_that_runs_again_leaves_nothing_behind(kernel: Kernel) -> None:
    count = "sum(t.name == 'spdist-panels' for t in threading.enumerate()), len(monitor.poller._followers)"
    for _ in range(6):
        kernel.run("display(MonitorPanel(cluster), TopologyPanel(cluster.deployment('Shop')))", "a")
        kernel.run("display(DeployPanel(cluster, TEXT))", "b")
    began_s, before = time.monotonic(), int(kernel.run("print(cluster.looks)"))
    assert kernel.run(f"gc.collect(); print({count})").split() == ["1", "3"]
    kernel.run("before = cluster.looks\nuntil(lambda: cluster.looks - before >= 4)")
    looks = int(kernel.run("print(cluster.looks)")) - before
    # One more where a look came late: the next one keeps its second.
    assert looks <= 2 + (time.monotonic() - began_s), "18 panels were shown, and three are there"
    kernel.run("pass", "a")
    kernel.run("pass", "b")
    kernel.run("until(lambda: not [t for t in threading.enumerate() if t.name == 'spdist-panels'])")


def test_a_panel_that_is_shown_twice_lives_as_long_as_one_of_its_outputs(kernel: Kernel) -> None:
    kernel.run("monitor", "a")
    kernel.run("monitor", "b")
    kernel.run("pass", "a")
    kernel.run("cluster.run_on('worker-2')\nuntil(lambda: 'worker-2' in monitor.widget().children[-1].value)")
    box = kernel.run("box = monitor.widget(); print(box.comm is not None)")
    kernel.run("pass", "b")
    assert (box, kernel.run("print(box.comm is not None)")) == ("True\n", "False\n")


def test_showing_a_panel_waits_for_nobody(kernel: Kernel) -> None:
    """The quickest of some: what else the machine does is not what is measured."""
    printed = kernel.run(
        """
nobody = ClusterClient(['http://127.0.0.1:1'], 'admin', 'x')

def seconds(make):
    began = time.monotonic()
    display(make())
    return time.monotonic() - began

kinds = [MonitorPanel, lambda one: TopologyPanel(one.deployment('A')), lambda one: DeployPanel(one, TEXT)]
print(max(min(seconds(lambda: kind(nobody)) for _ in range(5)) for kind in kinds))
panel = MonitorPanel(nobody)
until(lambda: 'no manager answered' in panel.widget().children[-1].value)
""",
        "a",
    )
    assert float(printed) < 0.2
    kernel.run("panel.stop()", "a")


def test_buttons_act_while_a_cell_runs(kernel: Kernel) -> None:
    """As JupyterLab has it: what widgets say goes to a subshell, which it has asked the kernel for."""
    kernel.run("panel = DeployPanel(cluster, TEXT.replace('Shop', 'Other'))\npanel", "a")
    button = kernel.run("print(panel.widget().children[2].children[0].comm.comm_id)").strip()
    session, client = kernel.client.session, kernel.client
    client.control_channel.send(session.msg("create_subshell_request", {}))
    subshell = client.get_control_msg(timeout=20)["content"]["subshell_id"]
    click = session.msg("comm_msg", {"comm_id": button, "data": {"method": "custom", "content": {"event": "click"}}})
    click["header"]["subshell_id"] = subshell
    asked = session.msg("execute_request", {"code": "until(lambda: 'Other' in cluster.texts)", "silent": False})
    client.shell_channel.send(asked)
    client.shell_channel.send(click)
    while (told := client.get_iopub_msg(timeout=30))["parent_header"].get("msg_id") != asked["header"]["msg_id"] or (
        told["content"].get("execution_state") != "idle"
    ):
        assert told["msg_type"] != "error", "the button has waited for the cell"
    kernel.run("pass", "a")
