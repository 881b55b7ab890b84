"""A check-up of a machine as a node: what it has, what it misses, and what to do about it; it changes nothing there.

Each check is a function of the settings that returns findings, and none keeps another from being made.
"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import psutil
from packaging.requirements import Requirement

from spdist.clock import Clock, SystemClock
from spdist.cluster.coordination.database import Transactions
from spdist.cluster.security.authority import issued_in
from spdist.cluster.workers.memory import container_limit
from spdist.config import Config
from spdist.config.kinds import bytes_of
from spdist.display import bytes_text, duration_text
from spdist.engine.shards.places import check_fence, place_of
from spdist.errors import SpdistError
from spdist.services.java import OLDEST_JAVA, find_java, java_version
from spdist.transports.opening import open_transport, transport_settings
from spdist.transports.sockets.tls import certificate_of, server_context

__all__ = ["Finding", "FindingLevel", "check_machine", "check_node"]

#: How long a server may take to answer, ms.
_PATIENCE_MS = 5_000
#: A certificate that expires sooner is worth a warning, days.
_OLD_DAYS = 30
#: Space on a disk below which state and topics soon have none, bytes.
_LITTLE_SPACE = 2 << 30
#: What a worker needs besides its JVM, at least, bytes.
_PYTHON_BYTES = 1 << 30
#: Clocks that differ by more make records of logs and times of events hard to compare, ms.
_CLOCK_DOUBT_MS = 2_000
#: What URLs of SQLite's files begin with.
_SQLITE = "sqlite:///"
#: A topic that nobody has.
_NO_TOPIC = "spdist.doctor"


class FindingLevel(StrEnum):
    """What a finding means for the node."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found.

    Parameters
    ----------
    what : str
        What was looked at.
    level : FindingLevel
        `FAILED`: the node does not start, or will not work; `WARNING`: it will, but somebody should look.
    found : str
        What is there.
    hint : str
        What to do; empty where nothing is to be done.
    """

    what: str
    level: FindingLevel
    found: str
    hint: str = ""


def check_machine() -> list[Finding]:
    """Return what holds of this machine without any settings: Python's packages, the compiler of queries, and Java."""
    return list(_guarded([("packages", _packages), ("compiler", _compiler), ("java", _java)]))


def check_node(config: Config, clock: Clock | None = None) -> list[Finding]:
    """Return what holds of this machine as the node that `config` describes.

    Parameters
    ----------
    config : Config
        Of a manager, if it names a database for the election; else of a worker or server.
    clock : Clock, optional
        This machine's.

    Notes
    -----
    Servers are asked one after another, each for 5 s at most. Files that are written on the way are removed.
    """
    ours = clock or SystemClock()
    checks: list[tuple[str, Callable[[], Iterable[Finding]]]] = [
        ("listener", lambda: _listener(config)),
        ("certificate", lambda: _certificate(config, datetime.now(UTC))),
        ("topics", lambda: _topics(config)),
    ]
    if config.auth.type == "external":
        checks.append(("identity provider", lambda: _provider(config)))
    if config.cluster.datasource:
        checks.append(("database", lambda: _database(config, ours)))
    if config.is_server or not config.cluster.datasource:
        checks += [
            ("memory", lambda: _memory(config)),
            ("state", lambda: _state(config)),
        ]
    if not config.is_server and not config.cluster.datasource:
        checks.append(("managers", lambda: _managers(config)))
    return list(_guarded(checks))


def _guarded(checks: Iterable[tuple[str, Callable[[], Iterable[Finding]]]]) -> Iterator[Finding]:
    """Yield what the checks find; an error that explains itself is a finding."""
    for what, check in checks:
        try:
            yield from check()
        except SpdistError as error:
            yield Finding(what, FindingLevel.FAILED, error.message, error.hint or "")


