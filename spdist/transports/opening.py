"""From a node's settings to the transport that carries events between groups.

`TransportSettings` is what other processes of the node need to open the same topics. Passwords may be in it: it reaches
them as a file that only their user may read, and plans of Spark hold nothing but the name of that file.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.errors import ConfigError
from spdist.transports.kafka.options import KafkaSettings
from spdist.transports.nats.settings import NatsSettings

if TYPE_CHECKING:
    from spdist.config.kinds import Secret
    from spdist.config.sections import Transports
    from spdist.transports.base import Transport

__all__ = [
    "TransportSettings",
    "kafka_settings",
    "nats_settings",
    "open_place",
    "open_transport",
    "transport_settings",
    "write_settings",
]


#: Ends the name of a private file; a log's directory is named by people.
_SUFFIX = ".spdist-private.json"


@dataclass(frozen=True, slots=True)
class TransportSettings:
    """Which transport, and where.

    Parameters
    ----------
    kind : str
        ``log``, ``kafka`` or ``nats``.
    directory : str
        Of the embedded log, which is there besides the others: sources write to it.
    kafka : KafkaSettings, optional
        Where Kafka is, if it is set.
    nats : NatsSettings, optional
        Where NATS is, if it is set.
    """

    kind: str
    directory: str
    kafka: KafkaSettings | None = None
    nats: NatsSettings | None = None

    def with_patience(self, patience_ms: int) -> TransportSettings:
        """Return the same with another time to go on trying where no server answers."""
        return replace(
            self,
            kafka=self.kafka and replace(self.kafka, patience_ms=patience_ms),
            nats=self.nats and replace(self.nats, patience_ms=patience_ms),
        )


def transport_settings(section: Transports) -> TransportSettings:
    """Return what the section ``transports`` says."""
    directory = str(section.log.directory.absolute())
    return TransportSettings(section.default, directory, kafka_settings(section), nats_settings(section))


def kafka_settings(section: Transports) -> KafkaSettings | None:
    """Return where Kafka is, None where nothing says so."""
    kafka = section.kafka
    if not kafka.bootstrap_servers and not kafka.zookeeper_urls:
        return None
    lines = (line.strip().partition("=") for line in _revealed(kafka.properties).splitlines())
    return KafkaSettings(
        bootstrap_servers=kafka.bootstrap_servers.replace(" ", ""),
        properties={
            name.strip(): value.strip() for name, equals, value in lines if equals and not name.startswith("#")
        },
        replication=kafka.replication_factor,
        patience_ms=kafka.timeout_ms,
        zookeeper_urls=kafka.zookeeper_urls.replace(" ", ""),
    )


def nats_settings(section: Transports) -> NatsSettings | None:
    """Return where NATS is, None where nothing says so."""
    nats = section.nats
    if not nats.urls:
        return None
    return NatsSettings(
        urls=nats.urls.replace(" ", ""),
        username=nats.username,
        password=_revealed(nats.password),
        token=_revealed(nats.token),
        credentials_file=_text(nats.credentials_file),
        nkey_seed_file=_text(nats.nkey_seed_file),
        ca_file=_text(nats.trust_file),
        certificate_file=_text(nats.certificate_file),
        key_file=_text(nats.key_file),
        replicas=nats.replicas,
        patience_ms=nats.timeout_ms,
    )


def open_transport(settings: TransportSettings) -> Transport:
    """Return the transport between groups; it connects with its first call.

    Raises
    ------
    ConfigError
        It has no address.
    """
    if settings.kind == "kafka" and settings.kafka is not None:
        from spdist.transports.kafka.transport import KafkaTransport

        return KafkaTransport(settings.kafka)
    if settings.kind == "nats" and settings.nats is not None:
        from spdist.transports.nats.transport import NatsTransport

        return NatsTransport(settings.nats)
    if settings.kind == "log":
        from spdist.transports.log import LogTransport

        return LogTransport(settings.directory)
    raise ConfigError(f"there is no address for transport {settings.kind!r}", hint="see the section transports")


def write_settings(settings: TransportSettings, folder: Path) -> str:
    """Return what `open_place` opens the same topics with in another process: a directory, or a private file's name.

    Parameters
    ----------
    settings : TransportSettings
        What to open.
    folder : Path
        Where the file is written if one is needed; whoever owns the folder removes it.
    """
    if settings.kind == "log":
        return settings.directory
    file = folder / f"transport{_SUFFIX}"
    # Made with its mode and not changed afterwards: at no moment may others read it.
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as private:
        json.dump(asdict(settings), private)
    return str(file)


def open_place(place: str) -> Transport:
    """Return the transport that `write_settings` has told of.

    Raises
    ------
    ConfigError
        The file is gone.
    """
    if not place.endswith(_SUFFIX):
        return open_transport(TransportSettings("log", place))
    try:
        data = json.loads(Path(place).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the settings of the transport cannot be read: {error}") from error
    kafka, nats = data.pop("kafka"), data.pop("nats")
    return open_transport(
        TransportSettings(**data, kafka=kafka and KafkaSettings(**kafka), nats=nats and NatsSettings(**nats))
    )


def _revealed(secret: Secret | None) -> str:
    return "" if secret is None else secret.reveal()


def _text(path: Path | None) -> str:
    return "" if path is None else str(path)
