"""Settings of Kafka's clients, written as Kafka's Java clients name them, for those of Python; and what they read.

These name them with underscores and have no Java key stores: keys and certificates are PEM files
(``ssl.truststore.type=PEM``), and what a JAAS line says is taken out of it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any

from spdist.config.allowed import SECRET, NotAllowed
from spdist.errors import TransportError
from spdist.java.numbers import whole_number
from spdist.transports.options import Options, local_path
from spdist.transports.sockets.tls import Certificate, client_context

__all__ = ["KafkaInput", "KafkaSettings", "app_properties", "asyncio_options", "python_options"]

#: What the clients of Java and Python have under the same name but for dots, and what its text means.
_SAME: dict[str, type] = {
    "client.id": str,
    "security.protocol": str,
    "sasl.mechanism": str,
    "ssl.ciphers": str,
    "request.timeout.ms": int,
    "retry.backoff.ms": int,
    "reconnect.backoff.ms": int,
    "reconnect.backoff.max.ms": int,
    "connections.max.idle.ms": int,
    "metadata.max.age.ms": int,
}
#: Of a producer only.
_PRODUCER: dict[str, type] = {"compression.type": str, "batch.size": int, "linger.ms": int, "max.request.size": int}
#: What the client over asyncio has of the other one's arguments, under the same names; TLS it is given as a context.
_ASYNCIO = frozenset({
    "client_id", "connections_max_idle_ms", "metadata_max_age_ms", "request_timeout_ms", "retry_backoff_ms",
    "sasl_mechanism", "sasl_plain_password", "sasl_plain_username", "security_protocol",
})  # fmt: skip
#: Of the Java clients only, or ours to decide.
_IGNORED = frozenset(
    {"acks", "enable.idempotence", "retries", "delivery.timeout.ms", "max.in.flight.requests.per.connection"}
)
#: What an app may set: numbers, times, words, logins and PEM files. Kafka's clients have others that name classes,
#: commands, providers that read variables and files of the node, and addresses from which they fetch keys.
_OF_APPS = frozenset((
    "acks", "allow.auto.create.topics", "auto.commit.interval.ms", "auto.offset.reset", "batch.size",
    "buffer.memory", "check.crcs", "client.dns.lookup", "client.id", "client.rack", "compression.gzip.level",
    "compression.lz4.level", "compression.type", "compression.zstd.level", "connections.max.idle.ms",
    "default.api.timeout.ms", "delivery.timeout.ms", "enable.auto.commit", "enable.idempotence",
    "exclude.internal.topics", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id",
    "group.instance.id", "heartbeat.interval.ms", "isolation.level", "key.deserializer", "key.serializer",
    "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes",
    "max.poll.interval.ms", "max.poll.records", "max.request.size", "metadata.max.age.ms", "metadata.max.idle.ms",
    "producer.type", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "request.timeout.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "sasl.jaas.config",
    "sasl.mechanism", "security.protocol", "send.buffer.bytes", "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "ssl.cipher.suites",
    "ssl.ciphers", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.key.password",
    "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "timeout",
    "transaction.timeout.ms", "value.deserializer", "value.serializer",
))  # fmt: skip
#: Of these, what may hold secrets.
_LOGINS = frozenset({"sasl.jaas.config", "ssl.key.password", "ssl.keystore.password", "ssl.truststore.password"})
#: Of messages that hold many events, thousands where somebody is far behind, so many fewer make a batch.
_PACKED = 1000
#: How long brokers are waited for: those of a user, of whom a query that has ended can say why nothing comes, and those
#: between groups, whose status says so meanwhile; there Kafka's clients wait as long by themselves.
_PATIENCE_MS, _BETWEEN_GROUPS_MS = 15_000, 60_000
_CONFIGURATION = "optional.configuration"
_PAIR = re.compile(r"\s*([^:,\s]+)\s*:\s*([^,]*)")
#: A login with name and password, and nothing else that a login module could be told.
_LOGIN = re.compile(
    r"""\s*org\.apache\.kafka\.common\.security\.(plain\.Plain|scram\.Scram)LoginModule\s+required
    (\s+(username|password|tokenauth)\s*=\s*("([^"\\]|\\.)*"|'([^'\\]|\\.)*'|[^\s;"'=]+))+\s*;?\s*""",
    re.VERBOSE,
)
_JAAS = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where the brokers are and how to speak to them.

    Parameters
    ----------
    bootstrap_servers : str
        ``host:port`` of one broker or several, with commas between them.
    properties : dict of str to str
        Settings of Kafka's clients with their Java names; not shown, as passwords may be among them.
    replication : int
        Copies of each new topic; -1 for the brokers' default.
    patience_ms : int
        How long to try where no broker answers.
    zookeeper_urls : str
        Where the brokers are looked up while `bootstrap_servers` is empty.
    """

    bootstrap_servers: str
    properties: dict[str, str] = field(default_factory=dict, repr=False)
    replication: int = -1
    patience_ms: int = 30_000
    zookeeper_urls: str = ""


@dataclass(frozen=True, slots=True)
class KafkaInput:
    """A topic in Kafka that a query reads.

    Parameters
    ----------
    settings : KafkaSettings
        Where the brokers are.
    name : str
        How Kafka calls it.
    packed : bool
        Whether a message holds many events: then fewer of them make a batch.
    users : bool
        Whether a user's own source reads it: then messages are no records of ours.
    keys : bool
        Whether that source looks at the keys of messages.
    """

    settings: KafkaSettings
    name: str
    packed: bool = False
    users: bool = False
    keys: bool = False

    @property
    def patience_ms(self) -> int:
        """How long to try where no broker answers."""
        given = whole_number(self.settings.properties.get("default.api.timeout.ms", ""), 0)
        if given is not None:
            return given
        return _PATIENCE_MS if self.users else max(_BETWEEN_GROUPS_MS, self.settings.patience_ms)

    def most_messages(self, most_events: int) -> int:
        """Return how many messages of such topics a batch may have that has so many events at most."""
        return max(4, most_events // _PACKED) if self.packed else most_events


def app_properties(read: Options, pairs: Iterable[tuple[str, str]] | None = None) -> dict[str, str]:
    """Return what ``optional.configuration='k:v,k:v'`` of a source or sink says, with the secrets that it names.

    The text is split before secrets are filled in, and their values stand in no message.

    Parameters
    ----------
    read : Options
        Of the source or sink.
    pairs : iterable of (str, str), optional
        Names and values, where somebody has split the text already.

    Raises
    ------
    AppValidationError
        A setting is not for apps, or a file lies outside of the directories that they may use.
    """
    found: dict[str, str] = {}
    for name, written in _PAIR.findall(read.text(_CONFIGURATION)) if pairs is None else pairs:
        if name not in _OF_APPS:
            near = difflib.get_close_matches(name, _OF_APPS, 1)
            hint = (
                f"Did you mean {near[0]}?"
                if near
                else "Apps set numbers, times, logins and PEM files of Kafka's clients."
            )
            raise read.wrong(_CONFIGURATION, f"has {name}, which no app may set", hint)
        value = written.strip()
        if SECRET.search(value):
            if name not in _LOGINS:
                hint = f"Secrets stand in {', '.join(sorted(_LOGINS))}."
                raise read.wrong(_CONFIGURATION, f"has a secret in {name}", hint)
            value = read.expanded(_CONFIGURATION, value)
        if name == "sasl.jaas.config" and not _LOGIN.fullmatch(value):
            hint = 'write org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";'
            raise read.wrong(_CONFIGURATION, "has a sasl.jaas.config that is no login with username and password", hint)
        if name.endswith(".location"):
            try:
                value = str(local_path(value, read.allowed))
            except NotAllowed as error:
                raise read.wrong(_CONFIGURATION, f"has {name}:{value}, which {error}", error.hint) from None
        found[name] = value
    return found


def python_options(properties: Mapping[str, str], *, producer: bool = False) -> dict[str, Any]:
    """Return `properties` as arguments of the Python clients.

    Parameters
    ----------
    properties : mapping of str to str
        With Java's names; those that only Java's clients have are left out.
    producer : bool
        Whether those of a producer are wanted.

    Raises
    ------
    TransportError
        A value is not what its name asks for, or needs Java: a key store, or a login module without name and password.
    """
    known = _SAME | (_PRODUCER if producer else {})
    options: dict[str, Any] = {}
    for name, value in properties.items():
        if name in known and name not in _IGNORED:
            try:
                options[name.replace(".", "_")] = known[name](value)
            except ValueError as error:
                raise TransportError(f"Kafka's {name} must be a whole number, not {value!r}") from error
    options |= _login(properties)
    options |= _files(properties)
    if "ssl.endpoint.identification.algorithm" in properties:
        options["ssl_check_hostname"] = bool(properties["ssl.endpoint.identification.algorithm"].strip())
    return options


def asyncio_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the Python client as those of the one over asyncio (`aiokafka`).

    Parameters
    ----------
    options : mapping
        What `python_options` has returned.
    """
    own = {name: value for name, value in options.items() if name in _ASYNCIO}
    return own | {"ssl_context": _context(options)}


