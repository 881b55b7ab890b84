"""``%load_ext spdist`` in a real kernel, as a notebook's cells use it, with a real manager over the network."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from spdist.cluster.manager import Manager
from spdist.cluster.worker import Worker
from spdist.display import JSON_MIME
from spdist.errors import StateError
from tests.cluster.shells import PASSWORD, FakeSpark, manager_config, worker_config

ROOT = Path(__file__).parents[2]
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
APP = """@app:name('Cold Rooms') @app:playback
define stream Readings (room string, celsius double);
@sink(type='embedded', topic='ColdRooms.Alerts') define stream Alerts (room string);
from Readings[celsius < 5.0] select room insert into Alerts;
"""


@dataclass
class Done:
    """What came of a cell: its status, what it printed or raised, and the forms of what it showed."""

    status: str
    raw: str
    shown: list[dict[str, str]]
    #: what was shown and changed later, in order
    updates: list[dict[str, str]]

    @property
    def text(self) -> str:
        return _ANSI.sub("", self.raw)


class Kernel:
    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def run(self, code: str, meanwhile: Callable[[dict[str, Any]], None] = lambda shown: None) -> Done:
        printed: list[str] = []
        shown: list[dict[str, str]] = []
        updates: list[dict[str, str]] = []

        def keep(message: dict[str, Any]) -> None:
            content = message["content"]
            if content.get("transient"):
                updates.append(content["data"])
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] in ("display_data", "execute_result"):
                shown.append(content["data"])
                meanwhile(content["data"])
            elif message["msg_type"] == "error":
                printed.extend(content["traceback"])

        reply = self._client.execute_interactive(code, output_hook=keep, timeout=60)
        return Done(reply["content"]["status"], "".join(printed), shown, updates)

    def complete(self, code: str) -> list[dict[str, Any]]:
        reply = self._client.complete(code, reply=True, timeout=60)
        found: list[dict[str, Any]] = reply["content"]["metadata"]["_jupyter_types_experimental"]
        return found

    def inspect(self, code: str) -> str:
        reply = self._client.inspect(code, reply=True, timeout=60)
        return str(reply["content"]["data"].get("text/plain", ""))


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPDIST_PASSWORD": PASSWORD}
    home = tmp_path_factory.mktemp("notebook")
    manager, client = start_new_kernel(kernel_name="python3", env=environment, cwd=str(home), startup_timeout=120)
    try:
        kernel = Kernel(client)
        assert kernel.run("import spdist\n%load_ext spdist").status == "ok"
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture(scope="module")
def spark() -> FakeSpark:
    return FakeSpark()


@pytest.fixture(scope="module")
def cluster(kernel: Kernel, spark: FakeSpark, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    """A manager with a worker whose groups need no Spark, and the kernel's variable ``cluster``."""
    home = tmp_path_factory.mktemp("home")
    manager = Manager(manager_config(home))
    manager.start()
    worker = Worker(worker_config(home, [manager.url]), launcher=spark)
    worker.start()
    assert kernel.run(f"cluster = spdist.connect({manager.url!r})").status == "ok"
    yield manager
    worker.stop()
    manager.stop()


def test_a_cell_is_checked_and_its_text_is_kept(kernel: Kernel) -> None:
    done = kernel.run(f"%%siddhi\n{APP}")
    assert (done.status, done.text) == ("ok", "")
    assert len(done.shown) == 1
    assert "Readings" in done.shown[0]["text/plain"]
    assert kernel.run("print(Cold_Rooms)").text.strip() == APP.strip()
    assert kernel.run(f"%%siddhi other\n{APP}").status == "ok"
    assert kernel.run("other == Cold_Rooms").shown[0]["text/plain"] == "True"


def test_all_errors_are_shown_with_carets_in_the_lines_of_the_cell_and_the_cell_has_failed(kernel: Kernel) -> None:
    done = kernel.run("%%siddhi broken\ndefine stream S (a int);\nfrom S[b > 1] select c insert into Out;")
    assert done.status == "error"
    assert "The app has 2 errors" in done.text
    assert "(line 3, column 8)\nfrom S[b > 1] select c insert into Out;\n       ^" in done.text
    assert "(line 3, column 22)" in done.text
    assert "Traceback" not in done.text
    assert "\x1b[1mfrom\x1b[0m S[b > " in done.raw
    assert "\x1b[1m^\x1b[0m" in done.raw
    assert kernel.run("broken").status == "error", "nothing is kept of it"