# -------------------------------------------------------------------------------------------------------------- machine
def _packages() -> Iterator[Finding]:
    """Compare what is installed with what this version asks for."""
    wrong = []
    for line in requires("spdist") or ():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            there = version(wanted.name)
        except PackageNotFoundError:
            wrong.append(f"{wanted.name} is missing")
            continue
        if not wanted.specifier.contains(there, prereleases=True):
            wrong.append(f"{wanted.name} is {there}, not {wanted.specifier}")
    if wrong:
        yield Finding(
            "packages", FindingLevel.FAILED, "; ".join(wrong), "install spdist anew: pip install --upgrade spdist"
        )
    else:
        yield Finding("packages", FindingLevel.OK, f"spdist {version('spdist')} with pyspark {version('pyspark')}")


def _compiler() -> Iterator[Finding]:
    """See whether numba is there, which is an extra: a node works without it."""
    install = "pip install 'spdist[compiled]'"
    for line in requires("spdist") or ():
        wanted = Requirement(line)
        if wanted.name != "numba" or wanted.marker is None or not wanted.marker.evaluate({"extra": "compiled"}):
            continue
        try:
            there = version(wanted.name)
        except PackageNotFoundError:
            yield Finding("compiler", FindingLevel.OK, "numba is not installed: queries are interpreted", install)
            continue
        if wanted.specifier.contains(there, prereleases=True):
            yield Finding("compiler", FindingLevel.OK, f"numba {there}")
        else:
            yield Finding("compiler", FindingLevel.WARNING, f"numba is {there}, not {wanted.specifier}", install)


def _java() -> Iterator[Finding]:
    java = find_java("Spark")
    yield Finding("java", FindingLevel.OK, f"Java {java_version(java)} at {java} (needed: {OLDEST_JAVA} or newer)")


# ----------------------------------------------------------------------------------------------------------------- node
def _listener(config: Config) -> Iterator[Finding]:
    """See whether the port is free: a node takes it before it does anything else."""
    host, port = config.listener.host, config.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as taken:
        # As the listener of a node has it: what lingers of closed connections takes no port
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind((host.strip("[]"), port))
        except OSError as error:
            hint = "if a node runs here already, this is as it should be; else choose another port"
            yield Finding("listener", FindingLevel.WARNING, f"{host}:{port} cannot be taken: {error.strerror}", hint)
            return
    yield Finding("listener", FindingLevel.OK, f"{config.listener.scheme}://{host}:{port} is free")


def _certificate(config: Config, now: datetime) -> Iterator[Finding]:
    own = certificate_of(config.listener)
    if own is None:
        if config.listener.scheme == "https":
            yield Finding("certificate", FindingLevel.OK, f"of the key store {config.listener.key_store_file}")
        return
    server_context(own, config.http.trust_file)
    for one in issued_in(own.file.parent):
        if one.file.name != own.file.name:
            continue
        days = one.days_left(now)
        level = FindingLevel.FAILED if days < 0 else FindingLevel.WARNING if days < _OLD_DAYS else FindingLevel.OK
        told = f"{one.file} of {', '.join(one.hosts) or one.subject} is valid for {days} days"
        hint = "" if level is FindingLevel.OK else "python -m spdist tls renew"
        yield Finding("certificate", level, told if days >= 0 else f"{one.file} has expired", hint)


def _provider(config: Config) -> Iterator[Finding]:
    """See whether the identity provider answers as itself, has keys that check signatures, and lets users be found."""
    from spdist.cluster.security.identity import access_of
    from spdist.cluster.security.provider import Provider, ProviderAway

    with closing(Provider(access_of(config.auth))) as provider:
        try:
            keys, asked = len(provider.keys().keys), provider.endpoints().introspection
            if config.auth.scim_url:
                provider.user(config.auth.client_id)  # whether it is one: that it can be asked is what counts
        except ProviderAway as away:
            hint = "until it answers, only users of this node's settings are let in"
            yield Finding("identity provider", FindingLevel.WARNING, str(away), hint)
            return
    told = f"{config.auth.issued_by} has {keys} key{'s' * (keys != 1)}"
    if config.auth.scim_url:
        told += f", and {config.auth.scim_url} lists users"
    if not asked and config.auth.introspection == "always":
        hint = "set auth.configs.properties.introspection: opaque, or introspectionUrl"
        yield Finding("identity provider", FindingLevel.FAILED, f"{told}, and cannot be asked about tokens", hint)
    else:
        yield Finding("identity provider", FindingLevel.OK, told)