def _context(options: Mapping[str, Any]) -> SSLContext | None:
    """Return what TLS needs, None without it."""
    # SSL, or SASL_SSL.
    if "SSL" not in options.get("security_protocol", ""):
        return None
    own = None
    if "ssl_certfile" in options:
        files = Path(options["ssl_certfile"]), Path(options["ssl_keyfile"])
        own = Certificate(*files, options.get("ssl_password", ""))
    context = client_context(Path(options["ssl_cafile"]) if "ssl_cafile" in options else None, own)
    context.check_hostname = options.get("ssl_check_hostname", True)
    if ciphers := options.get("ssl_ciphers"):
        context.set_ciphers(ciphers)
    return context


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    """Return name and password of a JAAS line."""
    line = properties.get("sasl.jaas.config")
    if line is None:
        return {}
    # A value in double quotes, in single ones, or bare: one of three groups has matched.
    said = {name: one or other or bare for name, one, other, bare in _JAAS.findall(line)}
    if "username" not in said or "password" not in said:
        raise TransportError(
            "Kafka's sasl.jaas.config has no username and password",
            hint='write …LoginModule required username="…" password="…"; with PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512',
        )
    # A backslash in a JAAS line stands before a character that is meant as it is.
    plain = {name: re.sub(r"\\(.)", r"\1", value) for name, value in said.items()}
    return {"sasl_plain_username": plain["username"], "sasl_plain_password": plain["password"]}


def _files(properties: Mapping[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for store, names in (("truststore", ("ssl_cafile",)), ("keystore", ("ssl_certfile", "ssl_keyfile"))):
        location = properties.get(f"ssl.{store}.location")
        if location is None:
            continue
        if properties.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
            raise TransportError(
                f"Kafka's ssl.{store}.location is a Java key store, which Python cannot read",
                hint=f"convert it to PEM and set ssl.{store}.type=PEM",
            )
        options |= dict.fromkeys(names, location)
    if password := properties.get("ssl.key.password"):
        options["ssl_password"] = password
    return options
