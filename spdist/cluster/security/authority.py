"""The certificates of a cluster: an authority of its own, and what it vouches for. The door to cryptography.

Keys are EC P-256, which everything that speaks TLS 1.2 knows. The authority may sign certificates for nodes and users,
and no other authority (RFC 5280: basic constraints, key usage, subject and authority key identifiers).
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from spdist.cluster.security.private_files import read_private, write_private
from spdist.errors import ConfigError

__all__ = ["AUTHORITY", "Authority", "CertificateKind", "Issued", "Subject", "check_free", "issued_in"]

#: The authority's name among the files of a directory.
AUTHORITY = "ca"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DNS = re.compile(r"(?=.{1,253}$)(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9_-]{1,63}")
#: Clocks of other machines may be behind.
_BACK = timedelta(minutes=10)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class CertificateKind(Enum):
    """Whom a certificate is of."""

    AUTHORITY = "authority"
    #: shown to who connects, and to the nodes that it calls
    NODE = "node"
    #: shown to nodes only
    USER = "user"


@dataclass(frozen=True, slots=True)
class Subject:
    """Who is to have a certificate.

    Parameters
    ----------
    name : str
        Names the files, too: letters, digits, ``.``, ``_`` and ``-``.
    hosts : tuple of str
        Names and addresses at which a node is reached; empty for a user.
    """

    name: str
    hosts: tuple[str, ...] = ()

    @classmethod
    def node(cls, written: str) -> Subject:
        """Read ``NAME[=HOST,HOST...]``; without hosts the name is the host.

        Raises
        ------
        ConfigError
            It is not that.
        """
        name, equals, hosts = written.partition("=")
        subject = cls.user(name)
        return cls(subject.name, tuple(_host(one.strip()) for one in (hosts if equals else name).split(",")))

    @classmethod
    def user(cls, written: str) -> Subject:
        """Read ``NAME``; raises ConfigError where it cannot name files, or is taken by the authority."""
        if not _NAME.fullmatch(written) or written == AUTHORITY:
            raise ConfigError(
                f"{written!r} cannot be the name of a certificate",
                hint=f"letters, digits, '.', '_' and '-' make a name, such as manager-1; not '{AUTHORITY}'",
            )
        return cls(written)

    @property
    def kind(self) -> CertificateKind:
        """Whether it is a node or a user."""
        return CertificateKind.NODE if self.hosts else CertificateKind.USER


@dataclass(frozen=True, slots=True)
class Issued:
    """What a certificate in a directory says.

    Parameters
    ----------
    file : Path
        The certificate.
    kind : CertificateKind
        Whom it is of.
    subject : str
        The name that it certifies.
    hosts : tuple of str
        Names and addresses that it holds for.
    not_after : datetime
        When it expires, UTC.
    vouched : bool
        Whether the authority in the directory has signed it; True where there is none.
    """

    file: Path
    kind: CertificateKind
    subject: str
    hosts: tuple[str, ...]
    not_after: datetime
    vouched: bool

    def days_left(self, now: datetime) -> int:
        """Return the whole days until it expires, negative when it has."""
        return (self.not_after - now).days


class Authority:
    """The authority of a cluster, kept as ``ca.crt`` and ``ca.key`` in a directory with all that it has signed.

    Made by `create` or `open`.
    """

    def __init__(self, directory: Path, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.directory = directory
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, directory: Path, now: datetime, days: int, *, replace: bool = False) -> Authority:
        """Make an authority; its directory is made where it is not there.

        Raises
        ------
        ConfigError
            There is one and `replace` is False, or others may read the directory.
        """
        _make_private(directory)
        key = ec.generate_private_key(ec.SECP256R1())
        # The number tells authorities apart: one that is replaced must not look like the one that replaces it.
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"spdist authority {os.urandom(4).hex()}")])
        authority = cls(directory, key, _authority_certificate(key, name, now, now + timedelta(days=days)))
        _write(directory / f"{AUTHORITY}.key", _pem(key), replace)
        # The key has decided whether the name is free; a certificate without its key is of no use
        _write(directory / f"{AUTHORITY}.crt", _text(authority._certificate), replace=True)
        return authority

    @classmethod
    def open(cls, directory: Path) -> Authority:
        """Return the authority of a directory; raises ConfigError where there is none, or its key is not private."""
        file = directory / f"{AUTHORITY}.key"
        try:
            key = serialization.load_pem_private_key(read_private(file), None)
        except FileNotFoundError:
            raise ConfigError(
                f"{directory} has no authority: {file.name} is not there", hint="python -m spdist tls init makes one"
            ) from None
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{file} cannot be used: {error}") from error
        certificate = _read(directory / f"{AUTHORITY}.crt")
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise ConfigError(f"{file} is not the key of {AUTHORITY}.crt beside it")
        return cls(directory, key, certificate)

    def issue(self, subject: Subject, now: datetime, days: int, *, replace: bool = False) -> Issued:
        """Make a key and a certificate, valid for so many days, but no longer than the authority.

        Raises
        ------
        ConfigError
            One of that name is there, and `replace` is False.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        _write(self.directory / f"{subject.name}.key", _pem(key), replace)
        return self._certify(subject, key.public_key(), now, days)

    def renew(self, name: str, now: datetime, days: int) -> Issued:
        """Replace a certificate by one that says the same for longer. The key stays, so it need not be here.

        Raises
        ------
        ConfigError
            There is none, another authority has signed it, or it is the authority's and this one's key is another.
        """
        file = self.directory / f"{name}.crt"
        old = _read(file)
        if not _signed(old, self._certificate):
            raise ConfigError(
                f"{file} was not signed by the authority beside it",
                hint=f"python -m spdist tls add --force makes {name} anew",
            )
        if name == AUTHORITY:
            self._certificate = _authority_certificate(self._key, old.subject, now, now + timedelta(days=days))
            _write(file, _text(self._certificate), replace=True)
            return _issued(file, self._certificate, self._certificate)
        key = old.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ConfigError(f"{file} has a key that spdist has not made")
        return self._certify(Subject(name, _hosts(old)), key, now, days)

    def _certify(self, subject: Subject, key: ec.EllipticCurvePublicKey, now: datetime, days: int) -> Issued:
        if self._certificate.not_valid_after_utc <= now:
            raise ConfigError(
                f"the authority of {self.directory} has expired",
                hint=f"python -m spdist tls renew … {AUTHORITY} renews it",
            )
        until = min(now + timedelta(days=days), self._certificate.not_valid_after_utc)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject.name)])
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if subject.kind is CertificateKind.NODE:
            purposes.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
        own_key = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = (
            _begun(name, self._certificate.subject, key, now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_key), critical=False)
        )
        if subject.hosts:
            names = x509.SubjectAlternativeName([_general_name(one) for one in subject.hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        file = self.directory / f"{subject.name}.crt"
        _write(file, _text(certificate), replace=True)
        return _issued(file, certificate, self._certificate)


def check_free(directory: Path, names: Iterable[str]) -> None:
    """Raise ConfigError where a directory has a key or certificate of one of these names already."""
    taken = [file for name in names for end in ("key", "crt") if (file := directory / f"{name}.{end}").exists()]
    if taken:
        raise ConfigError(f"{taken[0]} is there already, and nothing was changed", hint="--force replaces it")


def issued_in(directory: Path) -> list[Issued]:
    """Return what the certificates of a directory say, the authority first.

    Raises
    ------
    ConfigError
        There is none, or a file is no certificate.
    """
    files = sorted(directory.glob("*.crt"), key=lambda file: (file.stem != AUTHORITY, file.name))
    if not files:
        raise ConfigError(f"{directory} has no certificates (*.crt)", hint="python -m spdist tls init makes some")
    found = [(file, _read(file)) for file in files]
    authority = found[0][1] if files[0].stem == AUTHORITY else None
    return [_issued(file, certificate, authority) for file, certificate in found]


# --------------------------------------------------------------------------------------------------------- certificates
def _begun(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACK)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _authority_certificate(
    key: ec.EllipticCurvePrivateKey, name: x509.Name, now: datetime, until: datetime
) -> x509.Certificate:
    return (
        _begun(name, name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    """Return what a key is for: to sign certificates, or to prove who one is."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _issued(file: Path, certificate: x509.Certificate, authority: x509.Certificate | None) -> Issued:
    hosts = _hosts(certificate)
    kind = (
        CertificateKind.AUTHORITY if file.stem == AUTHORITY else CertificateKind.NODE if hosts else CertificateKind.USER
    )
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Issued(
        file,
        kind,
        str(names[0].value) if names else certificate.subject.rfc4514_string(),
        hosts,
        certificate.not_valid_after_utc,
        authority is None or _signed(certificate, authority),
    )


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(one.value) for one in names)


def _host(written: str) -> str:
    """Return a host as a certificate names it; raises ConfigError where it is none."""
    bare = written.removeprefix("[").removesuffix("]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    try:
        name = written.encode("idna").decode() if not written.isascii() else written
    except UnicodeError:
        name = ""
    # Digits and dots alone are an address with a mistake, not a name
    if not _DNS.fullmatch(name) or re.fullmatch(r"[\d.]+", name):
        raise ConfigError(f"{written!r} is no name and no address of a host", hint="such as node-1.example or 10.0.0.5")
    return name


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


# ---------------------------------------------------------------------------------------------------------------- files
def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        shared = directory.stat().st_mode & _OTHERS
    except OSError as error:
        raise ConfigError(f"{directory} cannot be made: {error.strerror}") from error
    if shared:
        raise ConfigError(
            f"{directory} is open to others than its owner, and keys are to lie there",
            hint=f"chmod 700 {directory}, or name a directory that is not there yet",
        )


def _write(file: Path, content: bytes, replace: bool) -> None:
    try:
        written = write_private(file, content, replace=replace)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from error
    if not written:
        raise ConfigError(f"{file} is there already, and was left as it is", hint="--force replaces it")


def _read(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"there is no certificate {file}", hint="python -m spdist tls add makes one") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} is no certificate that can be read: {error}") from error


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