def test_python_is_not_put_into_cells(kernel: Kernel) -> None:
    done = kernel.run(
        "value = 3\n"
        "get_ipython().run_cell_magic('siddhi', 'kept', \"define stream S (a string); \"\n"
        "    \"from S select '{value} $value {{x}}' as b insert into Out;\")\nprint(kept)"
    )
    assert "'{value} $value {{x}}'" in done.text


def test_a_run_on_variables_keeps_and_shows_its_results(kernel: Kernel) -> None:
    kernel.run("recorded = [(1000, ('cellar', 4.0)), (2000, ('attic', 20.0))]")
    done = kernel.run(f"%%siddhi rooms --run Readings=recorded --until 1970-01-01T00:01 --result alerts\n{APP}")
    assert done.status == "ok", done.text
    assert kernel.run("alerts['Alerts']").shown[0]["text/plain"] == "[(1000, ('cellar',))]"
    assert "cellar" in str(done.shown[-1])
    wrong = kernel.run(f"%%siddhi rooms --run Readings=recrded\n{APP}")
    assert (wrong.status, "Did you mean 'recorded'?" in wrong.text, wrong.shown) == ("error", True, [])


def test_a_long_run_shows_a_bar_in_one_output_that_is_updated(kernel: Kernel) -> None:
    kernel.run("import spdist.progress\nspdist.progress._FIRST_S = spdist.progress._EVERY_S = 0.0")
    kernel.run("many = [(n, ('attic', 20.0)) for n in range(5000)]")
    kernel.run("plain = Cold_Rooms.replace(\"@sink(type='embedded', topic='ColdRooms.Alerts')\", '')")
    run = "quiet = spdist.run(plain, {'Readings': many}, progress=False)"
    silent = kernel.run(run)
    assert (silent.shown, silent.text) == ([], "")
    done = kernel.run(run.replace(", progress=False", ""))
    kernel.run("spdist.progress._FIRST_S = 1.0")
    first, *later = done.updates
    assert first["text/plain"].startswith("2,000 of 5,000 events, ")
    assert "width:40.0%" in first["text/html"]
    assert "5,000 events in " in later[-1]["text/plain"]
    assert (len(done.shown), done.text) == (1, "")
    assert kernel.run("spdist.run(plain, {'Readings': many});").updates == []


def test_plan_and_explain_are_shown(kernel: Kernel) -> None:
    done = kernel.run(f"%%siddhi rooms --plan --explain --scripts\n{APP}")
    assert [sorted(form) for form in done.shown[1:]] == [[JSON_MIME, "text/html", "text/plain"]] * 2
    assert "svg" in done.shown[1]["text/html"]


def test_functions_in_python_are_refused_unless_the_cell_allows_them(kernel: Kernel) -> None:
    text = "define function f[python] return int { return 1 };\ndefine stream S (a int);"
    text += "from S select f() as b insert into O;"
    assert kernel.run(f"%%siddhi scripted\n{text}").status == "error"
    assert kernel.run(f"%%siddhi scripted --scripts\n{text}").status == "ok"


def test_an_app_is_deployed_fed_and_followed(kernel: Kernel, cluster: Manager, eventually: Callable[..., Any]) -> None:
    eventually(cluster.leads, "it leads")
    done = kernel.run(f"%%siddhi rooms --deploy\n{APP.replace('Cold Rooms', 'ColdRooms')}")
    assert done.status == "ok", done.text
    assert "ColdRooms (version 1): RUNNING" in done.shown[-1]["text/plain"], "the cell has waited"
    assert kernel.run("deployment.feed('Readings').send(recorded)").status == "ok"
    frame = kernel.run("tailed = %siddhi tail Readings -n 1\ntailed")
    assert frame.status == "ok", frame.text
    assert "attic" in frame.shown[0]["text/plain"]
    assert "cellar" not in frame.shown[0]["text/plain"]
    followed = kernel.run("%siddhi tail Readings --app ColdRooms --follow 0.1")
    first, second = (line.rpartition("  ") for line in followed.text.splitlines())
    assert first[0] == "1970-01-01 00:00:01.000  cellar  4.0" and second[0] == "1970-01-01 00:00:02.000  attic  20.0"
    assert re.fullmatch(r"feed-\w+@ColdRooms.Readings/0:1", second[2]), "the id under which one asks for it"
    assert kernel.run("tailed['spdist-id'].tolist()").shown[0]["text/plain"] == f"['{second[2]}']"
    assert "manager-1" in kernel.run("%siddhi status").shown[0]["text/plain"]
    unknown = kernel.run("%siddhi tail Alerts --app Nothing")
    assert (unknown.status, "Nothing" in unknown.text) == ("error", True)