def _topics(config: Config) -> Iterator[Finding]:
    settings = transport_settings(config.transports).with_patience(_PATIENCE_MS)
    if settings.kind == "log":
        yield from _directory("topics", Path(settings.directory))
        return
    transport = open_transport(settings)
    try:
        transport.partitions(_NO_TOPIC)
    finally:
        transport.close()
    yield Finding("topics", FindingLevel.OK, f"{settings.kind} answers")


def _database(config: Config, clock: Clock) -> Iterator[Finding]:
    source = config.datasources[config.cluster.datasource]
    file = Path(source.url.removeprefix(_SQLITE))
    if source.url.startswith(_SQLITE) and not file.exists():  # to look would make it
        yield from _directory("database", file)
        return
    password = source.password.reveal() if source.password else ""
    database = Transactions(source.url, source.username, password, _PATIENCE_MS, source.pool)
    try:
        missing = database.upgrade_statements()
        theirs = database.now_ms()
    finally:
        database.close()
    told = "its tables are made at the first start" if missing else "its tables are those of this version"
    yield Finding("database", FindingLevel.OK, f"{source.name} answers; {told}")
    apart = abs(theirs - clock.now_ms())
    if apart > _CLOCK_DOUBT_MS:
        hint = "who leads is decided by the database's clock alone; let this machine follow a time server nevertheless"
        yield Finding("clock", FindingLevel.WARNING, f"{duration_text(apart)} from the database's", hint)
    else:
        yield Finding("clock", FindingLevel.OK, f"{apart} ms from the database's")


def _memory(config: Config) -> Iterator[Finding]:
    machine, container = psutil.virtual_memory().total, container_limit()
    whole = machine if container is None else min(machine, container)
    java = bytes_of(config.spark.driver_memory)
    told = f"{bytes_text(whole)}, of which Spark's JVM may have {config.spark.driver_memory}"
    if whole < java + _PYTHON_BYTES:
        hint = f"a worker needs {bytes_text(_PYTHON_BYTES)} besides its JVM: give it more, or lower spark.driverMemory"
        yield Finding("memory", FindingLevel.FAILED, told, hint)
    else:
        yield Finding("memory", FindingLevel.OK, told)


def _directory(what: str, directory: Path) -> Iterator[Finding]:
    """See whether files can be made there, and for how long still."""
    there = next(one for one in (directory, *directory.parents) if one.is_dir())
    check_fence(there)
    free = shutil.disk_usage(there).free
    told = f"{directory} can be used, {bytes_text(free)} are free"
    if free < _LITTLE_SPACE:
        yield Finding(what, FindingLevel.WARNING, told, "make room, or name another directory")
    else:
        yield Finding(what, FindingLevel.OK, told)


def _state(config: Config) -> Iterator[Finding]:
    place = place_of(config.state_persistence.location)
    if isinstance(place, Path):
        yield from _directory("state", place)
    else:
        check_fence(place)
        yield Finding("state", FindingLevel.OK, f"{place} can be used")


def _managers(config: Config) -> Iterator[Finding]:
    """See which managers can be connected to; one is enough to find the rest."""
    answers = {f"{one.host}:{one.port}": _connects(one.host, one.port) for one in config.deployment.resource_managers}
    reached = [name for name, why in answers.items() if not why]
    silent = [f"{name}: {why}" for name, why in answers.items() if why]
    if not reached:
        hint = "a worker goes on trying; start a manager, or see to the addresses in resourceManagers"
        yield Finding("managers", FindingLevel.WARNING, "; ".join(silent) or "none is named", hint)
    elif silent:
        yield Finding("managers", FindingLevel.OK, f"{', '.join(reached)} can be reached; {'; '.join(silent)}")
    else:
        yield Finding("managers", FindingLevel.OK, f"{', '.join(reached)} can be reached")


def _connects(host: str, port: int) -> str:
    """Return why no connection can be made; empty where one can."""
    try:
        socket.create_connection((host.strip("[]"), port), _PATIENCE_MS / 1000).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
