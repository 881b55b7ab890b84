"""TLS of every socket that is ours: version 1.2 at least, and certificates that are taken over when they are renewed.

Ciphers are Python's own (3.10 and later): all have forward secrecy, none has RC4, 3DES, MD5 or SHA-1. Kafka's clients
in Java follow the JVM, which has switched off what is below 1.2.
"""

from __future__ import annotations

import logging
import os
import ssl
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spdist.config import ListenerSettings
from spdist.errors import TransportError

__all__ = [
    "VERIFY_CLIENT",
    "Certificate",
    "CertificateFiles",
    "certificate_of",
    "client_context",
    "refusal_hint",
    "server_context",
]

_log = logging.getLogger(__name__)

#: What a listener may ask of those who connect (WSO2's ``sslVerifyClient``; there, nothing is said for ``none``).
VERIFY_CLIENT = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
#: What OpenSSL says where a handshake fails, and what to do then.
_HINTS = {
    "CERTIFICATE_HAS_EXPIRED": "that node needs a new one: python -m spdist tls renew",
    "CERTIFICATE_IS_NOT_VALID_FOR": "it must name the host by which the node is called (python -m spdist tls add)",
    "CERTIFICATE_VERIFY_FAILED": "the file with the authorities to trust must have the one of that node's certificate",
    "CERTIFICATE_REQUIRED": "it asks for a certificate of the cluster's authority, and none was shown",
    "HANDSHAKE_FAILURE": "it may ask for a certificate of the cluster's authority",
    # Python's servers hang up without an alert.
    "SERVER_DISCONNECTED": "if it asks for certificates (sslVerifyClient), show one of the cluster's authority",
    "UNKNOWN_CA": "it does not trust the authority of the certificate that was shown",
    "CERTIFICATE_EXPIRED": "the certificate that was shown has expired: python -m spdist tls renew",
    "WRONG_VERSION_NUMBER": "it speaks plain http, not https",
}


