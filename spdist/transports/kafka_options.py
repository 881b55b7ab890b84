"""Settings of Kafka's clients: written once, as Kafka's Java clients name them, for Spark and for Python.

Spark's connector takes them as they are. The Python client names them with underscores and has no Java key stores: keys
and certificates are PEM files (``ssl.truststore.type=PEM``), and what a JAAS line says is taken out of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spdist.errors import TransportError

__all__ = ["KafkaSettings", "python_options", "spark_options"]

#: What both clients have under the same name but for dots, and what its text means.
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
#: Of the Java clients only, or ours to decide.
_IGNORED = frozenset(
    {"acks", "enable.idempotence", "retries", "delivery.timeout.ms", "max.in.flight.requests.per.connection"}
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


def spark_options(settings: KafkaSettings) -> dict[str, str]:
    """Return the options of Spark's Kafka source and sink that say how to reach the brokers.

    `settings` must name the brokers: see `spdist.transports.zookeeper.bootstrap_servers`.
    """
    options = {f"kafka.{name}": value for name, value in settings.properties.items()}
    return options | {"kafka.bootstrap.servers": settings.bootstrap_servers}


def python_options(properties: Mapping[str, str], *, producer: bool = False) -> dict[str, Any]:
    """Return `properties` as arguments of the Python clients.

    Parameters
    ----------
    properties : mapping of str to str
        With Java's names; those that only Spark's clients have are left out.
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


def _login(properties: Mapping[str, str]) -> dict[str, str]:
    """Return name and password of a JAAS line."""
    line = properties.get("sasl.jaas.config")
    if line is None:
        return {}
    said = {name: one or other or bare for name, one, other, bare in _JAAS.findall(line)}
    if "username" not in said or "password" not in said:
        raise TransportError(
            "Kafka's sasl.jaas.config has no username and password",
            hint='write …LoginModule required username="…" password="…"; with PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512',
        )
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
