"""The docs are true: pages build, links lead somewhere, code runs, commands exist, the reference is current."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import spdist
from spdist.__main__ import app
from tests.docs.reference import commands, errors, python, settings
from tests.docs.routes import FOLDER

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> Iterator[str]:
    """Yield the names of the headings of a page, as GitHub and Sphinx make them."""
    for heading in re.findall(r"^#+ (.*)$", path.read_text(), flags=re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.slow
def test_the_pages_are_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(ROOT / "docs"), str(tmp_path / "pages")]
    done = subprocess.run([*command, "-d", str(tmp_path / "trees")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "spdist.transform" in (tmp_path / "pages/reference/python.html").read_text()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(
        r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    ):
        if re.match(r"https?:", link):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), link
        assert not anchor or anchor in anchors(file), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`((?:spdist|tests|widgets|notebooks|conf|deploy|docs)/[\w./-]+)`", text)
    assert [one for one in named if not (ROOT / one).exists()] == []


def test_files_that_the_table_of_rooms_names_are_in_their_rooms() -> None:
    rows = re.findall(r"^(\| `([\w/]+/)`.*)", (ROOT / "docs/architecture/house.md").read_text(), flags=re.MULTILINE)
    missing = [
        f"{room}: {file}"
        for line, room in rows
        for file in re.findall(r"`([\w*/]+\.(?:py|lark|json|yaml|ipynb))`", line)
        if not (any((ROOT / room).glob(f"**/{file}")) or (ROOT / file).exists() or (ROOT / "spdist" / file).exists())
    ]
    assert missing == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python") and page.name != "frames.md"], ids=name
)
def test_code_does_what_the_page_says(page: Path) -> None:
    # The guide of frames has all of such a fragment, and tests/engine/frames runs it.
    whole = "".join(code for code in blocks(page, "python") if "spdist.transform(" not in code)
    # In a process of its own: what it registers would be there for other tests.
    done = subprocess.run([sys.executable, "-c", whole], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"^print\(.*\)  # (\[.*)$", whole, flags=re.MULTILINE)
    assert [line for line in done.stdout.splitlines() if line.startswith("[")] == said


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_apps_are_right_and_settings_can_be_read(page: Path) -> None:
    for text in blocks(page, "sql"):
        spdist.check(text)
    for text in blocks(page, "yaml"):
        assert yaml.safe_load(text)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_are_there(page: Path) -> None:
    text, makefile = page.read_text(), (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)|`make ([a-z-]+)", text, flags=re.MULTILINE):
        assert re.search(rf"^{''.join(command)}:", makefile, flags=re.MULTILINE), command
    for block in blocks(page, ""):
        for line in re.findall(r"^(?:python -m )?spdist ((?:[a-z-]+ ?)+)", block, flags=re.MULTILINE):
            found: Any = get_command(app)
            for word in line.split():
                if not hasattr(found, "commands"):
                    break
                assert word in found.commands, line
                found = found.commands[word]


@pytest.mark.parametrize(
    ("page", "text"), [("commands", commands()), ("settings", settings()), ("python", python()), ("errors", errors())]
)
def test_the_reference_is_current(page: str, text: str) -> None:
    assert (FOLDER / f"{page}.md").read_text() == text, "run `make reference`"
