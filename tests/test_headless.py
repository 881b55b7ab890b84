"""The papermill engine ``spdist``: real papermill processes, real kernels, small notebooks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from spdist.errors import NotebookError
from spdist.headless import stop_signal
from spdist.headless.parameters import check_parameters, read_parameters

PARAMETERS = """\
rounds = 3  # how often, 1 or more
speed: float = 1.0  # events per ms
title = "none"
tags = ["a"]
limit: int | None = None  # most events; None for all
"""


# --------------------------------------------------------------------------------------------------------- parameters
def test_parameters_are_read_with_default_type_and_comment() -> None:
    known = read_parameters(PARAMETERS)
    assert list(known) == ["rounds", "speed", "title", "tags", "limit"]
    assert (known["rounds"].default, known["rounds"].comment) == ("3", "how often, 1 or more")
    assert known["limit"].types == (int, type(None))
    assert known["tags"].default == "['a']"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rounds", 7),
        ("speed", 2),
        ("speed", 2.5),
        ("title", "x"),
        ("tags", []),
        ("limit", None),
        ("limit", 9),
        ("PAPERMILL_INPUT_PATH", "in.ipynb"),
    ],
)
def test_fitting_values_pass(name: str, value: object) -> None:
    check_parameters(read_parameters(PARAMETERS), {name: value})


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("rounds", "many", "'rounds' must be int, not str ('many')"),
        ("rounds", True, "'rounds' must be int, not bool"),
        ("rounds", 1.5, "'rounds' must be int, not float"),
        ("title", 12, "`-r title …` gives it as text"),
        ("limit", "9", "'limit' must be int or None, not str"),
        ("round", 1, "unknown parameter 'round': did you mean 'rounds'?"),
        ("zzz", 1, "unknown parameter 'zzz'"),
    ],
)
def test_others_are_named_with_the_list_of_what_there_is(name: str, value: object, says: str) -> None:
    with pytest.raises(NotebookError) as caught:
        check_parameters(read_parameters(PARAMETERS), {name: value})
    assert says in str(caught.value)
    assert "rounds = 3      # how often, 1 or more" in str(caught.value)


@pytest.mark.parametrize("cell", ["rounds = ", "rounds = '\0'", "  rounds = 3", "rounds = (", 'rounds = """'])
def test_a_cell_that_is_no_python_is_said(cell: str) -> None:
    with pytest.raises(NotebookError, match="tagged 'parameters' is not valid Python"):
        read_parameters(cell)


@pytest.mark.parametrize("default", ["{[]: 1}", "[*range(3)]", "-'a'", "f(1)"])
def test_a_default_that_is_no_constant_tells_no_type(default: str) -> None:
    assert read_parameters(f"rounds = {default}")["rounds"].types == ()


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(NotebookError) as caught:
        check_parameters(read_parameters(PARAMETERS), {"rounds": "x", "zzz": 1})
    assert "rounds" in caught.value.message
    assert "zzz" in caught.value.message


def test_a_notebook_without_parameters_takes_none() -> None:
    with pytest.raises(NotebookError, match="takes no parameters"):
        check_parameters(read_parameters(""), {"rounds": 1})


def test_a_computed_default_takes_any_type() -> None:
    check_parameters(read_parameters("home = str(1)"), {"home": 5})


# ------------------------------------------------------------------------------------------------------- stop_signal
def test_the_first_signal_sets_the_event_and_the_second_interrupts() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        with stop_signal() as stop:
            assert not stop.is_set()
            signal.raise_signal(number)
            assert stop.is_set()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(number) is before


def test_outside_the_main_thread_it_is_a_plain_event() -> None:
    seen: list[bool] = []

    def run() -> None:
        with stop_signal() as stop:
            seen.append(stop.is_set())
            stop.set()
            seen.append(stop.is_set())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert seen == [False, True]


