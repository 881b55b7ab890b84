"""One JupyterLab and one page for each module of tests. They are skipped only where there is no Chromium.

``SPDIST_SCREENSHOTS=docs/screenshots`` has the tests make the pictures of the README.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.browser.lab import browser_page, chromium, running_lab

Shoot = Callable[..., None]
#: What JupyterLab says as it leaves a page, of widgets and debuggers whose kernel is gone, and of blocked requests.
NOT_OURS = ("removeChild", "widget model not found", "Could not restore the debugger state", "net::ERR_FAILED")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that JupyterLab shows."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def kernel_environment() -> dict[str, str]:
    """What kernels find in their environment; for modules to say."""
    return {}


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    # Of this module only: as long as it is there, no test of this process can run an event loop of its own.
    if chromium() is None:
        pytest.skip("there is no Chromium: apt install chromium, or name one in SPDIST_CHROMIUM")
    with browser_page() as opened:
        yield opened


@pytest.fixture(scope="module")
def lab(page: Any, home: Path, kernel_environment: dict[str, str]) -> Iterator[str]:
    with running_lab(home, environment=kernel_environment) as address:
        yield address


@pytest.fixture(autouse=True)
def no_problem(page: Any) -> Iterator[None]:
    """The console of the browser has no error of ours."""
    page.problems.clear()
    yield
    assert [problem for problem in page.problems if not any(one in problem for one in NOT_OURS)] == []


@pytest.fixture(scope="session")
def shoot() -> Shoot:
    """``shoot(what, name)``: make a picture of a locator, where pictures are wanted."""
    folder = os.environ.get("SPDIST_SCREENSHOTS")

    def make(what: Any, name: str) -> None:
        if not folder:
            return
        Path(folder).mkdir(parents=True, exist_ok=True)
        size = made = None
        while made is None or what.bounding_box() != size:  # a panel may grow meanwhile
            what.scroll_into_view_if_needed()
            size, made = what.bounding_box(), Image.open(io.BytesIO(what.screenshot(animations="disabled")))
        # Panels have few colours: as a palette they need half the room.
        made.convert("RGB").quantize(128).save(Path(folder) / f"{name}.png", optimize=True)

    return make
