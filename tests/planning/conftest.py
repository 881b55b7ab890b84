"""Planning from text, as a manager does it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.groups import plan
from spdist.planning.topology import Topology

HEAD = """@app:name('App')
define stream S (k string, v int);
define stream R (k string, v int);
"""


@pytest.fixture
def planned() -> Callable[[str], Topology]:
    """``planned(body)``: the topology of an app with the streams S and R, or of `body` where that is a whole app."""

    def build(body: str) -> Topology:
        app = parse(body if "@app:name" in body else HEAD + body)
        return plan(app, check(app, catalog()))

    return build