# ------------------------------------------------------------------------------------------------ papermill processes
class Run:
    """One ``python -m papermill --engine spdist`` over a notebook of the given cells; as a node starts it, in a third
    of the time, unless `module` says otherwise."""

    def __init__(
        self,
        folder: Path,
        cells: list[Any],
        *options: str,
        grace_s: float = 15.0,
        kernel: str = "python3",
        module: str = "spdist.headless.lean",
        **environment: str,
    ) -> None:
        self.folder = folder
        self.output = folder / "out.ipynb"
        source = folder / "in.ipynb"
        notebook = new_notebook(
            cells=cells, metadata={"kernelspec": {"name": kernel, "language": "python", "display_name": "p"}}
        )
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, source)
        self.log = folder / "log.txt"
        root = Path(__file__).parents[1]
        path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, "--engine", "spdist", str(source), str(self.output), *options],
                cwd=folder,
                env={**os.environ, "SPDIST_STOP_GRACE_S": str(grace_s), "PYTHONPATH": path, **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kernel(self) -> psutil.Process:
        return psutil.Process(int((self.folder / "kernel.pid").read_text()))

    def wait(self, timeout_s: float = 60.0) -> int:
        return self.process.wait(timeout_s)

    def texts(self) -> list[str]:
        """The text output of each cell of the saved notebook."""
        saved = nbformat.read(self.output, as_version=4)
        return ["".join(out.get("text", "") for out in cell.get("outputs", [])) for cell in saved.cells]

    def errors(self) -> list[str]:
        saved = nbformat.read(self.output, as_version=4)
        return [out.ename for cell in saved.cells for out in cell.get("outputs", []) if out.output_type == "error"]


@pytest.fixture
def papermill(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(cells: list[Any], *options: str, **more: Any) -> Run:
        runs.append(Run(tmp_path, cells, *options, **more))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def parameters(source: str) -> Any:
    return new_code_cell(source, metadata={"tags": ["parameters"]})


#: Tells the test the kernel's pid once the code before it has run.
READY = "import os, pathlib; pathlib.Path('kernel.pid').write_text(str(os.getpid()))"
WAIT = f"""\
from spdist.headless import stop_signal
print("waiting")
with stop_signal() as stop:
    {READY}
    stop.wait()
print("stopped")
"""


def begun(run: Run, eventually: Callable[..., Any]) -> None:
    eventually(
        lambda: (file := run.folder / "kernel.pid").exists() and file.read_text(),
        "the notebook waits",
        timeout_s=60,
    )


def test_sigterm_stops_the_code_runs_the_rest_and_saves(
    papermill: Callable[..., Run], eventually: Callable[..., Any]
) -> None:
    # The child stands for a JVM that the kernel started: the signal must not reach it.
    child = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)"
    end = "print('child', child.poll()); child.stdin.close(); print('left', child.wait())"
    run = papermill([new_markdown_cell("# t"), new_code_cell(child), new_code_cell(WAIT), new_code_cell(end)])
    begun(run, eventually)
    kernel = run.kernel()
    told = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0, run.log.read_text()
    assert time.monotonic() - told < 10
    assert run.texts() == ["", "", "waiting\nstopped\n", "child None\nleft 1\n"]
    assert not kernel.is_running()


def test_a_cell_that_waits_for_nothing_is_interrupted(
    papermill: Callable[..., Run], eventually: Callable[..., Any]
) -> None:
    busy = f"try:\n    {READY}\n    while True: pass\nfinally:\n    print('tidied')"
    run = papermill([new_code_cell(busy), new_code_cell("print('next')")])
    begun(run, eventually)
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 1
    assert run.texts()[-2:] == ["tidied\n", ""]
    assert "KeyboardInterrupt" in run.errors()


STUBBORN = f"""\
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("deaf", flush=True)
{READY}
while True: time.sleep(1)
"""


def test_what_does_not_heed_is_killed_and_the_notebook_says_so(
    papermill: Callable[..., Run], eventually: Callable[..., Any]
) -> None:
    run = papermill([new_code_cell(STUBBORN), new_code_cell("print('next')")], grace_s=0.2)
    begun(run, eventually)
    kernel = run.kernel()
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 1
    assert run.texts()[:1] == ["deaf\n"]
    assert run.errors() == ["KernelDied"]
    assert not kernel.is_running()
    log = run.log.read_text()
    assert "interrupting the kernel" in log
    assert "Error: the kernel did not stop when it was asked and interrupted, so it was killed" in log


def test_further_signals_hurry(papermill: Callable[..., Run], eventually: Callable[..., Any]) -> None:
    run = papermill([new_code_cell(STUBBORN)], grace_s=600)
    begun(run, eventually)
    for _, said in ((1, "asking"), (2, "interrupting"), (3, "killing")):
        run.process.send_signal(signal.SIGTERM)
        eventually(lambda said=said: said in run.log.read_text(), f"{said} the kernel")
    assert run.wait(20) == 1


def test_an_unknown_parameter_is_an_error_before_anything_runs(papermill: Callable[..., Run]) -> None:
    run = papermill([parameters("rounds = 1  # how often"), new_code_cell(READY)], "-p", "round", "2")
    assert run.wait() == 1
    assert not (run.folder / "kernel.pid").exists()
    assert not run.output.exists()
    log = run.log.read_text()
    assert "Error: unknown parameter 'round': did you mean 'rounds'?" in log
    assert "rounds = 1  # how often" in log
    assert "Traceback" not in log


def test_a_parameter_of_the_wrong_type_is_an_error(papermill: Callable[..., Run]) -> None:
    run = papermill([parameters("rounds = 1"), new_code_cell(READY)], "-p", "rounds", "many")
    assert run.wait() == 1
    assert "must be int, not str ('many')" in run.log.read_text()
    assert not (run.folder / "kernel.pid").exists()


@pytest.mark.parametrize("module", ["papermill", "spdist.headless.lean"])
def test_known_parameters_are_used(module: str, papermill: Callable[..., Run]) -> None:
    run = papermill([parameters("rounds = 1"), new_code_cell("print(rounds)")], "-p", "rounds", "5", module=module)
    assert run.wait() == 0, run.log.read_text()
    assert run.texts()[-1] == "5\n"


def test_papermill_starts_without_what_notebooks_never_need() -> None:
    code = (
        "import sys; from spdist.headless.lean import load_less; load_less(); import papermill.cli, "
        "spdist.headless.engine; print([one for one in ('lark', 'botocore', 'numpy') if one in sys.modules])"
    )
    root = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_kernel_starts_without_a_debugger_and_looks_for_garbage_less_often() -> None:
    code = (
        "import gc, sys; from ipykernel import kernelapp; from spdist.headless.kernel import main; "
        "kernelapp.launch_new_instance = lambda: print("
        "'pydevd' in sys.modules, gc.isenabled(), gc.get_threshold()[0] > 700, gc.get_freeze_count() > 10_000); "
        "main(); import debugpy; print('pydevd' in sys.modules)"
    )
    root = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    # The notebook itself may load one.
    assert done.stdout == "False True True True\nFalse\n", done.stdout


def test_the_kernel_spdist_is_this_interpreter_whatever_is_registered(
    papermill: Callable[..., Run], tmp_path: Path
) -> None:
    other = tmp_path / "kernels" / "spdist"
    other.mkdir(parents=True)
    spec = {"argv": ["/bin/false"], "display_name": "another", "language": "python"}
    (other / "kernel.json").write_text(json.dumps(spec))
    cell = new_code_cell("import sys; print(sys.executable)")
    run = papermill([cell], kernel="spdist", JUPYTER_PATH=str(tmp_path))
    assert run.wait() == 0, run.log.read_text()
    assert run.texts() == [f"{sys.executable}\n"]


@pytest.mark.parametrize(("directory", "transport"), [("short", "ipc"), ("long" * 30, "tcp")])
def test_a_kernel_listens_on_unix_sockets_where_their_paths_are_short_enough(
    directory: str, transport: str, papermill: Callable[..., Run], tmp_path: Path
) -> None:
    # A free port may be given to somebody else before the kernel binds it.
    sockets = Path(tempfile.mkdtemp(prefix="t")) / directory
    sockets.mkdir()
    cell = new_code_cell("import json, ipykernel; print(json.loads(ipykernel.get_connection_info())['transport'])")
    run = papermill([cell], TMPDIR=str(sockets))
    assert run.wait() == 0, run.log.read_text()
    assert run.texts() == [f"{transport}\n"]
    assert not list(sockets.iterdir())
    shutil.rmtree(sockets.parent)


def test_a_kernel_whose_papermill_was_killed_ends(
    papermill: Callable[..., Run], eventually: Callable[..., Any]
) -> None:
    # papermill stays a zombie here until the test waits for it, as it does in a container whose first process
    # reaps nobody: the kernel must not take the zombie for a living parent.
    child = "import subprocess, sys; child = subprocess.Popen(['sleep', '300'])"
    run = papermill([new_code_cell(child), new_code_cell(WAIT)])
    begun(run, eventually)
    kernel = run.kernel()
    family = [kernel, *kernel.children(recursive=True)]
    assert any(one.name() == "sleep" for one in family)
    run.process.kill()
    eventually(
        lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family),
        "the kernel and its child are gone",
        timeout_s=5,
    )
