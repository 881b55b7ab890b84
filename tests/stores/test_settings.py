"""What ``@Store`` and ``@Cache`` say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.engine.local import LocalApp
from spdist.engine.outside import outside_stores
from spdist.errors import AppValidationError, UnknownExtensionError, UnsupportedFeatureError
from spdist.extension import catalog
from spdist.language.checker import check
from spdist.language.parser import parse
from spdist.stores.cache import CacheSettings, RowCache

S = "define stream S (k string, n int);"
T = "define table T (k string, n int);"


def app(text: str, base: Path) -> LocalApp:
    checked = check(parse(text), catalog(), text)
    return LocalApp(checked, stores=outside_stores(checked, base=base))


def test_rows_outlive_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABLES", "shop.db")
    store = "@store(type='rdbms', jdbc.url='jdbc:sqlite:${env:TABLES}', table.name='stock')"
    text = f"{S} {store} {T} from S insert into T;"
    first = app(text, tmp_path)
    first.send("S", 1, ("a", 1))
    first.stop()
    second = app(text, tmp_path)
    assert second.query("from T select *").rows == [("a", 1)]
    second.stop()
    assert (tmp_path / "shop.db").exists()


def test_duckdb_is_an_embedded_store(tmp_path: Path) -> None:
    text = (
        f"{S} @store(type='duckdb', path='t.duckdb') @PrimaryKey('k') {T} from S update or insert into T on T.k == k;"
    )
    running = app(text, tmp_path)
    for n in range(3):
        running.send("S", n, ("a", n))
    assert running.query("from T select *").rows == [("a", 2)]
    running.stop()


@pytest.mark.parametrize(
    ("store", "error", "match"),
    [
        ("type='mongodb'", UnknownExtensionError, "mongodb"),
        ("type='rdbms'", AppValidationError, "needs 'jdbc.url' or 'datasource'"),
        ("type='rdbms', datasource='X'", AppValidationError, "no datasource 'X'"),
        ("type='rdbms', jndi.resource='x'", UnsupportedFeatureError, "Java server"),
        ("type='rdbms', jdbc.ulr='jdbc:sqlite:x'", AppValidationError, "Did you mean 'jdbc.url'"),
        ("type='rdbms', jdbc.url='jdbc:h2:x'", AppValidationError, "database that spdist can use"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', password='${env:NOT_SET}'", AppValidationError, "NOT_SET"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', field.length='n:3'", AppValidationError, "no string attribute"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', field.length='k:x'", AppValidationError, "number of characters"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', allow.null.values='maybe'", AppValidationError, "true or false"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', @Cache(cache.policy='LRU')", AppValidationError, "needs 'size'"),
        (
            "type='rdbms', jdbc.url='jdbc:sqlite:x', @Cache(size='3', cache.policy='X')",
            AppValidationError,
            "policy 'X'",
        ),
        ("type='duckdb'", AppValidationError, "needs 'path'"),
    ],
)
def test_what_is_wrong_is_refused(store: str, error: type[Exception], match: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=match):
        app(f"{S} @store({store}) {T}", tmp_path)


def test_a_password_never_shows(tmp_path: Path) -> None:
    with pytest.raises(AppValidationError) as caught:
        app(f"@store(type='rdbms', jdbc.url='jdbc:postgresql://u:geheim@h/d') {T}", tmp_path)
    assert "geheim" not in caught.value.message


def test_values_that_columns_cannot_hold_cost_their_event_only(tmp_path: Path) -> None:
    text = f"{S} @store(type='duckdb', path='t', field.length='k:3') {T} from S insert into T;"
    running = app(text, tmp_path)
    for row in [("abcd", 1), ("a", None), ("\0", 1), ("abc", 2), (None, 3)]:
        running.send("S", 1, row)
    assert sorted(running.query("from T select *").rows, key=str) == [("abc", 2), (None, 3)]
    assert running.failures.count == 3
    assert "'n' (int)" in str(running.failures.latest) or "'k' (string)" in str(running.failures.latest)
    running.stop()


@pytest.mark.parametrize(("policy", "left"), [("FIFO", "bcd"), ("LRU", "acd"), ("LFU", "abd")])
def test_the_policy_says_which_row_leaves(policy: str, left: str) -> None:
    cache = RowCache(CacheSettings(3, policy), lambda: 0)  # type: ignore[arg-type]
    for key in "abc":
        cache.put(key, (key,))
    for key in "bbaa":  # c is asked for least often, a and c are older than… b
        cache.get(key)
    cache.get("c")
    cache.put("d", ("d",))
    assert "".join(sorted(key for key in "abcd" if cache.get(key))) == left


def test_rows_are_believed_for_the_retention_period() -> None:
    now = [0]
    cache = RowCache(CacheSettings(9, "FIFO", retention_ms=10, purge_ms=5), lambda: now[0])
    cache.put("a", ("a",))
    now[0] = 10
    assert cache.get("a") == ("a",)
    now[0] = 11
    assert cache.get("a") is None
    assert len(cache) == 0


def test_a_cache_answers_for_the_database_and_follows_what_is_written(tmp_path: Path) -> None:
    cached = (
        "@store(type='rdbms', jdbc.url='jdbc:sqlite:c.db', table.name='T', @Cache(size='2', retention.period='1 min'))"
    )
    key = "@PrimaryKey('k')"
    body = "from S update T set T.n = n on T.k == k; define stream Q (k string);"
    join = "from Q join T on Q.k == T.k select T.k as k, T.n as n insert into Out;"
    running = app(f"{S} define stream Q (k string); {cached} {key} {T} {body.partition(';')[0]}; {join}", tmp_path)
    other = app(
        f"{S} {cached.partition(', @Cache')[0]}) {key} {T} from S update or insert into T on T.k == k;", tmp_path
    )
    seen: list[object] = []
    running.subscribe("Out", lambda ts, row: seen.append(row))
    other.send("S", 1, ("a", 1))
    running.send("Q", 1_000, ("a",))
    other.send("S", 2, ("a", 2))
    running.send("Q", 2_000, ("a",))  # what the cache believes
    running.send("Q", 62_000, ("a",))  # no longer
    running.send("S", 62_001, ("a", 3))
    running.send("Q", 62_002, ("a",))  # its own change
    assert seen == [("a", 1), ("a", 1), ("a", 2), ("a", 3)]
    running.stop()
    other.stop()