def test_a_cell_waits_for_what_it_deploys_and_can_be_interrupted(
    kernel: Kernel, cluster: Manager, spark: FakeSpark, eventually: Callable[..., Any]
) -> None:
    eventually(cluster.leads, "it leads")
    pid = int(kernel.run("import os; print(os.getpid())").text)

    def interrupt(shown: dict[str, Any]) -> None:
        if "Slow: 0 of 1" in shown["text/plain"]:  # the line that says how far it is
            os.kill(pid, signal.SIGINT)

    def deploy(name: str, more: str = "") -> Done:
        return kernel.run(f"%%siddhi rooms --deploy {more}\n{APP.replace('Cold Rooms', name)}", interrupt)

    spark.ready.clear()
    try:
        done = deploy("Slow")
        assert done.status == "error"
        assert done.text.splitlines() == [
            "NotebookError [SP0800]: interrupted while 'Slow' is being deployed; that goes on",
            "Hint: deployment.wait() waits again, deployment.undeploy() takes it back",
        ]
        done = deploy("Slower", "--no-wait")
        assert (done.status, kernel.run("print(deployment.name)").text.strip()) == ("ok", "Slower")
        assert "RUNNING" not in done.shown[-1]["text/plain"]
    finally:
        spark.ready.set()
    assert kernel.run("deployment.wait().undeploy()").status == "ok"
    spark.problem = StateError("the disk is full")
    try:
        done = deploy("Broken")
    finally:
        spark.problem = None
    assert done.status == "error"
    assert "app Broken has failed" in done.text
    assert "the disk is full" in done.text


def test_lists_and_checks_and_help(kernel: Kernel) -> None:
    assert "math:sqrt(int|long|float|double) → double" in kernel.run("%siddhi functions SQR").shown[0]["text/plain"]
    assert ">length(window.length)<" in kernel.run("%siddhi windows length").shown[0]["text/html"]
    kernel.run("kept = 'define stream Kept (a int); from Kept insert into Out;'")
    source, checked = kernel.run("%siddhi check kept").shown
    assert '<span class="k">define</span>' in source["text/html"]
    assert source["text/plain"] == "define stream Kept (a int); from Kept insert into Out;"
    assert "Kept" in checked["text/plain"]
    assert "is a int, no app" in kernel.run("number = 3\n%siddhi check number").text
    assert kernel.run("open('app.siddhi', 'w').write('define stream S (a')\n%siddhi check app.siddhi").status == "error"
    for line in ("%siddhi", "%%siddhi --help\n\n"):
        assert "%siddhi tail" in kernel.run(line).text


def test_completion_in_cells_and_lines(kernel: Kernel) -> None:
    cell = "%%siddhi --plan\ndefine stream Trades (symbol string, price double);\nfrom Trades select pr"
    (found,) = kernel.complete(cell)
    assert (found["text"], found["type"]) == ("price", "double")
    assert cell[found["start"] : found["end"]] == "pr"
    kinds = [one["type"] for one in kernel.complete(cell[:-2])]
    assert kinds[:2] == ["string", "double"]
    assert set(kinds) > {"aggregator", "function", "namespace"}
    assert "import" not in str(kernel.complete(cell[:-2]))
    assert [one["text"] for one in kernel.complete("%%siddhi --exp")] == ["--explain"]
    assert [one["text"] for one in kernel.complete("%siddhi ta")] == ["tail"]
    assert [one["text"] for one in kernel.complete("x = %siddhi tail S --fo")] == ["--follow"]
    assert "recorded" in [one["text"] for one in kernel.complete("%%siddhi --run Readings=reco")]
    assert "print" in [one["text"] for one in kernel.complete("pri")], "Python is as it was"


def test_tooltips_say_how_a_function_is_called_and_what_an_attribute_is(kernel: Kernel) -> None:
    cell = "%%siddhi\ndefine stream Trades (symbol string, price double);\nfrom Trades select "
    assert kernel.inspect(cell + "symbol") == "attribute symbol: string"
    assert kernel.inspect(cell + "sum(") == "aggregator sum: sum(int|long) → long or sum(float|double) → double"
    assert "attribute price" in kernel.inspect(cell + "max(price")
    assert kernel.inspect(cell + "nothing") == ""
    assert "print" in kernel.inspect("print"), "Python is as it was"


def test_loading_it_again_and_unloading_it(kernel: Kernel) -> None:
    cell = "%%siddhi\ndefine stream S (a int);\nfrom S sel"
    assert kernel.run("%reload_ext spdist").status == "ok"
    assert len(kernel.complete(cell)) == 1
    assert kernel.run("%unload_ext spdist").status == "ok"
    assert kernel.run("%siddhi").status == "error"
    assert kernel.run("%load_ext spdist").status == "ok"
