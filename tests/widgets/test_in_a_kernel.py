"""How panels show themselves in a real kernel: static where nobody is there, alive where somebody is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
CELLS = [
    """
import sys
sys.path.insert(0, {root!r})
from tests.widgets.fake_cluster import TEXT, FakeCluster
from widgets import MonitorPanel
cluster = FakeCluster()
cluster.deploy(TEXT)
cluster.run_on("worker-1")
monitor = MonitorPanel(cluster)
monitor
""",
    "monitor.wait(iter([(1, 3), (2, 3), (3, 3)]).__next__, 'alerts')",
    "print('RUNNING' in monitor.widget().children[-1].value)\nmonitor.stop()",
]


@pytest.fixture(scope="module", params=[False, True], ids=["nobody there", "somebody there"])
def executed(request: pytest.FixtureRequest) -> Iterator[tuple[bool, list[list[dict[str, object]]]]]:
    notebook = new_notebook(
        cells=[new_code_cell(cell.format(root=str(ROOT)) if i == 0 else cell) for i, cell in enumerate(CELLS)]
    )
    client = NotebookClient(notebook, kernel_name="python3", timeout=120)
    if request.param:
        client.on_notebook_start = lambda notebook: setattr(client.kc, "allow_stdin", True)
    client.execute()
    yield request.param, [cell.outputs for cell in notebook.cells]


def test_static_forms_are_always_there_and_the_widget_only_for_somebody(
    executed: tuple[bool, list[list[dict[str, dict[str, str]]]]],
) -> None:
    somebody, outputs = executed
    forms = outputs[0][-1]["data"]
    assert "manager-1 leads" in forms["text/plain"]
    assert "<table" in forms["text/html"]
    assert ("application/vnd.jupyter.widget-view+json" in forms) is somebody


def test_a_line_of_progress_is_one_output_with_what_it_said_last(
    executed: tuple[bool, list[list[dict[str, dict[str, str]]]]],
) -> None:
    (line,) = executed[1][1]
    assert "3 of 3 alerts; 3 groups RUNNING" in line["data"]["text/plain"]


def test_the_widget_can_always_be_asked_for(executed: tuple[bool, list[list[dict[str, str]]]]) -> None:
    assert executed[1][2][0]["text"] == "True\n"
