"""Local clusters that do not come up, or fail: the one cause is said, nothing is left running, and the logs stay."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from spdist import workspace
from spdist.cluster.processes import local_nodes, nodes
from spdist.cluster.processes.local import LocalCluster
from spdist.cluster.processes.nodes import cause_in
from spdist.errors import ClusterError, NotebookError

WITHOUT_JAVA = """\
Ending Cell 6------------------------------------------
  + Exception Group Traceback (most recent call last):
  |   File "<frozen runpy>", line 198, in _run_module_as_main
  |     raise error
  | papermill.exceptions.PapermillExecutionError:
  | ---------------------------------------------------------------------------
  | Exception encountered at "In [4]":
  | EngineError [SP0400]: Spark needs Java, and there is none
  | Hint: install a Java 17 or 21 runtime
  |
  +------------------------------------
"""
OF_PYTHON = """\
Exception encountered at "In [2]":
KeyError   Traceback (most recent call last)
Cell In[2], line 1

\x1b[31mKeyError\x1b[39m: 3
"""
NO_PAPERMILL = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'papermill'\n"


def of_papermill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Have nodes run this in the place of papermill."""
    root = tmp_path / "checkout"
    (root / "conf" / "local").mkdir(parents=True)
    (root / "notebooks").mkdir()
    for role in ("manager", "worker"):
        (root / "conf" / "local" / f"{role}.yaml").write_text("{}", encoding="utf-8")
        (root / "notebooks" / f"{role}.ipynb").write_text("{}", encoding="utf-8")
    (tmp_path / "papermill.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]))
    monkeypatch.setattr(nodes, "workspace", lambda: root)


def test_without_notebooks_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workspace, "_PACKAGE", tmp_path / "site-packages" / "spdist")
    with pytest.raises(NotebookError, match=r"notebooks/manager\.ipynb") as caught:
        LocalCluster(quiet=True).start()
    assert "pip install" in str(caught.value)


def test_a_node_that_does_not_come_up_shows_the_end_of_its_log_which_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_papermill(tmp_path, monkeypatch, "print('no such thing as a notebook'); raise SystemExit(3)")
    cluster = LocalCluster(managers=1, workers=1)
    with pytest.raises(ClusterError, match=r"(?s)-1 ended with exit code 3 .*\| no such thing as a notebook") as caught:
        cluster.start()
    assert not any(cluster.processes().values())
    assert {one.suffix for one in cluster.directory.rglob("*")} == {".log"}
    assert f"its log is {cluster.directory}" in str(caught.value)
    assert f"the logs are kept in {cluster.directory}" in capsys.readouterr().out
    cluster.stop()
    shutil.rmtree(cluster.directory)


def test_the_one_cause_is_said_without_the_calls_that_led_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_papermill(tmp_path, monkeypatch, f"import sys; sys.stderr.write({WITHOUT_JAVA!r}); raise SystemExit(1)")
    cluster = LocalCluster(managers=1, workers=1, directory=tmp_path / "home", quiet=True)
    with pytest.raises(ClusterError) as caught:
        cluster.start()
    first, hint = str(caught.value).splitlines()
    assert first.split(": ", 1)[1] == "EngineError [SP0400]: Spark needs Java, and there is none"
    assert re.fullmatch(r"Hint: install a Java 17 or 21 runtime; its log is \S+/home/\S+-1\.log", hint)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            WITHOUT_JAVA,
            "EngineError [SP0400]: Spark needs Java, and there is none\nHint: install a Java 17 or 21 runtime",
        ),
        (OF_PYTHON, "KeyError: 3"),
        (NO_PAPERMILL, "ModuleNotFoundError: No module named 'papermill'"),
        ("listening\nstopped\n", ""),
        ("", ""),
    ],
)
def test_the_cause_is_found_in_a_log(log: str, cause: str) -> None:
    assert cause_in(log) == cause


def test_a_cluster_that_ended_well_leaves_nothing_and_one_whose_user_failed_its_logs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_papermill(tmp_path, monkeypatch, "import signal; print('up', flush=True); signal.pause()")
    monkeypatch.setattr(local_nodes, "await_nodes", lambda *_: None)
    with LocalCluster(managers=1, workers=1, quiet=True) as fine:
        fine.kill("worker-1")
    assert not fine.directory.exists()
    with pytest.raises(ValueError, match="mine"), LocalCluster(managers=1, workers=1, quiet=True) as failed:
        raise ValueError("mine")
    assert failed.directory.exists()
    shutil.rmtree(failed.directory)


def test_logs_stay_where_a_node_has_ended_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of_papermill(tmp_path, monkeypatch, "raise SystemExit(7)")
    monkeypatch.setattr(local_nodes, "await_nodes", lambda *_: None)
    cluster = LocalCluster(managers=1, workers=1, quiet=True).start()
    assert all(node.wait(30) for node in cluster.nodes.values())
    cluster.stop()
    assert [one.name for one in sorted(cluster.directory.iterdir())] == ["manager-1.log", "worker-1.log"]
    shutil.rmtree(cluster.directory)
