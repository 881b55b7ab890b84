"""The wheel: what is installed from it has notebooks, settings and panels, and starts a cluster without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest

from spdist import workspace
from spdist.errors import NotebookError
from spdist.services.maven import cache_directory
from spdist.workspace import copy_workspace

ROOT = Path(__file__).parents[1]
START_S = 300

CLUSTER = f"""
import spdist
settings = {{"SPDIST__SPARK__DRIVER_MEMORY": "512m", "SPDIST__SPARK__MASTER": "local[1]"}}
with spdist.LocalCluster(managers=1, workers=1, start_timeout_s={START_S}, settings=settings) as cluster:
    print(spdist.__file__, [worker.state for worker in cluster.status().workers])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What pip makes of the wheel: its content in a directory that Python searches."""
    directory = tmp_path_factory.mktemp("an installation")
    with zipfile.ZipFile(build("wheel", ROOT, directory / "dist")) as archive:
        archive.extractall(directory / "site")
    return directory / "site"


def build(kind: str, source: Path, target: Path) -> Path:
    """Build the wheel or the sdist of a source tree into a directory."""
    built = run(source, target, "-m", "hatchling", "build", "-t", kind, "-d", str(target), path=None)
    assert built.returncode == 0, built.stderr
    (made,) = target.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def files(directory: Path) -> dict[str, bytes]:
    """Return the files of a package, but not what Python has compiled of those that were imported."""
    found = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def run(cwd: Path, home: Path, *arguments: str, path: Path | None, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home), **({} if path is None else {"PYTHONPATH": str(path)}), **more}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_every_notebook_and_every_settings_file_is_in_the_wheel(installed: Path) -> None:
    tracked = {path.relative_to(ROOT) for top in ("notebooks", "conf") for path in (ROOT / top).rglob("*.[iy]*")}
    tracked = {path for path in tracked if not any(part.startswith(".") for part in path.parts)}
    brought = installed / "spdist" / "_workspace"
    assert {path for path in tracked if (brought / path).read_bytes() == (ROOT / path).read_bytes()} == tracked
    assert len(tracked) > 6


def test_a_user_copies_the_notebooks_and_what_was_changed_stays(installed: Path, tmp_path: Path) -> None:
    first = run(tmp_path, tmp_path, "-m", "spdist", "notebooks", "copy", "mine", path=installed)
    assert first.returncode == 0, first.stderr
    assert "Open them: python -m jupyterlab mine/notebooks" in first.stdout
    nbformat.validate(nbformat.read(tmp_path / "mine/notebooks/quickstart.ipynb", 4))
    settings = tmp_path / "mine/conf/worker/deployment.yaml"
    settings.write_text("wso2.carbon: {id: mine}\n", encoding="utf-8")
    again = run(tmp_path, tmp_path, "-m", "spdist", "notebooks", "copy", "mine", path=installed)
    assert "mine/conf/worker/deployment.yaml: is there already, and stays" in again.stdout
    assert settings.read_text(encoding="utf-8").startswith("wso2.carbon")
    replaced = run(tmp_path, tmp_path, "-m", "spdist", "notebooks", "copy", "mine", "--replace", path=installed)
    assert "is there already" not in replaced.stdout
    assert "id: mine" not in settings.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- panels
def test_the_panels_are_in_spdist_and_no_other_package_is_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = """
import pkgutil, sys
import spdist.panels
for module in pkgutil.iter_modules(spdist.panels.__path__):
    __import__(f"spdist.panels.{module.name}")
print(spdist.panels.__file__, len([name for name in sys.modules if name.startswith("spdist.panels.")]))
"""
    modules = [path for path in (ROOT / "widgets").glob("*.py") if path.stem != "__init__"]
    done = run(tmp_path, tmp_path, "-c", code, path=installed)
    assert done.stdout == f"{installed}/spdist/panels/__init__.py {len(modules)}\n", done.stderr
    assert {path.name.split("-")[0] for path in installed.iterdir()} == {"spdist"}


def test_a_wheel_from_the_sdist_is_the_same(installed: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path / "a source")) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("spdist-*")
    with zipfile.ZipFile(build("wheel", unpacked, tmp_path / "dist")) as archive:
        archive.extractall(tmp_path / "site")
    assert files(tmp_path / "site") == files(installed)


def test_a_checkout_has_the_panels_by_the_same_name_and_by_no_other(tmp_path: Path) -> None:
    code = """
import spdist.panels
print(spdist.panels.__file__)
import widgets.monitor
"""
    done = run(ROOT, tmp_path, "-c", code, path=ROOT)
    assert done.stdout == f"{ROOT}/spdist/panels/__init__.py\n"
    assert "ImportError: the panels are spdist.panels: from spdist.panels import MonitorPanel" in done.stderr
    assert (ROOT / "spdist/panels").samefile(ROOT / "widgets")


# ------------------------------------------------------------------------------------------------------------ cluster
@pytest.mark.cluster
@pytest.mark.spark
def test_an_installed_package_starts_a_local_cluster(installed: Path, tmp_path: Path) -> None:
    # The class archive of Spark's JVM, which is the same for all, need not be made again.
    done = run(tmp_path, tmp_path, "-c", CLUSTER, path=installed, XDG_CACHE_HOME=str(cache_directory().parent))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{installed}/spdist/__init__.py ['READY']" in done.stdout
    assert "all nodes have stopped" in done.stdout


def test_a_checkout_is_its_own_workspace() -> None:
    assert workspace.workspace() == ROOT
    assert not workspace.is_installed(ROOT)


def test_a_package_without_notebooks_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(workspace, "_PACKAGE", tmp_path / "spdist")
    with pytest.raises(NotebookError, match="came without notebooks and settings"):
        list(copy_workspace(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_a_directory_that_cannot_be_made_is_a_wrong_argument(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = run(ROOT, tmp_path, "-m", "spdist", "notebooks", "copy", str(tmp_path / "file"), path=ROOT)
    assert done.returncode == 2
    assert "cannot write" in done.stderr
