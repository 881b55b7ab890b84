"""Stores of other distributions: found by their entry points, and told from batches like databases."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import spdist
from spdist.config.allowed import Allowed
from spdist.connectors.registry import store_types
from spdist.engine.local.app import LocalApp
from spdist.engine.local.external_stores import external_stores
from spdist.errors import ErrorKind, StoreError, UndefinedNameError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.editing.completion import values
from spdist.language.parsing.parser import parse
from spdist.operators.tables.stores import OutsideStores, StoreBatch
from spdist.packages import use_packages
from tests.connectors.foreign import install
from tests.error_codes import coded

PAGE = Path(__file__).parents[2] / "docs" / "architecture" / "extending.md"
#: What the page shows as the whole of a module.
SHELF = next(one for one in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "Shelf" in one)
TABLE = "@store(type='shelf', file='goods.json') @PrimaryKey('k') define table T (k string, n int);"
APP = f"""define stream S (k string, n int); define stream Gone (k string); {TABLE}
from S select k, n update or insert into T set T.n = n on T.k == k;
from Gone delete T on T.k == k;
from S join T on S.k == T.k select T.k, T.n insert into Found;"""


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A package with a store, installed where this process finds it, and one that is broken; none is named."""
    monkeypatch.setenv("SPDIST_PACKAGES", "")
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.chdir(tmp_path)
    install(packages, "acme-shelf", {"acme_shelf": SHELF}, {"spdist.stores": {"shelf": "acme_shelf:STORE"}})
    rival = "from spdist.connectors.registry import StoreType\nSTORE = StoreType(type='rdbms', open='acme_rival:Own')\n"
    rival += "LOST = StoreType(type='lost', open='acme_rival:NoSuch', requires='acme-rival[all]')\nFALSE = 7\n"
    entries = {"rdbms": "acme_rival:STORE", "lost": "acme_rival:LOST", "seven": "acme_rival:FALSE"}
    install(packages, "acme-rival", {"acme_rival": rival}, {"spdist.stores": {**entries, "broken": "acme_none:STORE"}})
    yield
    for module in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[module]


def opened(text: str, stores: OutsideStores | None) -> LocalApp:
    return LocalApp(check(parse(text), catalog(), text), stores=stores)


def stores_of(text: str, place: Path) -> OutsideStores:
    stores = external_stores(check(parse(text), catalog(), text), Allowed((place,)))
    assert stores is not None
    return stores


def test_a_store_that_is_not_named_is_not_loaded() -> None:
    with pytest.raises(
        UndefinedNameError, match="There is no store 'shelf'", check=coded(ErrorKind.UNKNOWN_EXTENSION)
    ) as e:
        spdist.run(APP, {})
    assert e.value.hint == "Stores: duckdb, rdbms."
    assert "acme_shelf" not in sys.modules


def test_tables_of_a_named_store_keep_their_rows_from_run_to_run(tmp_path: Path) -> None:
    use_packages(["acme-shelf"])
    assert values("store", "type") == ("duckdb", "rdbms", "shelf")
    first = spdist.run(APP, {"S": [(1000, ("a", 1)), (1001, ("b", 2)), (1002, ("a", 3))]})
    assert [row for _, row in first["Found"]] == [("a", 1), ("b", 2), ("a", 3)]
    second = spdist.run(APP, {"Gone": [(1000, ("b",))], "S": [(1001, ("c", 4))]})
    assert [row for _, row in second["Found"]] == [("c", 4)]
    assert json.loads((tmp_path / "goods.json").read_text())["rows"] == [["a", 3], ["c", 4]]
    with pytest.raises(spdist.SpdistError, match="has no 'file'"):
        spdist.run(APP.replace(", file='goods.json'", ""), {})


def test_batches_of_a_store_are_undone_where_they_begin_anew_and_change_nothing_where_they_were_committed(
    tmp_path: Path,
) -> None:
    use_packages(["acme-shelf"])
    database = "@store(type='duckdb', path='t.duckdb') define table D (k string);"
    text = APP.replace(TABLE, f"{TABLE} {database}") + "from S select k insert into D;"
    stores = stores_of(text, tmp_path)
    app = opened(text, stores)

    def batch(number: int, key: str) -> None:
        stores.begin(StoreBatch("log", number))
        app.send("S", 1000 + number, (key, number))

    batch(1, "undone")
    batch(1, "a")
    stores.commit()
    batch(1, "replayed")
    stores.commit()
    batch(2, "b")
    stores.commit()
    rows = {table: sorted(key for key, *_ in app.query(f"from {table} select k").rows) for table in "TD"}
    assert rows == {"T": ["a", "b"], "D": ["a", "b"]}
    assert json.loads((tmp_path / "goods.json").read_text()) == {"batches": {"log": 2}, "rows": [["a", 1], ["b", 2]]}
    stores.close()


def test_what_is_built_in_stays_and_what_cannot_be_loaded_is_told(caplog: pytest.LogCaptureFixture) -> None:
    use_packages(["acme-rival"])
    assert store_types()["rdbms"].open.startswith("spdist.")
    assert "the package acme-rival 1.0 brings a store 'rdbms'; there is one already, which stays" in caplog.text
    assert "'seven' of the package acme-rival 1.0 is no store: 7" in caplog.text
    with pytest.raises(StoreError, match="the store 'lost' cannot be loaded") as lost:
        spdist.run(APP.replace("shelf", "lost"), {})
    assert lost.value.hint == "install acme-rival[all]"
    with pytest.raises(UndefinedNameError, match="There is no store 'broken'") as broken:
        spdist.run(APP.replace("shelf", "broken"), {})
    assert "No module named 'acme_none'" in str(broken.value.hint)


def test_secrets_stand_only_where_a_store_says_so() -> None:
    use_packages(["acme-shelf"])
    with pytest.raises(spdist.SpdistError, match="'file' of '@store' cannot hold a secret"):
        spdist.check(APP.replace("goods.json", "${secret:A}"))
