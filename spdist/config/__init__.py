"""Settings of a node: ``deployment.yaml`` with WSO2's key names, read once into frozen dataclasses.

Each value is that of the environment variable ``SPDIST__<SECTION>__<FIELD>`` if it is set, else that of the file, else
the default. Relative paths and relative names of SQLite files start from the directory that holds the file. Passwords
are given as ``${env:NAME}`` or ``${file:path}``; text only where ``spdist.plainPasswords`` allows it. ``conf/`` shows
every key. Files of WSO2 SP 4.1 to 4.4 are understood as they are (`spdist.config.wso2`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from spdist.config.binding import ExplainedSetting
from spdist.config.datasources import Datasource, by_name
from spdist.config.external import check_external
from spdist.config.kinds import HA, SERVERS, Secret
from spdist.config.sections import (
    SECTIONS,
    Accepted,
    Artifacts,
    Auth,
    Carbon,
    Cluster,
    DeploymentSettings,
    Files,
    Http,
    Interface,
    Limits,
    ListenerSettings,
    Logging,
    ResourceManager,
    ScriptSettings,
    Secrets,
    SiddhiProperties,
    Spark,
    StatePersistence,
    Transports,
)
from spdist.config.sorting import FileSections, settings_file
from spdist.config.users import BUILT_IN_ROLES, User
from spdist.config.wso2 import EVERYWHERE, SHIPPED_ID
from spdist.errors import ConfigError

__all__ = [
    "LOOPBACK",
    "Config",
    "Datasource",
    "ExplainedSetting",
    "ListenerSettings",
    "Secret",
    "known_roles",
    "load_config",
    "with_role_names",
]

#: What to do where users or credentials are missing.
_LOGIN = (
    "a password is made only where all nodes are on 127.0.0.1 and none of their files names a user or credentials; "
    "else name users under auth.configs and their credentials in httpsInterface, with a password such as ${env:NAME}"
)
_MEET = "name a database of wso2.datasources that all servers of the group reach: there they elect the active one"
#: Hosts that only this machine reaches.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of one node; made by `load_config`.

    Parameters
    ----------
    path : Path
        The file they come from.
    carbon, http, cluster, deployment, state_persistence, auth, spark, transports, script, secrets, files, \
    properties, limits, logging, accepted, artifacts
        Its sections; see `spdist.config.sections`.
    datasources : mapping of str to Datasource
        The databases by name.
    notes : tuple of str
        One sentence for each key that was accepted and is not used, or means something else here than with WSO2.
    entries : tuple of ExplainedSetting
        Every value with its origin, in the order of the sections.
    """

    path: Path
    carbon: Carbon
    http: Http
    cluster: Cluster
    deployment: DeploymentSettings
    state_persistence: StatePersistence
    datasources: Mapping[str, Datasource]
    auth: Auth
    spark: Spark
    transports: Transports
    script: ScriptSettings = field(default_factory=ScriptSettings)
    secrets: Secrets = field(default_factory=Secrets)
    files: Files = field(default_factory=Files)
    properties: SiddhiProperties = field(default_factory=SiddhiProperties)
    limits: Limits = field(default_factory=Limits)
    logging: Logging = field(default_factory=Logging)
    accepted: Accepted = field(default_factory=Accepted)
    artifacts: Artifacts = field(default_factory=Artifacts)
    notes: tuple[str, ...] = ()
    entries: tuple[ExplainedSetting, ...] = field(default=(), repr=False)

    @property
    def listener(self) -> ListenerSettings:
        """Where this node's interface listens: the first https listener of the file, else its first."""
        secure = [one for one in self.http.listeners if one.scheme == "https"]
        return (secure or self.http.listeners)[0]

    @property
    def port(self) -> int:
        """The port that `listener` opens: its own plus ``wso2.carbon.ports.offset``; 0 lets the system choose."""
        return self.listener.port + self.carbon.ports_offset if self.listener.port else 0

    @property
    def is_server(self) -> bool:
        """Whether this node has apps of its own and no managers."""
        return self.deployment.type in SERVERS

    @property
    def is_ha(self) -> bool:
        """Whether it is one of several servers of which one is active."""
        return self.deployment.type == HA

    @property
    def shard_id(self) -> str:
        """The name of this node's shard of aggregations that several nodes keep in one database.

        Without ``shardId`` it is ``wso2.carbon.id``; where a group moves from worker to worker or an app from server to
        server, and its shard with it, ``cluster.config.groupId``: under managers, and of servers of type ``ha``.
        """
        moves = bool(self.deployment.resource_managers) or self.is_ha
        return self.properties.shard_id or (self.cluster.group_id if moves else self.carbon.id)

    @property
    def shows_token(self) -> bool:
        """Whether this node shows others a token of the identity provider, in place of name and password."""
        return self.auth.type == "external" and self.auth.node_grant == "client_credentials"

    @property
    def has_first_user(self) -> bool:
        """Whether this node's only user is the one that `Auth` speaks of: none is named, and all is on this machine."""
        nodes: list[Interface | ResourceManager] = [self.deployment.https_interface, *self.deployment.resource_managers]
        named = self.auth.users or self.auth.users_file or any(one.username or one.password for one in nodes)
        return (
            not named
            and not self.shows_token
            and LOOPBACK.issuperset([self.listener.host, *(one.host for one in nodes)])
        )

    def explain(self) -> str:
        """Return every setting as a line ``key  value  origin``; passwords are not shown."""
        width = max((len(entry.key) for entry in self.entries), default=0)
        shown = max((min(len(entry.value), 60) for entry in self.entries), default=0)
        lines = [f"{entry.key:<{width}}  {entry.value:<{shown}}  {entry.origin}" for entry in self.entries]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def load_config(
    path: str | os.PathLike[str],
    *,
    role: Literal["manager", "worker", "server"] | None = None,
    environment: Mapping[str, str] | None = None,
    explaining: bool = False,
) -> Config:
    """Read and check the settings of a node.

    Parameters
    ----------
    path : str or path
        A ``deployment.yaml``, or a directory that holds one.
    role : {"manager", "worker", "server"}, optional
        Checks that what this role cannot do without is there.
    environment : mapping of str to str, optional
        Variables for references and overrides (default: those of this process).
    explaining : bool
        Whether the settings are only shown: a password that is missing, or stands in the file as text, becomes a note.

    Raises
    ------
    ConfigError
        Names the file and line, the key, the value, and what would be right.
    """
    file = settings_file(path)
    given = FileSections(file, os.environ if environment is None else environment)
    given.binder.explaining = explaining
    if role == "server":
        given.make_server()
    given.add_own_user()
    parts = given.bind(SECTIONS)
    # After all sections: each takes out the overrides that are its own.
    given.binder.finish()
    datasources = by_name(parts.pop("datasource_list").items, file)
    for item in datasources.values():
        if item.url.startswith("sqlite:") and (item.username or item.password):
            raise ConfigError(
                f"{file}: wso2.datasources gives {item.name!r} a user name or a password, but SQLite knows no users",
                hint="leave them out, or name a database that has users (PostgreSQL, MySQL, MariaDB)",
            )
    parts["auth"] = with_role_names(parts["auth"], file)
    if not parts["files"].directories:
        parts["files"] = Files((parts["state_persistence"].directory / "files",))
    # The listing says what holds; the binder has seen that the file says nothing.
    shown = {"siddhi.files.directories": ", ".join(map(str, parts["files"].directories))}
    config = Config(
        path=file,
        datasources=datasources,
        notes=tuple(given.notes),
        entries=tuple(replace(entry, value=shown.get(entry.key, entry.value)) for entry in given.binder.entries),
        **parts,
    )
    _check(config, role)
    more = [*_unused_listeners(config), *_unheard(config)]
    if config.is_ha:
        more += _of_group(config)
    if role == "worker" and not given.chooses_transports:
        more.append(_no_transports(file))
    return replace(config, notes=(*config.notes, *more))


