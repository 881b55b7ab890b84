"""The settings of a node, section by section, with WSO2's key names; see ``conf/`` for every key with a comment.

Times are whole milliseconds. Names and meaning of keys: WSO2 Stream Processor 4.x, ``conf/<runtime>/deployment.yaml``.
Where a default differs from WSO2's, the class says why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from spdist.config.binding import by_name, listing, setting
from spdist.config.datasources import Datasources
from spdist.config.external import External
from spdist.config.users import Role, User

if TYPE_CHECKING:
    # The binder finds them in the annotations, which are text until then: `spdist.config.binding.field_keys`.
    from pydantic import Field

    from spdist.config.types import (
        ClientProperties,
        Host,
        Location,
        Maven,
        Memory,
        MemoryBytes,
        PersistenceStore,
        Place,
        Port,
        SecretText,
        Text,
        Word,
        duration,
    )

__all__ = [
    "SECTIONS",
    "Accepted",
    "Artifacts",
    "Auth",
    "Carbon",
    "Cluster",
    "DeploymentSettings",
    "Files",
    "Http",
    "Interface",
    "Kafka",
    "Limits",
    "ListenerSettings",
    "Log",
    "Logging",
    "Nats",
    "ResourceManager",
    "ScriptSettings",
    "Secrets",
    "SiddhiProperties",
    "Spark",
    "StatePersistence",
    "Transports",
]

_URL = re.compile(r"(?:(https?)://)?(\[[^\]]+\]|[^:/\[\]\s]+):(\d+)/?")


@dataclass(frozen=True, slots=True)
class Accepted:
    """``spdist`` (ours): what a file may hold that would else be refused.

    With `plain_passwords` passwords may stand in it as text, those of ``auth.configs`` in base64, as WSO2 has them. It
    is for files of WSO2 as they are; whoever reads such a file, or a copy of it, knows the passwords.
    """

    plain_passwords: bool = setting("plainPasswords", False)


@dataclass(frozen=True, slots=True)
class Carbon:
    """``wso2.carbon``: who this node is.

    `id` has no default: WSO2's is the same on every node, and two nodes with one id break the cluster.
    """

    id: Word = setting("id")
    name: Text = setting("name", "spdist")
    ports_offset: Annotated[int, Field(ge=0, le=60000)] = setting("ports.offset", 0)


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """One of ``wso2.transport.http.listenerConfigurations``: where this node's interface listens.

    Certificate and key are PEM files, or in a key store of Java (`spdist.config.key_stores`). This node shows them
    where another one asks, too, as this one does of whoever connects by `ssl_verify_client`. The limits hold for the
    HTTP sources of apps on the node, too; `spdist.transports.sockets.connections.ConnectionLimits` explains them. WSO2
    waits for two minutes where `idle_timeout_ms` is 30 s.
    """

    host: Host = setting("host")
    port: Port = setting("port")
    id: Text = setting("id", "default")
    scheme: Literal["https", "http"] = setting("scheme", "http")
    certificate_file: Place | None = setting("certificateFile", None)
    key_file: Place | None = setting("keyFile", None)
    key_password: SecretText | None = setting("keyPassword", None)
    key_store_file: Place | None = setting("keyStoreFile", None)
    key_store_password: SecretText | None = setting("keyStorePassword", None)
    cert_pass: SecretText | None = setting("certPass", None)
    ssl_verify_client: Literal["none", "optional", "require"] = setting("sslVerifyClient", "none")
    header_timeout_ms: Annotated[int, duration(100)] = setting("headerTimeout", 10_000)
    idle_timeout_ms: Annotated[int, duration(100)] = setting("socketIdleTimeout", 30_000)
    max_header_bytes: Annotated[int, Field(ge=1024, le=1 << 20)] = setting("maxHeaderSize", 32 << 10)
    max_headers: Annotated[int, Field(ge=10, le=10_000)] = setting("maxHeaders", 100)
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = setting("maxConnections", 1024)
    max_connections_per_address: Annotated[int, Field(ge=1, le=1_000_000)] = setting("maxConnectionsPerAddress", 512)


@dataclass(frozen=True, slots=True)
class Http:
    """``wso2.transport.http``: this node's listeners, and whom it trusts when it calls other nodes.

    Without TLS (``scheme: http``) passwords travel in clear, so it is refused unless the host is this machine's own
    loopback or `plain_http_allowed` is set (a trusted network, or TLS ended by something in front).
    """

    listeners: tuple[ListenerSettings, ...] = listing("listenerConfigurations")
    trust_file: Place | None = setting("trustFile", None)
    plain_http_allowed: bool = setting("plainHttpAllowed", False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """``cluster.config``: a group of managers, or of servers of type ``ha``, which elects its leader in a database.

    A leader is replaced when its last heartbeat is older than `heartbeat_interval_ms` × `heartbeat_max_retry`. Of the
    journal (ours) the newest `journal_rows` entries are kept, and none that is older than `journal_days`.
    """

    group_id: Word = setting("groupId", "sp")
    datasource: Text = setting("strategyConfig.datasource", "")
    heartbeat_interval_ms: Annotated[int, duration(50)] = setting("strategyConfig.heartbeatInterval", 1000)
    heartbeat_max_retry: Annotated[int, Field(ge=1, le=1000)] = setting("strategyConfig.heartbeatMaxRetry", 2)
    event_polling_interval_ms: Annotated[int, duration(50)] = setting("strategyConfig.eventPollingInterval", 1000)
    journal_rows: Annotated[int, Field(ge=100, le=100_000_000)] = setting("journal.rows", 100_000)
    journal_days: Annotated[int, Field(ge=1, le=36_500)] = setting("journal.days", 90)


@dataclass(frozen=True, slots=True)
class Interface:
    """``deployment.config.httpsInterface``: where other nodes reach this one, and the credentials it shows them.

    Where no credentials are named they are those of the first user: see `Auth`.
    """

    host: Host = setting("host")
    port: Port = setting("port")
    username: Text = setting("username", "")
    password: SecretText | None = setting("password", None)
    scheme: Literal["https", "http"] = setting("scheme", "https")

    @property
    def url(self) -> str:
        """The base URL, without a slash at the end."""
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ResourceManager:
    """One of ``deployment.config.resourceManagers``: a manager that this worker reports to.

    Without credentials of its own, those of this node's `Interface` are shown to the manager.
    """

    host: Host = setting("host")
    port: Annotated[int, Field(ge=1, le=65535)] = setting("port")
    username: Text = setting("username", "")
    password: SecretText | None = setting("password", None)
    scheme: Literal["https", "http"] = setting("scheme", "https")

    @property
    def url(self) -> str:
        """The base URL, without a slash at the end."""
        return f"{self.scheme}://{self.host}:{self.port}"


def _short_managers(written: str) -> list[dict[str, str]]:
    """Read ``host:port, http://host:port`` as the list of managers."""
    managers = []
    for part in written.split(","):
        match = _URL.fullmatch(part.strip())
        if match is None:
            raise ValueError("a list of managers, or host:port of each with commas between them")
        scheme, host, port = match.groups()
        managers.append({"host": host, "port": port, "scheme": scheme or "https"})
    return managers


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """``deployment.config``: how managers and workers find each other and notice that one is gone.

    A worker is given up when it has been silent for longer than `heartbeat_interval_ms` × `heartbeat_max_retry` (with
    the margin that keeps it from running twice); the leader's values hold for every worker. With `probe_silent_workers`
    it is given up as soon as its connection has ended and its address refuses new ones: its process is gone.
    `datasource` is a manager's, `resource_managers`, `leader_retry_interval_ms` and `is_receiver_node` are a worker's.

    `leader_retry_interval_ms` holds while a worker runs nothing; a worker whose groups run looks for a lost leader
    every 250 ms, so WSO2's 10 s does no harm. It is 500 ms here: groups that were stopped begin again that much sooner.

    `type` is ``default`` or ``ha``, WSO2's words, on a server, which has apps of its own: nothing else of this section
    is used there. Of servers of type ``ha`` with one `Cluster.group_id` one runs the apps, and another takes over.
    """

    https_interface: Interface = setting("httpsInterface", also=("httpInterface",))
    type: Literal["distributed", "default", "ha"] = setting("type", "distributed")
    heartbeat_interval_ms: Annotated[int, duration(50)] = setting("heartbeatInterval", 2000)
    heartbeat_max_retry: Annotated[int, Field(ge=1, le=1000)] = setting("heartbeatMaxRetry", 2)
    probe_silent_workers: bool = setting("probeSilentWorkers", True)
    min_resource_count: Annotated[int, Field(ge=1, le=10_000)] = setting("minResourceCount", 1)
    allocation_algorithm: Text = setting("allocationAlgorithm", "roundRobin")
    datasource: Text = setting("datasource", "")
    is_receiver_node: bool = setting("isReceiverNode", False)
    leader_retry_interval_ms: Annotated[int, duration(50)] = setting("leaderRetryInterval", 500)
    resource_managers: tuple[ResourceManager, ...] = listing("resourceManagers", short=_short_managers)


