"""Addresses of http sources: how they are written, and whether one can listen there."""

from __future__ import annotations

import errno
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from spdist.config.allowed import Allowed
from spdist.errors import SiddhiAppError, TransportError
from spdist.language import ast
from spdist.planning.compiled import tree_of
from spdist.planning.topology import Assignment
from spdist.transports.options import Options, options_of
from spdist.transports.sockets.listening import Listener
from spdist.transports.sockets.tls import Certificate, server_context

__all__ = ["HttpAddress", "cannot_listen", "check_ports", "clean_path", "sources_at"]

_DEFAULT_PORT = 9763


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where a source listens, and with what certificate."""

    host: str
    port: int
    path: str
    certificate: Path | None = None
    password: str = ""

    @classmethod
    def of(cls, read: Options, app: str, stream: str) -> HttpAddress:
        """Read the options of a source; raises AppValidationError where one is wrong."""
        default = f"http://127.0.0.1:{_DEFAULT_PORT}/{quote(app)}/{quote(stream)}"
        url = read.text("receiver.url", default)
        host = None
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError:  # a port that is none, or brackets around what is no address
            pass
        if not host or parts.scheme not in ("http", "https"):
            raise read.wrong("receiver.url", f"is no address: '{url}'", f"For example: {default}")
        certificate, password = None, ""
        if parts.scheme == "https":
            certificate = read.pem("https.keystore.file")
            password = read.secret("https.keystore.password")
            if certificate is None:
                hint = "write https.keystore.file='…pem', with certificate and key"
                raise read.wrong("receiver.url", "asks for TLS without a certificate", hint)
        host = "127.0.0.1" if host == "localhost" else host
        # An address without a port means WSO2's.
        found = cls(host, _DEFAULT_PORT if port is None else port, clean_path(parts.path), certificate, password)
        try:
            # Only for its error: a certificate that cannot be used is found before the source starts.
            found.tls()
        except TransportError as error:
            raise read.wrong("https.keystore.file", f"cannot be used: {error.message}") from error
        return found

    def tls(self) -> ssl.SSLContext | None:
        """Return what the listener shows; None for plain http."""
        return None if self.certificate is None else server_context(Certificate(self.certificate, None, self.password))


def clean_path(path: str) -> str:
    """Return a path as routes are compared."""
    return f"/{unquote(path).strip('/')}"


def sources_at(assignment: Assignment, allowed: Allowed) -> list[HttpAddress]:
    """Return where the http sources of an app listen, in the order of its text.

    Parameters
    ----------
    assignment : Assignment
        The app.
    allowed : Allowed
        The secrets and files that it may refer to.

    Raises
    ------
    SiddhiAppError
        An option is missing or wrong; shows where.
    """
    try:
        return [
            HttpAddress.of(options_of(source, definition.name, allowed), assignment.app, definition.name)
            for definition in tree_of(assignment.text).definitions
            for source in ast.find_annotations(definition.annotations, "source")
            if source.get("type") == "http"
        ]
    except SiddhiAppError as error:
        error.text = error.text or assignment.text
        raise


def check_ports(assignment: Assignment, allowed: Allowed) -> None:
    """See that the http sources of an app can listen, before anything is started that takes long.

    Parameters
    ----------
    assignment, allowed
        See `sources_at`.

    Raises
    ------
    SiddhiAppError
        An option is missing or wrong; shows where.
    TransportError
        A port is taken.
    """
    # Sources of one app share a port: it is tried once.
    for host, port in {(one.host, one.port): one for one in sources_at(assignment, allowed)}:
        try:
            Listener(host, port).stop()
        except OSError as error:
            raise cannot_listen(host, port, error) from error


def cannot_listen(host: str, port: int, error: OSError) -> TransportError:
    """Return why nobody can listen there, and what to do about it."""
    if error.errno == errno.EADDRINUSE:
        return TransportError(
            f"cannot listen on {host}:{port}: it is in use by another process",
            hint=f"stop that one (`ss -ltnp 'sport = :{port}'` names it), or set another port in the receiver.url of "
            "the @source",
        )
    return TransportError(
        f"cannot listen on {host}:{port}: {error.strerror or error}",
        hint="set the host and port of an interface of this machine in the receiver.url of the @source",
    )