def _check(config: Config, role: str | None) -> None:
    """Check what no single key can know: names that must exist, passwords in clear, and what `role` needs."""
    if not config.http.listeners:
        raise ConfigError(f"{config.path}: wso2.transport.http.listenerConfigurations names no listener; give one")
    _check_scheme(config)
    if config.auth.type == "external":
        check_external(config.auth, config.path)
    elif config.auth.node_grant != "password":
        raise ConfigError(f"{config.path}: auth.configs.properties.nodeGrant needs auth.configs.type: external")
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
    _check_type(config, role)
    own = config.deployment.https_interface
    for key, credential in (("username", own.username), ("password", own.password)):
        _need(
            config,
            bool(credential) or config.has_first_user or config.shows_token or config.is_server,
            f"deployment.config.httpsInterface.{key}",
            "a node",
            _LOGIN,
        )
    if role in ("manager", "server"):
        named = config.auth.users or config.auth.users_file or config.has_first_user
        # Where nodes show no passwords, no users are needed for them.
        named = named or (config.auth.type == "external" and (role == "server" or config.shows_token))
        _need(config, bool(named), "auth.configs.userManager.userStore.users", f"a {role}", _LOGIN)
    if role == "manager":
        _need(config, bool(config.cluster.datasource), "cluster.config.strategyConfig.datasource", "a manager")
        _need(config, bool(config.deployment.datasource), "deployment.config.datasource", "a manager")
    if role == "worker":
        _need(config, bool(config.deployment.resource_managers), "deployment.config.resourceManagers", "a worker")