@dataclass(frozen=True, slots=True)
class Artifacts:
    """``wso2.artifact.deployment``: the apps of a server, each a file ``<name>.siddhi`` of `directory` (ours).

    The directory is looked at every `update_interval_s`. WSO2's is always ``deployment/siddhi-files`` of its home.
    """

    update_interval_s: Annotated[int, Field(ge=1, le=86_400)] = setting("updateInterval", 5)
    directory: Place = setting("directory", Path("siddhi-files"))


@dataclass(frozen=True, slots=True)
class StatePersistence:
    """``state.persistence``: where the state of every group is kept, and its revisions.

    State is always written: it is what makes results exact after a failure. `location` must be seen by all workers: a
    directory, or a bucket of an object store (``s3://bucket/prefix``); then what a node keeps for itself is in `local`.
    Revisions are the named snapshots that an operator takes and can go back to; `enabled` says whether one is taken
    every `interval_min` minutes as well. They are kept in the directory, or in table `table` of `datasource`.
    """

    location: Location = setting("config.location", Path("siddhi-app-persistence"))
    local: Place = setting("config.localDirectory", Path("siddhi-app-persistence"))
    revisions_to_keep: Annotated[int, Field(ge=1, le=10_000)] = setting("revisionsToKeep", 2)
    enabled: bool = setting("enabled", False)
    interval_min: Annotated[int, Field(ge=1, le=100_000)] = setting("intervalInMin", 1)
    persistence_store: PersistenceStore = setting("persistenceStore", "FileSystemPersistenceStore")
    datasource: Text = setting("config.datasource", "")
    table: Text = setting("config.table", "PERSISTENCE_TABLE")

    @property
    def directory(self) -> Path:
        """Where this node keeps files of its own: next to the state, unless that is in a bucket."""
        return self.location if isinstance(self.location, Path) else self.local

    @property
    def in_database(self) -> bool:
        """Whether revisions are kept in a database."""
        return "DB" in self.persistence_store


