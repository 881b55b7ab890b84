"""What all tests share: waiting for something that happens elsewhere, without sleeping for a fixed time."""

from __future__ import annotations

import gc
import logging
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from spdist.engine.programs import programmed
from spdist.services.kafka import KafkaBroker
from spdist.services.nats import NatsServer
from tests.cluster.databases import SERVERS
from tests.object_store import S3Server
from tests.runtime.shared_spark import SHARED_SPARK

T = TypeVar("T")

#: So many times longer than a machine with nothing else to do, a busy one may take.
_BUSY = 5

# Machines of continuous integration stall; how long one example takes says nothing about the code. And there the answer
# must be that of the change: the same examples each time, while everybody else draws new ones.
settings.register_profile("spdist", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("spdist")


class _ByDirectory(LoadScopeScheduling):  # type: ignore[misc]
    """Keeps the tests of one directory in one process, as they share servers and Spark; notebooks share nothing."""

    def _split_scope(self, nodeid: str) -> str:
        where = nodeid.partition("::")[0].split("/")
        return "/".join(where[:2])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Spread the tests over processes, where there are several (``-n``)."""
    return _ByDirectory(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Let the kernels of nbmake listen on Unix sockets: where many processes connect, free ports do not stay free."""
    if not config.pluginmanager.hasplugin("nbmake"):
        return  # nor is Jupyter imported then, which takes seconds
    from nbclient import NotebookClient

    from spdist.headless.engine import use_sockets

    made = NotebookClient.create_kernel_manager

    def create_kernel_manager(client: NotebookClient) -> Any:
        manager = made(client)
        directory = tempfile.TemporaryDirectory(prefix="spdist-kernel-")
        weakref.finalize(manager, directory.cleanup)
        use_sockets(manager, directory.name)
        return manager

    NotebookClient.create_kernel_manager = create_kernel_manager  # type: ignore[method-assign]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests with a Spark session of their own come last in their directory, so that others share one till then."""
    directories = {path: n for n, path in enumerate(dict.fromkeys(item.path.parent for item in items))}
    items.sort(key=lambda item: (directories[item.path.parent], "own_spark" in getattr(item, "fixturenames", ())))


def pytest_collection_finish() -> None:
    """Let garbage collections pass over the tests themselves: a million objects, which stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the Spark session that tests of a directory share after the last of them: others start their own."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        SHARED_SPARK.stop()


@pytest.fixture
def own_spark() -> None:
    """A test that starts a Spark session of its own: a process has one at a time."""
    SHARED_SPARK.stop()


@pytest.fixture
def eventually() -> Callable[..., object]:
    """``eventually(look, what, timeout_s=20)``: call `look` until it returns something true, and return that.

    The time is what a machine may take that has nothing else to do; a busy one has five times as long. Where `what` is
    a function, it is asked when the time is over: so it can say how things are.
    """

    def wait(look: Callable[[], T], what: str | Callable[[], str], timeout_s: float = 20.0) -> T:
        pace = threading.Event()
        began = time.monotonic()
        while not (found := look()):
            if (waited := time.monotonic() - began) > _BUSY * timeout_s:
                said = what() if callable(what) else what
                pytest.fail(f"after {_BUSY * timeout_s:g} s still not: {said}")
            # To look is to ask a JVM, or to read files: what lasts is looked at less often.
            pace.wait(min(0.02 + waited / 20, 0.1))
        return found

    return wait


@pytest.fixture(autouse=True)
def unwritten_programs() -> Iterator[list[str]]:
    """What was logged of programs that could not be written, which is a defect: operators run the app then, and no
    result would differ. A test that wants one clears the list.
    """
    found: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.addFilter(lambda record: programmed.UNWRITTEN in record.getMessage())
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(programmed.__name__)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)  # also where the engine is silent otherwise
    yield found
    logger.removeHandler(handler)
    assert not found


@pytest.fixture(scope="session", autouse=True)
def database_servers() -> Iterator[None]:
    """Stops the database servers that tests have started."""
    yield
    SERVERS.stop()


@pytest.fixture(autouse=True)
def dropped_databases(database_servers: None) -> Iterator[None]:
    """Drops the databases that a test has made."""
    with SERVERS.dropping():
        yield


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A real Kafka broker for the whole run; use topics of your own."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A real NATS server with JetStream for the whole run; use topics of your own."""
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """An object store with S3's interface for the whole run; returns the URL of its bucket, use prefixes of your own.

    Where it is, and who may use it, stands in the environment, as processes that tests start need it, too.
    """
    with S3Server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server.url


@pytest.fixture(scope="session", params=["log", "kafka", "nats"])
def wire(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Each transport in turn, and the address of its real server where it has one."""
    kind = str(request.param)
    if kind == "log":
        return kind, ""
    return kind, request.getfixturevalue("kafka_broker" if kind == "kafka" else "nats_server").url
