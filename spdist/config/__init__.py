"""Settings of a node: ``deployment.yaml`` with WSO2's key names, read once into frozen dataclasses.

Each value is that of the environment variable ``SPDIST__<SECTION>__<FIELD>`` if it is set, else that of the file, else
the default. Relative paths and relative names of SQLite files start from the directory that holds the file. Passwords
are given as ``${env:NAME}`` or ``${file:path}``, never as text. ``conf/`` shows every key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from spdist.config.binding import Binder, Entry
from spdist.config.ignored import IGNORED
from spdist.config.kinds import Secret
from spdist.config.sections import (
    BUILT_IN_ROLES,
    SECTIONS,
    Auth,
    Carbon,
    Cluster,
    Datasource,
    Deployment,
    Files,
    Http,
    Interface,
    Limits,
    Listener,
    Logging,
    ResourceManager,
    Script,
    Secrets,
    Spark,
    StatePersistence,
    Transports,
    User,
)
from spdist.config.source import Node, read
from spdist.errors import ConfigError

__all__ = ["Config", "Datasource", "Entry", "Listener", "Secret", "load_config", "with_role_names"]

#: What to do where users or credentials are missing.
_LOGIN = (
    "a password is made only where all nodes are on 127.0.0.1 and none of their files names a user or credentials; "
    "else name users under auth.configs and their credentials in httpsInterface, with a password such as ${env:NAME}"
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one node; made by `load_config`.

    Parameters
    ----------
    path : Path
        The file they come from.
    carbon, http, cluster, deployment, state_persistence, auth, spark, transports, script, secrets, files, limits
        Its sections, and so is `logging`; see `spdist.config.sections`.
    datasources : mapping of str to Datasource
        The databases by name.
    notes : tuple of str
        One sentence for each key that was accepted and is not used.
    entries : tuple of Entry
        Every value with its origin, in the order of the sections.
    """

    path: Path
    carbon: Carbon
    http: Http
    cluster: Cluster
    deployment: Deployment
    state_persistence: StatePersistence
    datasources: Mapping[str, Datasource]
    auth: Auth
    spark: Spark
    transports: Transports
    script: Script = field(default_factory=Script)
    secrets: Secrets = field(default_factory=Secrets)
    files: Files = field(default_factory=Files)
    limits: Limits = field(default_factory=Limits)
    logging: Logging = field(default_factory=Logging)
    notes: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = field(default=(), repr=False)

    @property
    def listener(self) -> Listener:
        """Where this node's interface listens: the first https listener of the file, else its first."""
        secure = [one for one in self.http.listeners if one.scheme == "https"]
        return (secure or self.http.listeners)[0]

    @property
    def port(self) -> int:
        """The port that `listener` opens: its own plus ``wso2.carbon.ports.offset``; 0 lets the system choose."""
        return self.listener.port + self.carbon.ports_offset if self.listener.port else 0

    @property
    def has_first_user(self) -> bool:
        """Whether this node's only user is the one that `Auth` speaks of: none is named, and all is on this machine."""
        nodes: list[Interface | ResourceManager] = [self.deployment.https_interface, *self.deployment.resource_managers]
        named = self.auth.users or any(one.username or one.password for one in nodes)
        return not named and _LOOPBACK.issuperset([self.listener.host, *(one.host for one in nodes)])

    def explain(self) -> str:
        """Return every setting as a line ``key  value  origin``; passwords are not shown."""
        width = max((len(entry.key) for entry in self.entries), default=0)
        shown = max((min(len(entry.value), 60) for entry in self.entries), default=0)
        lines = [f"{entry.key:<{width}}  {entry.value:<{shown}}  {entry.origin}" for entry in self.entries]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def load_config(
    path: str | os.PathLike[str],
    *,
    role: Literal["manager", "worker"] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read and check the settings of a node.

    Parameters
    ----------
    path : str or path
        A ``deployment.yaml``, or a directory that holds one.
    role : {"manager", "worker"}, optional
        Checks that what this role cannot do without is there.
    environment : mapping of str to str, optional
        Variables for references and overrides (default: those of this process).

    Raises
    ------
    ConfigError
        Names the file and line, the key, the value, and what would be right.
    """
    file = Path(os.path.expanduser(path))
    if file.is_dir():
        file /= "deployment.yaml"
    root = read(file)
    assert isinstance(root.content, dict)
    binder = Binder(file, os.environ if environment is None else environment, IGNORED)
    given = _sections(root.content, binder)
    parts: dict[str, Any] = {
        name: binder.bind(fields, given.get(key, Node({}, str(file))), key, (name,))
        for name, (key, fields) in SECTIONS.items()
    }
    binder.finish()
    datasources = {}
    for item in parts.pop("datasource_list").items:
        if item.name in datasources:
            raise ConfigError(f"{file}: wso2.datasources has the name {item.name!r} twice")
        if item.url.startswith("sqlite:") and (item.username or item.password):
            raise ConfigError(
                f"{file}: wso2.datasources gives {item.name!r} a user name or a password, but SQLite knows no users",
                hint="leave them out, or name a database that has users (PostgreSQL, MySQL, MariaDB)",
            )
        datasources[item.name] = item
    parts["auth"] = with_role_names(parts["auth"], file)
    if not parts["files"].directories:
        parts["files"] = Files((parts["state_persistence"].location / "files",))
    shown = {"siddhi.files.directories": ", ".join(map(str, parts["files"].directories))}
    config = Config(
        path=file,
        datasources=MappingProxyType(datasources),
        notes=tuple(binder.notes),
        entries=tuple(replace(entry, value=shown.get(entry.key, entry.value)) for entry in binder.entries),
        **parts,
    )
    _check(config, role)
    return replace(config, notes=(*config.notes, *_unused_listeners(config), *_unheard(config)))


def _sections(content: Mapping[str, Node], binder: Binder) -> dict[str, Node]:
    """Sort the top-level keys into sections; a key that belongs to WSO2 and is not used becomes a note.

    ``siddhi: {extensions: …}``, as WSO2 writes it, is the section ``siddhi.extensions``.
    """
    known = [key for key, _ in SECTIONS.values()]
    given: dict[str, Node] = {}
    for name, node in _unfolded(content, {*known, *IGNORED}):
        if name in given:
            raise ConfigError(f"{node.origin}: {name} was given at {given[name].origin}; keep one of the two")
        if name in known:
            given[name] = node
        elif reason := next((why for key, why in IGNORED.items() if f"{name}.".startswith(f"{key}.")), None):
            binder.notes.append(f"{node.origin}: {name} is not used: {reason}")
        else:
            binder.unknown_section(name, node, known)
    return given


def _unfolded(content: Mapping[str, Node], names: set[str]) -> Iterator[tuple[str, Node]]:
    """Yield the sections; in place of a mapping that only holds some, those."""
    for name, node in content.items():
        holds = name not in names and any(one.startswith(f"{name}.") for one in names)
        if holds and isinstance(node.content, dict):
            yield from _unfolded({f"{name}.{inner}": one for inner, one in node.content.items()}, names)
        else:
            yield name, node


def _check(config: Config, role: str | None) -> None:
    """Check what no single key can know: names that must exist, passwords in clear, and what `role` needs."""
    if not config.http.listeners:
        raise ConfigError(f"{config.path}: wso2.transport.http.listenerConfigurations names no listener; give one")
    _check_scheme(config)
    for key, name in (
        ("cluster.config.strategyConfig.datasource", config.cluster.datasource),
        ("deployment.config.datasource", config.deployment.datasource),
    ):
        if name and name not in config.datasources:
            known = ", ".join(config.datasources) or "none"
            raise ConfigError(f"{config.path}: {key} is {name!r}, but wso2.datasources has: {known}")
    kafka, nats = config.transports.kafka, config.transports.nats
    for name, keys, given in (
        ("kafka", "bootstrapServers", kafka.bootstrap_servers or kafka.zookeeper_urls),
        ("nats", "urls", nats.urls),
    ):
        if config.transports.default == name and not given:
            raise ConfigError(f"{config.path}: transports.default is {name}, but transports.{name}.{keys} is missing")
    own = config.deployment.https_interface
    for key, credential in (("username", own.username), ("password", own.password)):
        _need(
            config,
            bool(credential) or config.has_first_user,
            f"deployment.config.httpsInterface.{key}",
            "a node",
            _LOGIN,
        )
    if role == "manager":
        _need(config, bool(config.cluster.datasource), "cluster.config.strategyConfig.datasource", "a manager")
        _need(config, bool(config.deployment.datasource), "deployment.config.datasource", "a manager")
        named = config.auth.users or config.has_first_user
        _need(config, bool(named), "auth.configs.userManager.userStore.users", "a manager", _LOGIN)
    if role == "worker":
        _need(config, bool(config.deployment.resource_managers), "deployment.config.resourceManagers", "a worker")


def _need(config: Config, given: bool, key: str, who: str, hint: str | None = None) -> None:
    if not given:
        raise ConfigError(f"{config.path}: {key} is missing, and {who} cannot do without it", hint=hint)


def _check_scheme(config: Config) -> None:
    listener = config.listener
    addresses = [
        ("wso2.transport.http.listenerConfigurations", listener.scheme, listener.host),
        (
            "deployment.config.httpsInterface",
            config.deployment.https_interface.scheme,
            config.deployment.https_interface.host,
        ),
        *(("deployment.config.resourceManagers", one.scheme, one.host) for one in config.deployment.resource_managers),
    ]
    for key, scheme, host in addresses:
        if scheme == "http" and host not in _LOOPBACK and not config.http.plain_http_allowed:
            raise ConfigError(
                f"{config.path}: {key} has scheme http on {host!r}: passwords would cross the network in clear",
                hint="use scheme https, or set wso2.transport.http.plainHttpAllowed: true where the network is trusted",
            )
    if listener.scheme == "https" and (listener.certificate_file is None or listener.key_file is None):
        raise ConfigError(
            f"{config.path}: the https listener {listener.id!r} needs certificateFile and keyFile (PEM files)",
            hint="on one machine, scheme http with host 127.0.0.1 needs neither",
        )
    if listener.ssl_verify_client != "none" and (listener.scheme == "http" or config.http.trust_file is None):
        raise ConfigError(
            f"{config.path}: the listener {listener.id!r} has sslVerifyClient: {listener.ssl_verify_client}, which "
            "needs scheme https, and the authorities of those certificates in wso2.transport.http.trustFile",
            hint="python -m spdist tls init makes an authority and certificates of it",
        )


def _unused_listeners(config: Config) -> list[str]:
    return [
        f"{config.path}: the listener {one.id!r} is not opened: a node has one, {config.listener.id!r}"
        for one in config.http.listeners
        if one is not config.listener
    ]


def _unheard(config: Config) -> list[str]:
    """Return what is said where the address that others are told is not the one at which this node listens."""
    told, own = config.deployment.https_interface, config.listener
    if told.port in (0, config.port) and told.scheme == own.scheme:
        return []
    return [
        f"{config.path}: deployment.config.httpsInterface tells others {told.url}, but this node listens at "
        f"{own.scheme}://{own.host}:{config.port}: nobody answers there unless something in between does"
    ]


def with_role_names(auth: Auth, file: Path) -> Auth:
    """Return `auth` with the roles of its users as display names; WSO2's files refer to them by id."""
    names = {role.id: role.display_name for role in auth.role_list}
    defined = {auth.admin_role, *BUILT_IN_ROLES, *names.values()}
    users: dict[str, User] = {}
    for user in auth.users:
        if user.username in users:
            raise ConfigError(f"{file}: auth.configs has the user {user.username!r} twice")
        roles = tuple(names.get(role, role) for role in user.roles)
        for role in roles:
            if role not in defined:
                raise ConfigError(
                    f"{file}: auth.configs gives {user.username!r} the role {role!r}, but does not define it",
                    hint=f"roles: {', '.join(sorted({*defined, *names}))}",
                )
        users[user.username] = replace(user, roles=roles)
    return replace(auth, users=tuple(users.values()))
