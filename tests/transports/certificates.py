"""What the tests of TLS share: certificates for this machine, a server that says hello, and others than ours."""

from __future__ import annotations

import socket
import ssl
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spdist.cluster.security.authority import Authority, Subject
from spdist.transports.sockets.tls import Certificate

HERE = "127.0.0.1"


def authority(directory: Path) -> Authority:
    """An authority, a node that is reached at 127.0.0.1, and a user."""
    made = Authority.create(directory, datetime.now(UTC), 10)
    made.issue(Subject("node", (HERE, "localhost")), datetime.now(UTC), 5)
    made.issue(Subject("ann"), datetime.now(UTC), 5)
    return made


def expired(made: Authority, name: str = "node") -> None:
    """Let a certificate have expired an hour ago."""
    made.renew(name, datetime.now(UTC) - timedelta(days=1, hours=1), 1)


def certificate(directory: Path, name: str) -> Certificate:
    return Certificate(directory / f"{name}.crt", directory / f"{name}.key")


@contextmanager
def answering(context: ssl.SSLContext) -> Iterator[tuple[int, list[str]]]:
    """A server on a port of 127.0.0.1: it sends the version of TLS, and notes it, or why there was no handshake."""
    seen: list[str] = []

    def serve() -> None:
        while True:
            try:
                raw, _ = listening.accept()
            except OSError:
                return
            raw.settimeout(5)
            try:
                with context.wrap_socket(raw, server_side=True) as one:
                    seen.append(str(one.version()))
                    one.sendall(str(one.version()).encode())
            except OSError as error:
                seen.append(str(error))
                raw.close()

    with socket.create_server((HERE, 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1], seen
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(5)


def greeted(context: ssl.SSLContext, port: int) -> str:
    """Connect, and return what the server says; raises OSError where there is no handshake."""
    with (
        socket.create_connection((HERE, port), timeout=5) as raw,
        context.wrap_socket(raw, server_hostname=HERE) as one,
    ):
        return one.recv(100).decode()


def old(context: ssl.SSLContext, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_1) -> ssl.SSLContext:
    """Let a context speak TLS 1.1 and nothing newer; OpenSSL 3 does so only without its security levels."""
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = version
        context.maximum_version = version
    return context


def foreign_client(made: Path) -> ssl.SSLContext:
    """A client that is not ours."""
    return ssl.create_default_context(cafile=made / "ca.crt")
