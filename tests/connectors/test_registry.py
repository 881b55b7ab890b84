"""The registry of connectors: what is built in declares itself wholly, and has the code that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

import spdist
from spdist.connectors.registry import Connector, built_in, connector, sink_types, source_types
from spdist.errors import ErrorKind, TransportError, UndefinedNameError
from tests.error_codes import coded

FOLDERS = [one for one in (Path(spdist.__file__).parent / "connectors").iterdir() if (one / "__init__.py").exists()]


def test_each_folder_is_a_connector() -> None:
    assert len(built_in()) == len(FOLDERS) > 0
    assert set(source_types()) | set(sink_types()) == set(built_in())


@pytest.mark.parametrize("kind", sorted(built_in()))
def test_what_a_connector_names_is_there(kind: str) -> None:
    known = built_in()[kind]
    places = [place for place in (known.source, known.sink, known.check) if place]
    assert places
    assert all(callable(known.load(place)) for place in places)


def test_an_unknown_type_has_no_connector() -> None:
    assert connector("pigeon") is None
    assert connector(None) is None


def test_a_missing_library_is_told_with_what_to_install() -> None:
    known = Connector(type="pigeon", sink="no_such_library_of_pigeons:Pigeon", requires="acme-pigeon[post]")
    with pytest.raises(TransportError, match=r"connector 'pigeon' cannot be loaded.*no_such_library") as error:
        known.load(known.sink)
    assert error.value.hint == "install acme-pigeon[post]"


def test_what_an_app_needs_is_what_the_connector_declares() -> None:
    for kind, known in built_in().items():
        for option in known.needed:
            app = f"@source(type='{kind}') define stream S (a int); from S select a insert into T;"
            with pytest.raises(spdist.SpdistError, match=f"has no '{option}'"):
                spdist.check(app)


def test_a_type_that_nobody_has_is_refused_with_one_that_is_near() -> None:
    with pytest.raises(UndefinedNameError, check=coded(ErrorKind.UNKNOWN_EXTENSION)) as error:
        spdist.check("@source(type='htp') define stream S (a int); from S select a insert into T;")
    assert "http" in (error.value.hint or "")
