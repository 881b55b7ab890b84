"""Requests: what others send to an address, and what is sent to one."""

from __future__ import annotations

from spdist.connectors.registry import Connector

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    type="http",
    source="spdist.connectors.http.source:open_source",
    sink="spdist.connectors.http.sink:open_sink",
    secrets=(
        "basic.auth.password",
        "basic.auth.username",
        "body.consumer.key",
        "body.consumer.secret",
        "consumer.key",
        "consumer.secret",
        "headers",
        "https.keystore.key.password",
        "https.keystore.password",
        "oauth.password",
        "oauth.username",
        "proxy.password",
        "proxy.username",
        "refresh.token",
    ),
)