@dataclass(frozen=True, slots=True)
class Auth(External):
    """``auth.configs``: who may call this node; with `type` ``external`` those whom a provider knows, see `External`.

    There is no built-in user: WSO2's ``admin/admin`` is known to everybody. Where neither users nor credentials are
    named, and all nodes are on the loopback, the first one that starts makes a password for ``admin`` and writes it to
    `first_password_file`; the others read it there (`spdist.cluster.security.first_password`).

    Users may stand in `users_file` as well, which ``spdist user`` writes and nodes read again when it has changed.

    A session (``POST /login/{app}``) ends `session_timeout_s` s after its login or renewal, and can be renewed for
    `refresh_timeout_s` s.
    """

    type: Literal["local", "external"] = setting("type", "local")
    admin_role: Text = setting("userManager.adminRole", "admin")
    first_password_file: Place = setting("userManager.firstPasswordFile", Path("first-password"))
    users_file: Place | None = setting("userManager.usersFile", None)
    users: tuple[User, ...] = listing("userManager.userStore.users", wrapper="user")
    role_list: tuple[Role, ...] = listing("userManager.userStore.roles", wrapper="role")
    session_timeout_s: Annotated[int, Field(ge=1, le=31_536_000)] = setting("properties.sessionTimeout", 3600)
    refresh_timeout_s: Annotated[int, Field(ge=1, le=31_536_000)] = setting("properties.refreshSessionTimeout", 86_400)


