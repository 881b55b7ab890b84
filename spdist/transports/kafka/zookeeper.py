"""Finds the brokers of a Kafka cluster that still has a ZooKeeper: each registers there while it lives."""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib.parse import urlsplit

from spdist.errors import TransportError, TransportUnavailableError
from spdist.transports.kafka.options import KafkaSettings

__all__ = ["bootstrap_servers"]

_IDS = "/brokers/ids"
_HINT = "are these the addresses of the ZooKeeper of the brokers? bootstrapServers names brokers without it"


def bootstrap_servers(settings: KafkaSettings) -> str:
    """Return ``host:port`` of the brokers, with commas between them: those that are set, else those in ZooKeeper.

    Of a broker's addresses the one is taken whose protocol is the ``security.protocol`` of the settings.

    Raises
    ------
    TransportUnavailableError
        ZooKeeper does not answer in time, or knows no broker.
    TransportError
        The brokers have no address with that protocol.
    """
    if settings.bootstrap_servers:
        return settings.bootstrap_servers
    protocol = settings.properties.get("security.protocol", "PLAINTEXT").upper()
    found = _registered(settings)
    addresses = [address for broker in found if (address := _address(broker, protocol))]
    where = f"ZooKeeper at {settings.zookeeper_urls}"
    if not found:
        raise TransportUnavailableError(f"{where} knows no Kafka broker", hint=_HINT)
    if not addresses:
        raise TransportError(
            f"{where} knows no Kafka broker that speaks {protocol}", hint="see security.protocol in the properties"
        )
    return ",".join(addresses)


def _registered(settings: KafkaSettings) -> list[dict[str, Any]]:
    from kazoo.client import KazooClient
    from kazoo.exceptions import KazooException, NoNodeError

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    client = KazooClient(hosts=settings.zookeeper_urls, read_only=True)
    try:
        client.start(timeout=settings.patience_ms / 1000)
        try:
            ids = sorted(client.get_children(_IDS), key=int)
            return [json.loads(client.get(f"{_IDS}/{one}")[0]) for one in ids]
        except NoNodeError:
            return []
    except (KazooException, client.handler.timeout_exception, OSError) as error:
        where = f"ZooKeeper at {settings.zookeeper_urls}"
        raise TransportUnavailableError(f"{where} does not answer ({type(error).__name__})", hint=_HINT) from error
    except ValueError as error:
        raise TransportError(f"{settings.zookeeper_urls}{_IDS} is not what Kafka writes: {error}") from error
    finally:
        client.stop()
        client.close()


def _address(broker: dict[str, Any], protocol: str) -> str | None:
    """Return the address of a broker for a protocol, None where it has none."""
    protocols = broker.get("listener_security_protocol_map") or {}
    for endpoint in broker.get("endpoints") or ():
        listener, _, rest = endpoint.partition("://")
        if protocols.get(listener, listener).upper() == protocol:
            place = urlsplit(f"//{rest}")
            host = f"[{place.hostname}]" if place.hostname and ":" in place.hostname else place.hostname
            return f"{host}:{place.port}"
    # Old brokers register a single address, without protocols.
    if protocol == "PLAINTEXT" and broker.get("host") and (broker.get("port") or 0) > 0:
        return f"{broker['host']}:{broker['port']}"
    return None
