"""What ``@Store`` and ``@Cache`` say, and what is refused."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy import text as sql
from sqlalchemy.pool import QueuePool

from spdist.config import Secret
from spdist.config.allowed import Allowed, allowed_of
from spdist.config.standalone import load_standalone
from spdist.engine.local.app import LocalApp
from spdist.engine.local.external_stores import external_stores
from spdist.errors import AppValidationError, StoreError, UndefinedNameError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.stores.cache import CacheSettings, RowCache
from spdist.stores.database import Database
from spdist.stores.databases import DatabaseStores
from spdist.stores.settings import DatabaseSettings, store_settings

S = "define stream S (k string, n int);"
T = "define table T (k string, n int);"


def app(text: str, base: Path) -> LocalApp:
    checked = check(parse(text), catalog(), text)
    return LocalApp(checked, stores=external_stores(checked, Allowed((base,), tables=("kept",))))


def test_rows_outlive_the_app(tmp_path: Path) -> None:
    store = "@store(type='rdbms', jdbc.url='jdbc:sqlite:shop.db', table.name='stock')"
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
        ("type='mongodb'", UndefinedNameError, "mongodb"),
        ("type='rdbms'", AppValidationError, "needs 'jdbc.url', 'datasource' or 'jndi.resource'"),
        ("type='rdbms', datasource='X'", AppValidationError, "no datasource 'X'"),
        ("type='rdbms', jndi.resource='jdbc/X'", AppValidationError, "no datasource 'jdbc/X'"),
        ("type='rdbms', jdbc.ulr='jdbc:sqlite:x'", AppValidationError, "Did you mean 'jdbc.url'"),
        ("type='rdbms', jdbc.url='jdbc:h2:x'", AppValidationError, "database that spdist can use"),
        (
            "type='rdbms', jdbc.url='jdbc:postgresql://h/d', password='${secret:NONE}'",
            AppValidationError,
            "the secret NONE",
        ),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', field.length='n:3'", AppValidationError, "no string attribute"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', field.length='k:x'", AppValidationError, "number of characters"),
        *(
            (f"type='rdbms', jdbc.url='jdbc:sqlite:x', {option}", AppValidationError, told)
            for number in ("9" * 5_000, "0", "-3", "\u0663")
            for option, told in (
                (f"field.length='k:{number}'", "number of characters"),
                (f"@Cache(size='{number}')", "a number of rows above 0"),
            )
        ),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', allow.null.values='maybe'", AppValidationError, "true or false"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', @Cache(cache.policy='LRU')", AppValidationError, "needs 'size'"),
        (
            "type='rdbms', jdbc.url='jdbc:sqlite:x', @Cache(size='3', cache.policy='X')",
            AppValidationError,
            "policy 'X'",
        ),
        ("type='duckdb'", AppValidationError, "needs 'path'"),
        ("type='duckdb', path='/etc/x.duckdb'", AppValidationError, "outside of the directories"),
        ("type='duckdb', path='../x.duckdb'", AppValidationError, "outside of the directories"),
        ("type='duckdb', jdbc.url='jdbc:duckdb:/etc/x'", AppValidationError, "'jdbc.url' lies outside"),
        ("type='duckdb', path='x?access_mode=READ_ONLY'", AppValidationError, "takes no parameters"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:/etc/x.db'", AppValidationError, "outside of the directories"),
        ("type='rdbms', jdbc.url='sqlite:////etc/x.db'", AppValidationError, "outside of the directories"),
        ("type='rdbms', jdbc.url='sqlite:///file:/etc/x?uri=true'", AppValidationError, "takes no parameters"),
        ("type='rdbms', jdbc.url='postgresql://h/d?sslcert=/etc/x'", AppValidationError, "the parameter 'sslcert'"),
        ("type='rdbms', jdbc.url='postgresql://h/d?service=x'", AppValidationError, "the parameter 'service'"),
        ("type='rdbms', jdbc.url='postgresql://h/d?passfile=x'", AppValidationError, "the parameter 'passfile'"),
        ("type='rdbms', jdbc.url='postgresql://h/d?host=/run'", AppValidationError, "the parameter 'host'"),
        ("type='rdbms', jdbc.url='postgresql://h/d?sslmode=/x'", AppValidationError, "the parameter 'sslmode'"),
        ("type='rdbms', jdbc.url='postgresql://%2Frun/d'", AppValidationError, "names no host"),
        ("type='rdbms', jdbc.url='mysql://[::1/d'", AppValidationError, "names no host"),
        ("type='rdbms', jdbc.url='postgresql://[x]/d'", AppValidationError, "names no host"),
        ("type='rdbms', jdbc.url='mysql://h/d?local_infile=1'", AppValidationError, "the parameter 'local_infile'"),
        ("type='rdbms', jdbc.url='mysql://h/d?read_default_file=x'", AppValidationError, "may not set"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', table.name='spdist_applied'", AppValidationError, "to spdist itself"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', table.name='main.SPDIST_Leader'", AppValidationError, "to spdist"),
        ("type='rdbms', jdbc.url='jdbc:sqlite:x', table.name='kept'", AppValidationError, "to spdist itself"),
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


def test_the_tables_of_an_aggregation_are_not_spdists_own(tmp_path: Path) -> None:
    store = "@store(type='rdbms', jdbc.url='jdbc:sqlite:x', table.name='{}')"
    text = "define stream S (k string, n long); {} define aggregation A from S select k, sum(n) as n group by k"
    text += " aggregate every sec...min;"
    checked = check(parse(text.format(store.format("kept"))), catalog(), text)
    with pytest.raises(AppValidationError, match="'kept_MINUTES' belongs to spdist itself"):
        LocalApp(checked, stores=external_stores(checked, Allowed((tmp_path,), tables=("kept_minutes",))))


def test_parameters_that_are_words_may_be_set(tmp_path: Path) -> None:
    url = "postgresql://me@db.example.org:5432/d?sslmode=require"
    text = f"@store(type='rdbms', jdbc.url='{url}') define table T (k string);"
    (definition,) = parse(text).definitions
    schema = Schema.of([("k", "string")])
    found = store_settings(definition.annotations[0], "T", schema, Allowed())  # type: ignore[union-attr]
    assert found.database.url.endswith("?sslmode=require")


def test_duckdb_reads_no_other_file(tmp_path: Path) -> None:
    """DuckDB takes the name of a table that is not there for that of a file."""
    (tmp_path / "private.csv").write_text("k,n\ngeheim,1\n")
    store = f"@store(type='duckdb', path='t.duckdb', table.name='{tmp_path / 'private'}.csv')"
    with pytest.raises(StoreError) as error:
        running = app(f"{S} {store} {T}", tmp_path)
        running.query("from T select *")
    assert "geheim" not in str(error.value)
    database = DatabaseStores(Allowed((tmp_path,)))
    settings = DatabaseSettings(f"duckdb:///{tmp_path / 'other.duckdb'}")
    for text in ("SELECT * FROM read_csv('{}')", "ATTACH '{}'", "COPY (SELECT 1) TO '{}'", 'SELECT * FROM "{}"'):
        with pytest.raises(StoreError, match="file system operations are disabled"):
            database._database(settings).read(sql(text.format(tmp_path / "private.csv")))
    database.close()


def test_a_driver_that_says_a_secret_is_not_repeated(tmp_path: Path) -> None:
    store = "@store(type='rdbms', jdbc.url='jdbc:postgresql://127.0.0.1:1/d', username='${secret:WHO}')"
    text = f"{store} define table T (k string);"
    (definition,) = parse(text).definitions
    allowed = Allowed(secrets={"WHO": Secret("geheim")})
    found = store_settings(definition.annotations[0], "T", Schema.of([("k", "string")]), allowed)  # type: ignore[union-attr]
    assert "geheim" not in repr(found)
    database = Database(create_engine("sqlite://"), "it", found.database.secrets)
    with pytest.raises(StoreError, match=r"no such table: \*\*\*") as error:
        database.read(sql(f"SELECT * FROM {found.database.username}"))
    assert "geheim" not in "".join(traceback.format_exception(error.value))


def test_a_store_finds_its_database_by_name_and_by_jndi_name_and_has_its_pool(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(
        f"""
wso2.datasources:
  dataSources:
    - name: SHOP_DB
      jndiConfig: {{name: jdbc/ShopDB, useJndiReference: true}}
      definition:
        type: RDBMS
        configuration:
          jdbcUrl: jdbc:sqlite:{tmp_path}/shop.db
          maxPoolSize: 20
          minIdle: 4
          idleTimeout: 60000
          connectionTimeout: 2000
"""
    )
    allowed = allowed_of(load_standalone(file))
    for named in ("datasource='SHOP_DB'", "jndi.resource='jdbc/ShopDB'", "datasource='jdbc/ShopDB'"):
        stores = DatabaseStores(allowed)
        (definition,) = parse(f"@store(type='rdbms', {named}) define table T (k string);").definitions
        assert stores.table(definition, lambda: 0) is not None  # type: ignore[arg-type]
        (database,) = stores._databases.values()
        pool = database._engine.pool
        assert isinstance(pool, QueuePool)
        assert (str(database._engine.url), pool.size(), pool._max_overflow) == (f"sqlite:///{tmp_path}/shop.db", 4, 16)
        assert (pool._recycle, pool.timeout()) == (60.0, 2.0)
        stores.close()