@dataclass(frozen=True, slots=True)
class Certificate:
    """Who we are: PEM files.

    Parameters
    ----------
    file : Path
        The certificate, with those between it and the authority.
    key_file : Path, optional
        Its key; without one the key stands in `file`.
    password : str
        Opens an encrypted key.
    """

    file: Path
    key_file: Path | None = None
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, files: CertificateFiles) -> Certificate:
        """Return what `files` name: one file with certificate and key, or a pair of such."""
        if isinstance(files, Certificate):
            return files
        if isinstance(files, tuple):
            return cls(Path(files[0]), Path(files[1]))
        return cls(Path(files))

    @classmethod
    def named(cls, file: Path | None, key_file: Path | None) -> Certificate | None:
        """Return what two options name, None where neither does; TransportError where a key has no certificate."""
        if file is None and key_file is not None:
            raise TransportError(f"{key_file} is the key of a certificate, and there is none", hint="name that, too")
        return None if file is None else cls(file, key_file)

    def __str__(self) -> str:
        return str(self.file) if self.key_file is None else f"{self.file} and {self.key_file}"

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let `context` show this certificate.

        Raises
        ------
        OSError
            A file cannot be read, or they do not belong together (`ssl.SSLError`).
        """
        # A password that is asked for and not there would be asked for at the terminal.
        context.load_cert_chain(self.file, self.key_file, lambda: self.password)


#: How people name a certificate: one file with certificate and key, or a pair of such.
CertificateFiles = Certificate | str | Path | tuple[str | Path, str | Path]


def certificate_of(listener: ListenerSettings) -> Certificate | None:
    """Return what a node shows: to who calls it, and to the nodes that it calls; None where its listener has none."""
    if listener.certificate_file is None or listener.key_file is None:
        return None
    password = listener.key_password.reveal() if listener.key_password else ""
    return Certificate(listener.certificate_file, listener.key_file, password)


def server_context(
    own: Certificate, trust_file: Path | None = None, verify_client: ssl.VerifyMode = ssl.CERT_NONE
) -> ssl.SSLContext:
    """Return the context of a listener.

    Parameters
    ----------
    own : Certificate
        What those who connect are shown. Its files may be replaced: who connects after that is shown the new one.
    trust_file : Path, optional
        PEM file with the authorities whose certificates callers may show.
    verify_client : VerifyMode
        One of `VERIFY_CLIENT`.

    Raises
    ------
    TransportError
        A file cannot be used.
    """
    return _context(ssl.PROTOCOL_TLS_SERVER, own, trust_file, verify_client)


def client_context(trust_file: Path | None = None, own: CertificateFiles | None = None) -> ssl.SSLContext:
    """Return the context of a client, which checks the certificate of who answers, and its name.

    Parameters
    ----------
    trust_file : Path, optional
        PEM file with the authorities to trust; the system's if not given.
    own : Certificate, path or pair of paths, optional
        What is shown where a server asks for it; its files may be replaced.

    Raises
    ------
    TransportError
        A file cannot be used.
    """
    return _context(
        ssl.PROTOCOL_TLS_CLIENT, None if own is None else Certificate.of(own), trust_file, ssl.CERT_REQUIRED
    )


def refusal_hint(error: BaseException) -> str:
    """Return what to do about a handshake that failed, in words; empty where it was something else."""
    said = str(error).upper().replace(" ", "_")
    return next((hint for reason, hint in _HINTS.items() if reason in said), "")


def _context(
    protocol: ssl._SSLMethod, own: Certificate | None, trust_file: Path | None, verify: ssl.VerifyMode
) -> ssl.SSLContext:
    context = _Renewing(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = verify
    if sys.version_info >= (3, 13):  # as `ssl.create_default_context` does from then on
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VERIFY_X509_STRICT
    try:
        if trust_file is not None:
            context.load_verify_locations(trust_file)
        elif verify is not ssl.CERT_NONE:
            context.load_default_certs()
    except OSError as error:  # ssl.SSLError is one, too
        raise TransportError(
            f"TLS cannot be used with the authorities of {trust_file}: {error}", hint="it must be a PEM file"
        ) from error
    if own is not None:
        context.show(own)
    return context


class _Renewing(ssl.SSLContext):
    """A context that looks, before each handshake, whether the files of its certificate are others by now.

    Safe to use from several threads.

    State
    -----
    Size and time of the two files, as they were when they were read.
    """

    _own: Certificate | None = None
    _seen: tuple[Any, ...] = ()

    def show(self, own: Certificate) -> None:
        """Show this certificate, and those that replace it; raises TransportError where it cannot be used."""
        self._lock = threading.Lock()
        self._own, self._seen = own, _stamp(own)
        try:
            own.load_into(self)
        except OSError as error:
            raise TransportError(
                f"TLS cannot be used with {own}: {error}",
                hint="both must be PEM files that belong together; an encrypted key needs its password",
            ) from error

    def wrap_socket(self, *args: Any, **given: Any) -> ssl.SSLSocket:
        self._renew()
        return super().wrap_socket(*args, **given)

    def wrap_bio(self, *args: Any, **given: Any) -> ssl.SSLObject:
        self._renew()
        return super().wrap_bio(*args, **given)

    def _renew(self) -> None:
        own = self._own
        if own is None or (stamp := _stamp(own)) == self._seen:
            return
        with self._lock:
            if stamp == self._seen:
                return
            # Also where the files cannot be used: they are tried once and not with each handshake.
            self._seen = stamp
            try:
                # Elsewhere first: one half of a pair would leave this context with nothing to show.
                own.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
                own.load_into(self)
            except OSError as error:
                _log.error("%s cannot be used, the certificate from before stays: %s", own, error)
            else:
                _log.info("took over the new certificate in %s", own.file)


def _stamp(own: Certificate) -> tuple[Any, ...]:
    """Return what tells whether the files are others by now."""
    found: list[Any] = []
    for file in (own.file, own.key_file or own.file):
        try:
            status = os.stat(file)
        except OSError:
            # A file that is missing for a moment, while it is replaced, is a state like any other.
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)
