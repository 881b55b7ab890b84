"""The extension of JupyterLab as it is shipped: found by its name, and with the words of the grammar."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from spdist.language import lexer
from spdist.language.editing.tokens import keywords

ROOT = Path(__file__).parents[2]
PACKAGE = json.loads((ROOT / "labextension/package.json").read_text())
SCRIPT = (ROOT / "labextension" / PACKAGE["jupyterlab"]["_build"]["load"]).read_text()


def words(name: str) -> set[str]:
    """The words of a constant of the script."""
    found = re.search(rf"const {name} = words\(([^)]*)\)", SCRIPT)
    assert found
    return set(" ".join(re.findall("'([^']*)'", found[1])).split())


def test_its_keywords_are_those_of_the_grammar() -> None:
    terminals = {
        "TYPES": {"TYPE"},
        "CONSTANTS": {"TRUE", "FALSE", "_NULL"},
        "LOGIC": {"AND", "OR", "_NOT", "_IN", "_IS"},
    }
    for constant, kinds in terminals.items():
        assert words(constant) == {word for word, terminal in keywords().items() if terminal in kinds}
    assert words("KEYWORDS") | words("TYPES") | words("CONSTANTS") | words("LOGIC") == set(keywords())
    assert words("BEFORE_BRACKETS") == lexer._BEFORE_BRACKETS


def test_it_is_installed_where_jupyterlab_looks_and_under_the_name_of_its_container() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {"labextension": f"share/jupyter/labextensions/{PACKAGE['name']}"}
    assert f"const NAME = '{PACKAGE['name']}';" in SCRIPT
    assert PACKAGE["jupyterlab"]["_build"]["extension"] == "./extension"
    assert json.loads((ROOT / "labextension/install.json").read_text())["packageName"] == "spdist"
