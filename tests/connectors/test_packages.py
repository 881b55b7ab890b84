"""Packages of others: what they bring is used where they are named, and a broken one stops nothing else."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import spdist
from spdist.connectors.registry import connector, sink_types, source_types
from spdist.connectors.sending import SinkContext, Sinks
from spdist.errors import ErrorKind, SpdistError, UndefinedNameError
from spdist.packages import named_packages, use_packages
from spdist.transports.delivery import Delivery
from spdist.transports.log import LogTransport
from tests.connectors.foreign import install
from tests.error_codes import coded
from tests.runtime.test_sources import Becomes, Fed, becomes

__all__ = ["becomes"]

PAGE = Path(__file__).parents[2] / "docs" / "architecture" / "extending.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
#: What the page shows as the whole of a module.
BELL = next(one for one in BLOCKS if "Bell" in one)
SOURCE = "@source(type='bell', text='ding', interval='1', @map(type='csv'))"
STREAM = "define stream S (a string);"
SINK = "@sink(type='bell', text='dong', @map(type='text')) define stream T (a string);"
APP = f"{SOURCE} {STREAM} {SINK} from S select a insert into T;"
LISTENS = f"{SOURCE} {STREAM} from S select a insert into T;"
TWICE = """
from spdist.extension import function, signature
from spdist.language.types import Type

@function("acme:twice", signature("acme:twice", ((Type.INT,), Type.INT)))
def twice(value):
    return None if value is None else 2 * value
"""


@pytest.fixture(autouse=True)
def nobody_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A process that has named no package, with a directory of packages on its path."""
    monkeypatch.setenv("SPDIST_PACKAGES", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for module in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[module]


@pytest.fixture
def bell(tmp_path: Path) -> None:
    install(tmp_path, "acme-bell", {"acme_bell": BELL}, {"spdist.connectors": {"bell": "acme_bell:CONNECTOR"}})


@pytest.mark.usefixtures("bell")
def test_what_is_installed_and_not_named_is_not_loaded() -> None:
    with pytest.raises(UndefinedNameError, match="There is no source 'bell'", check=coded(ErrorKind.UNKNOWN_EXTENSION)):
        spdist.check(LISTENS)
    assert "acme_bell" not in sys.modules


@pytest.mark.usefixtures("bell")
def test_the_connector_of_a_named_package_is_one_like_any_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, becomes: Becomes
) -> None:
    use_packages(["Acme_Bell"])
    assert "bell" in source_types()
    assert "bell" in sink_types()
    spdist.check(APP)
    with pytest.raises(SpdistError, match="'@source' of type 'bell' has no 'text'"):
        spdist.check("@source(type='bell') define stream S (a string); from S select a insert into T;")

    (tmp_path / "fed").mkdir()
    fed = Fed(tmp_path / "fed", SOURCE, "from S select a insert into T;", stream=STREAM)
    fed.sources.start()
    try:
        becomes(lambda: fed.rows()[:2], [("ding",), ("ding",)])
    finally:
        fed.close()

    sinks = Sinks(SinkContext("A", LogTransport(str(tmp_path / "log")), {}))
    with caplog.at_level(logging.INFO, "acme.bell"):
        sinks.send([Delivery("bell", 0, 0, "T", {"text": "dong"}, "ding", "A-1", 0)])
    assert [one.getMessage() for one in caplog.records if one.name == "acme.bell"] == ["dong ding"]


def test_functions_of_a_named_package_run_also_in_processes_that_are_started(tmp_path: Path) -> None:
    install(tmp_path, "acme-twice", {"acme_twice": TWICE}, {"spdist.extensions": {"twice": "acme_twice"}})
    app = "define stream S (v int); from S select acme:twice(v) as v insert into T;"
    with pytest.raises(SpdistError, match="acme:twice"):
        spdist.check(app)
    use_packages(["acme-twice"])
    assert spdist.run(app, {"S": [(1, (2,))]})["T"] == [(1, (4,))]
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import spdist; spdist.check({app!r})"
    root = Path(spdist.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("bell")
def test_a_broken_package_is_told_and_stops_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(tmp_path, "acme-broken", {"acme_broken": "1 / 0"}, {"spdist.connectors": {"drum": "acme_broken:DRUM"}})
    use_packages(["acme-broken", "acme-bell", "acme-gone"])
    spdist.check(APP)
    told = "'drum' of the package acme-broken 1.0 (acme_broken:DRUM): ZeroDivisionError"
    assert any(told in one.getMessage() for one in caplog.records)
    assert any("acme-gone is named" in one.getMessage() for one in caplog.records)
    with pytest.raises(
        UndefinedNameError, match="There is no source 'drum'", check=coded(ErrorKind.UNKNOWN_EXTENSION)
    ) as error:
        spdist.check(LISTENS.replace("bell", "drum"))
    assert told in (error.value.hint or "")


def test_what_is_built_in_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    mine = (
        "from spdist.connectors.registry import Connector\nMINE = Connector(type='http', sink='acme_http:no')\nNONE = 1"
    )
    entries = {"spdist.connectors": {"http": "acme_http:MINE", "other": "acme_http:NONE"}}
    install(tmp_path, "acme-http", {"acme_http": mine}, entries)
    before = connector("http")
    use_packages(["acme-http"])
    assert connector("http") is before
    told = " ".join(one.getMessage() for one in caplog.records)
    assert "acme-http 1.0 brings a connector 'http'" in told
    assert "'other' of the package acme-http 1.0 is no connector" in told


def test_names_add_up_and_are_those_of_pip() -> None:
    use_packages(["B_two", ""])
    use_packages(["a.one"])
    use_packages([])
    assert named_packages() == ("a-one", "b-two")