def _need(config: Config, given: bool, key: str, who: str, hint: str | None = None) -> None:
    if not given:
        raise ConfigError(f"{config.path}: {key} is missing, and {who} cannot do without it", hint=hint)


def _check_type(config: Config, role: str | None) -> None:
    """Check that a node of `role` is started with the settings of one."""
    server = config.is_server
    if role is not None and server != (role == "server"):
        hint = "start it with `spdist server`" if server else "start it with `spdist manager` or `spdist worker`"
        raise ConfigError(
            f"{config.path}: deployment.config.type {config.deployment.type} is not for a {role}", hint=hint
        )
    if config.is_ha:
        who = "a server of type ha"
        _need(config, bool(config.cluster.datasource), "cluster.config.strategyConfig.datasource", who, _MEET)
        if config.carbon.id == SHIPPED_ID:
            raise ConfigError(
                f"{config.path}: wso2.carbon.id is {SHIPPED_ID}, as WSO2 ships it to all nodes",
                hint="give each server of the group an id of its own",
            )


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
        if scheme == "http" and host not in LOOPBACK and not config.http.plain_http_allowed:
            raise ConfigError(
                f"{config.path}: {key} has scheme http on {host!r}: passwords would cross the network in clear",
                hint="use scheme https, or set wso2.transport.http.plainHttpAllowed: true where the network is trusted",
            )
    if listener.key_store_file and (listener.certificate_file or listener.key_file):
        raise ConfigError(
            f"{config.path}: the listener {listener.id!r} has keyStoreFile and PEM files; keep one of the two",
            hint="keyStoreFile needs neither certificateFile nor keyFile",
        )
    pem = listener.certificate_file is not None and listener.key_file is not None
    if listener.scheme == "https" and not (listener.key_store_file or pem):
        raise ConfigError(
            f"{config.path}: the https listener {listener.id!r} needs certificateFile and keyFile (PEM files)",
            hint="or keyStoreFile, a key store of Java; on one machine, scheme http with host 127.0.0.1 needs neither",
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


def _no_transports(file: Path) -> str:
    """Return what is said to a worker of WSO2, which was told by its manager: every app named Kafka's servers."""
    return (
        f"{file}: without the section transports, files on this machine carry events between groups; where a manager "
        "has bootstrapURLs or natsServerUrl, its workers need the same, for example SPDIST__TRANSPORTS__DEFAULT=kafka "
        "and SPDIST__TRANSPORTS__KAFKA__BOOTSTRAP_SERVERS=host:port in the environment"
    )


def _of_group(config: Config) -> list[str]:
    """Return what is said to servers of which one takes over from another: what both must see."""
    notes = []
    if config.transports.default == "log":
        notes.append(
            f"{config.path}: transports.default is log: all servers of group {config.cluster.group_id} must be on this "
            f"machine, and share {config.transports.log.directory}; on several, Kafka or NATS carries events"
        )
    told = config.deployment.https_interface.host
    if told in EVERYWHERE:
        notes.append(
            f"{config.path}: clients of the passive server are sent to the active one, and this one says it is at "
            f"{told}: give deployment.config.httpsInterface.host an address at which they reach it"
        )
    return notes


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
    users: dict[str, User] = {}
    for user in auth.users:
        if user.username in users:
            raise ConfigError(f"{file}: auth.configs has the user {user.username!r} twice")
        users[user.username] = replace(user, roles=known_roles(auth, user.username, user.roles, file))
    mapped = [
        replace(one, role=known_roles(auth, one.group or one.scope, (one.role,), file)[0]) for one in auth.role_mapping
    ]
    return replace(auth, users=tuple(users.values()), role_mapping=tuple(mapped))


def known_roles(auth: Auth, username: str, roles: Iterable[str], file: Path) -> tuple[str, ...]:
    """Return `roles` of a user, ids or display names, as display names; ConfigError where one is not defined."""
    names = {role.id: role.display_name for role in auth.role_list}
    defined = {auth.admin_role, *BUILT_IN_ROLES, *names.values()}
    found = tuple(names.get(role, role) for role in roles)
    for role in found:
        if role not in defined:
            raise ConfigError(
                f"{file}: auth.configs gives {username!r} the role {role!r}, but does not define it",
                hint=f"roles: {', '.join(sorted({*defined, *names}))}",
            )
    return found