@dataclass(frozen=True, slots=True)
class Spark:
    """``spark`` (ours): the Spark session of a worker process.

    `merge_wait_ms` bounds how long a live app with several inputs waits for one that lags; `tick_interval_ms` is
    how often a query wakes while its streams are silent and a window or an absence waits for time. `shards`
    is into how many parts each group instance is split by key where that changes no result; a manager's setting
    counts. A process that hosts live state and grows beyond `max_state_bytes` ends its group with an error; what is
    stored of it is complete. An event that takes longer than `slow_event_ms` is told as what its group waits for.
    `optimize_for`: ``throughput`` lets the JVM compile thoroughly, ``start`` lets it begin sooner and take less
    memory. A worker whose processes use `memory_limit` bytes (0: what machine and container allow) starts no more
    groups, and of those that fit it starts `concurrent_starts` at a time (0: twice `cores`). `master` is empty for
    a Spark of this process's own, with `cores` threads. `mode`: ``auto`` runs apps in real time that are Spark
    Columns between Kafka topics, ``micro-batch`` never, ``real-time`` refuses others.

    `formats` are those that apps may name with ``type='spark'``; without any it is files and ``rate``. `packages` are
    jars by their Maven coordinates, ``group:artifact:version``, that the session has from its start, such as other
    connectors; they are fetched once.
    """

    cores: Annotated[int, Field(ge=1, le=1024)] = setting("cores", 2)
    master: Text = setting("master", "")
    driver_memory: Memory = setting("driverMemory", "1g")
    max_batch_events: Annotated[int, Field(ge=1, le=10_000_000)] = setting("maxBatchEvents", 100_000)
    tick_interval_ms: Annotated[int, duration(10)] = setting("tickInterval", 1000)
    merge_wait_ms: Annotated[int, duration(0)] = setting("mergeWait", 1000)
    shards: Annotated[int, Field(ge=1, le=1024)] = setting("shards", 1)
    max_state_bytes: MemoryBytes = setting("maxStateMemory", 2 << 30)
    slow_event_ms: Annotated[int, duration(100)] = setting("slowEvent", 5000)
    memory_limit: MemoryBytes = setting("memoryLimit", 0)
    concurrent_starts: Annotated[int, Field(ge=0, le=1000)] = setting("concurrentStarts", 0)
    optimize_for: Literal["throughput", "start"] = setting("optimizeFor", "throughput")
    mode: Literal["auto", "micro-batch", "real-time"] = setting("mode", "auto")
    formats: tuple[Text, ...] = listing("formats")
    packages: tuple[Maven, ...] = listing("packages")


@dataclass(frozen=True, slots=True)
class Log:
    """``transports.log`` (ours): the embedded log, one file per topic in a directory on a local disk."""

    directory: Place = setting("directory", Path("topics"))


@dataclass(frozen=True, slots=True)
class Kafka:
    """``transports.kafka`` (ours): the Kafka cluster with the topics.

    `bootstrap_servers` and `zookeeper_urls` are ``host:port``, several with commas between them; the second is for
    clusters that still have a ZooKeeper, and only looked at where the first is empty. `properties` are settings of
    Kafka's clients with their Java names, one ``name=value`` a line: TLS, SASL, compression.
    """

    bootstrap_servers: Text = setting("bootstrapServers", "")
    zookeeper_urls: Text = setting("zooKeeperURLs", "")
    properties: ClientProperties | None = setting("properties", None)
    replication_factor: Annotated[int, Field(ge=-1, le=1000)] = setting("replicationFactor", -1)
    timeout_ms: Annotated[int, duration(100)] = setting("timeout", 30_000)


@dataclass(frozen=True, slots=True)
class Nats:
    """``transports.nats`` (ours): the NATS servers with JetStream that keep the topics.

    `urls` are ``nats://host:port`` or ``tls://host:port``, several with commas between them.
    """

    urls: Text = setting("urls", "")
    username: Text = setting("username", "")
    password: SecretText | None = setting("password", None)
    token: SecretText | None = setting("token", None)
    credentials_file: Place | None = setting("credentialsFile", None)
    nkey_seed_file: Place | None = setting("nkeySeedFile", None)
    trust_file: Place | None = setting("trustFile", None)
    certificate_file: Place | None = setting("certificateFile", None)
    key_file: Place | None = setting("keyFile", None)
    replicas: Annotated[int, Field(ge=1, le=5)] = setting("replicas", 1)
    timeout_ms: Annotated[int, duration(100)] = setting("timeout", 30_000)


