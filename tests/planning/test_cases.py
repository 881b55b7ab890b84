"""Apps with the plan that WSO2's rules, with their defects mended, give: one rule each, reasoned out, not recorded.

``<case>.siddhi`` is an app; ``<case>.json`` what ``spdist plan --json`` prints, with the names of child apps instead of
their texts, and beside it ``says`` and ``silent``: what the text of a child must and must not hold; and ``existing``:
topics that are there already, with their partitions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spdist.errors import SiddhiAppError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.format import format_app
from spdist.language.parsing.parser import parse
from spdist.planning.channels import check_channels
from spdist.planning.groups import plan
from spdist.planning.pictures.listing import listed_error
from spdist.planning.topology import Topology

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.siddhi"))


def expected(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def planned(name: str, transport: str = "log") -> Topology:
    text = (CASES / f"{name}.siddhi").read_text(encoding="utf-8")
    app = parse(text)
    topology = plan(app, check(app, catalog(scripts=True), text), transport)
    if (existing := expected(name).get("existing")) is not None:
        check_channels(topology, existing, text)
    return topology


def test_there_are_many() -> None:
    assert len(NAMES) >= 80


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("refused_")])
def test_planned(name: str) -> None:
    wanted = expected(name)
    wanted.pop("existing", None)
    topology = planned(name, wanted.pop("transport", "log"))
    says, silent = wanted.pop("says", {}), wanted.pop("silent", {})
    found = topology.to_dict()
    texts = {app["name"]: app["text"] for group in found["groups"] for app in group["apps"]}
    for group in found["groups"]:
        group["apps"] = [app["name"] for app in group["apps"]]
    assert found == wanted
    for app, lines in says.items():
        for line in lines:
            assert line in texts[app]
    for app, lines in silent.items():
        for line in lines:
            assert line not in texts[app]
    for app, text in texts.items():
        checked = check(parse(text), catalog(scripts=True), text)
        assert checked.name == app
        assert format_app(checked.app) == text


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("refused_")])
def test_refused(name: str) -> None:
    with pytest.raises(SiddhiAppError) as caught:
        planned(name)
    found, wanted = listed_error(caught.value)["error"], expected(name)["error"]
    assert wanted.pop("message") in found.pop("message")
    assert found == wanted
