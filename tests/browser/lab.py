"""A real JupyterLab in a real browser, for tests that look at pages: needs playwright and a Chromium."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import nbformat

ROOT = Path(__file__).parents[2]
#: Chromium in a container: no sandbox, and nothing that asks for the network.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
#: How long a page may take for anything, ms: machines of continuous integration are slow.
TIMEOUT_MS = 300_000
#: The words of a cell's editor as a page shows them, each with its colour and weight.
WORDS = """cell => {
    const found = [], texts = document.createTreeWalker(cell.querySelector('.cm-content'), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const style = getComputedStyle(texts.currentNode.parentElement);
        const colour = `${style.color} ${style.fontWeight}`;
        const text = texts.currentNode.textContent.trim();
        for (const word of [text, ...text.split(/\\s+/)]) if (word) found.push([word, colour]);
    }
    return found;
}"""
#: What each code cell has come to: its count once it has run, and how it failed if it is not meant to. Asked of the
#: notebook's model, as the page may leave out what nobody can see.
CELLS = """() => Array.from(jupyterapp.shell.currentWidget.content.model.cells).filter(
    cell => cell.type === 'code'
).map(cell => {
    const meant = (cell.getMetadata('tags') ?? []).includes('raises-exception');
    const error = meant ? undefined : cell.outputs.toJSON().find(output => output.output_type === 'error');
    return {count: cell.executionCount, error: error && `${error.ename}: ${error.evalue}`};
})"""
#: Whether each of these cells has run, or one of them has failed.
ALL_RAN = f"""() => {{
    const cells = ({CELLS})();
    return cells.some(cell => cell.error) || cells.every(cell => cell.count);
}}"""


@contextmanager
def running_lab(home: Path, *, environment: Mapping[str, str] | None = None, timeout_s: float = 120.0) -> Iterator[str]:
    """Run JupyterLab on the folder `home`, on a free port of 127.0.0.1; yield its address, token included.

    Its settings are its own, and it sees the lab extension of this checkout, also where none is installed. Kernels see
    this checkout and what `environment` adds.
    """
    token, port = secrets.token_hex(16), _free_port()
    share = home / ".share"
    (share / "labextensions").mkdir(parents=True, exist_ok=True)
    link = share / "labextensions" / "spdist-siddhiql"
    if not link.exists():
        link.symlink_to(ROOT / "labextension", target_is_directory=True)
    own = {name: str(home / f".{name.lower()}") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")}
    own |= {name: str(home / f".{name.lower()}") for name in ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")}
    quiet = Path(own["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True, exist_ok=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    paths = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    ours = {**os.environ, **own, "JUPYTER_PATH": str(share), "PYTHONPATH": paths, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    ours |= environment or {}
    options = ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", f"--port={port}"]
    options += [
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={token}",
        "--LabApp.expose_app_in_browser=True",
    ]
    with (home / ".lab.log").open("wb") as log:
        command = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={home}"]
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **own, **ours, **(environment or {})}
        )
        try:
            _await_answer(f"http://127.0.0.1:{port}/api?token={token}", process, home / ".lab.log", timeout_s)
            yield f"http://127.0.0.1:{port}/lab?token={token}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _await_answer(url: str, process: subprocess.Popen[bytes], log: Path, timeout_s: float) -> None:
    pace = threading.Event()
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"JupyterLab is not up:\n{log.read_text()[-2000:]}") from None
        pace.wait(0.1)


def chromium() -> str | None:
    """Return the program of a Chromium: that of ``SPDIST_CHROMIUM``, or of the system; None where there is none."""
    named = os.environ.get("SPDIST_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def browser_page(width: int = 1200, height: int = 1400) -> Iterator[Any]:
    """Yield a page of a browser; ``page.problems`` lists what its console called errors."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS, timeout=120_000)
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(TIMEOUT_MS)
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.problems.append(f"{error}: {error.stack}"))
        yield page
        browser.close()


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of code cells; it names its kernel, so that nobody is asked for one."""
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=spec)
    nbformat.write(made, path)


def open_file(page: Any, lab: str, name: str) -> None:
    """Open a file of the lab's folder, and nothing that was open before, and wait until an editor shows it."""
    page.goto(lab.replace("/lab?", f"/lab/tree/{name}?reset&"))
    page.wait_for_selector(".jp-MainAreaWidget .cm-content .cm-line:visible")
    page.wait_for_function("window.jupyterapp?.shell.currentWidget")
    page.evaluate("jupyterapp.shell.collapseLeft()")


def colours(page: Any, cell: int = 0) -> dict[str, str]:
    """Return the colour of each word of a cell's editor, or of a file's; a text in quotes counts as one, too."""
    editors = page.query_selector_all(".jp-MainAreaWidget .cm-editor")
    return dict(editors[cell].evaluate(WORDS))


def command(page: Any, name: str, **arguments: Any) -> None:
    """Run a command of JupyterLab's, as its menus do."""
    page.evaluate("([name, given]) => jupyterapp.commands.execute(name, given)", [name, arguments])


def run_all(page: Any) -> None:
    """Run all cells, and wait until they have; one that fails is an error, unless it is tagged ``raises-exception``."""
    from playwright.sync_api import TimeoutError as NotInTime

    page.wait_for_function("jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'")
    command(page, "notebook:run-all-cells")
    with suppress(NotInTime):  # the cells tell which one it was
        page.wait_for_function(ALL_RAN)
    cells = page.evaluate(CELLS)
    assert all(cell["count"] and not cell.get("error") for cell in cells), cells


def save(page: Any, file: Path) -> str:
    """Save the notebook that is open, and return what is in its file then."""
    before = file.stat().st_mtime_ns
    command(page, "docmanager:save")
    assert file.stat().st_mtime_ns > before, "it was not saved"
    return file.read_text()


def live_panels(page: Any) -> Any:
    """Return the panels that are alive on the page, in their order."""
    return page.locator(".jp-Notebook [class*=spdist-live-]")


def still_panels(page: Any) -> Any:
    """Return the still forms on the page, seen or not, in their order."""
    return page.locator(".jp-Notebook div[class^=spdist-still-]")