@dataclass(frozen=True, slots=True)
class Transports:
    """``transports`` (ours): what carries events between groups.

    All nodes of a cluster have the same ones.
    """

    log: Log = setting("log")
    default: Literal["log", "kafka", "nats"] = setting("default", "log")
    kafka: Kafka = setting("kafka", Kafka())
    nats: Nats = setting("nats", Nats())


@dataclass(frozen=True, slots=True)
class ScriptSettings:
    """``siddhi.script`` (ours): what Python code is run that spdist does not bring.

    `python_enabled` allows functions that apps define. Off by default: such a function may do whatever the node may. A
    manager that has it off refuses apps with one. `packages` are installed distributions whose connectors and
    extensions apps may use (`spdist.packages`); none by default, since one may be installed for another purpose. A
    manager that does not name one does not know what it brings.
    """

    python_enabled: bool = setting("python.enabled", False)
    packages: tuple[Text, ...] = listing("python.packages")


@dataclass(frozen=True, slots=True)
class Secrets:
    """``siddhi.secrets`` (ours): what apps may name in options for logins as ``${secret:NAME}``."""

    by_name: Mapping[str, SecretText] = by_name("NAME")


@dataclass(frozen=True, slots=True)
class Files:
    """``siddhi.files`` (ours): the directories below which apps may read and write files.

    Without one it is ``files`` below the state's location, which all workers see. What spdist keeps itself (topics,
    state, settings) is out of reach also where it lies below one of them.
    """

    directories: tuple[Place, ...] = listing("directories")


@dataclass(frozen=True, slots=True)
class SiddhiProperties:
    """``siddhi.properties``: how several nodes share aggregations that are kept in a database.

    With `partition_by_id` every such aggregation has a shard for each node, as one with ``@PartitionById`` has in any
    case. `shard_id` is the name of this node's shard; where it is empty see `spdist.config.Config.shard_id`.
    """

    partition_by_id: bool = setting("partitionById", False)
    shard_id: Text = setting("shardId", "")


@dataclass(frozen=True, slots=True)
class Limits:
    """``siddhi.limits`` (ours): how large an app may be that is deployed; a manager's settings count.

    `elements` are definitions, partitions and queries, `groups` and `instances` what it is split into, `characters`
    those of the texts of all instances together. An app whose planning takes longer than `planning_time_ms` is refused.
    """

    elements: Annotated[int, Field(ge=1, le=1_000_000)] = setting("elements", 10_000)
    groups: Annotated[int, Field(ge=1, le=10_000)] = setting("groups", 500)
    instances: Annotated[int, Field(ge=1, le=100_000)] = setting("instances", 1000)
    characters: Annotated[int, Field(ge=1, le=1_000_000_000)] = setting("characters", 16_000_000)
    planning_time_ms: Annotated[int, duration(100)] = setting("planningTime", 20_000)


@dataclass(frozen=True, slots=True)
class Logging:
    """``logging`` (ours): what a node logs to its standard error, and keeps for ``GET /logs``.

    `format` is ``text`` for people, or ``json``: one object a line. The last `kept` records are kept in memory.
    """

    format: Literal["text", "json"] = setting("format", "text")
    kept: Annotated[int, Field(ge=0, le=100_000)] = setting("kept", 1000)


#: Field of Config → section of the file, and its class.
SECTIONS: dict[str, tuple[str, type]] = {
    "accepted": ("spdist", Accepted),
    "carbon": ("wso2.carbon", Carbon),
    "http": ("wso2.transport.http", Http),
    "cluster": ("cluster.config", Cluster),
    "deployment": ("deployment.config", DeploymentSettings),
    "artifacts": ("wso2.artifact.deployment", Artifacts),
    "state_persistence": ("state.persistence", StatePersistence),
    "datasource_list": ("wso2.datasources", Datasources),
    "auth": ("auth.configs", Auth),
    "spark": ("spark", Spark),
    "transports": ("transports", Transports),
    "script": ("siddhi.script", ScriptSettings),
    "secrets": ("siddhi.secrets", Secrets),
    "files": ("siddhi.files", Files),
    "properties": ("siddhi.properties", SiddhiProperties),
    "limits": ("siddhi.limits", Limits),
    "logging": ("logging", Logging),
}
