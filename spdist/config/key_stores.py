"""Key stores of Java: the key of a node and its certificates become PEM files, as OpenSSL reads them.

The only user of pyjks. Formats: JKS, JCEKS, and PKCS#12, which Java's keytool writes by default, whatever the file is
called.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import ssl
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.config.kinds import Secret
from spdist.errors import ConfigError

if TYPE_CHECKING:
    from spdist.config import Config

__all__ = ["KeyStore", "read_key_store", "with_pem_files"]

#: How files in Java's own formats begin: JKS and JCEKS.
_JAVA = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_WRONG = "keyStorePassword or certPass is wrong, or the file is damaged"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """What is in a key store.

    Parameters
    ----------
    key : bytes
        The private key, PKCS#8 in DER.
    certificates : tuple of bytes
        X.509 in DER: its own, then that of who signed it, and so on.
    """

    key: bytes
    certificates: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"KeyStore({len(self.certificates)} certificates)"


def read_key_store(content: bytes, password: str, key_password: str = "") -> KeyStore:
    """Return the only key of a key store with its certificates.

    Parameters
    ----------
    content : bytes
        The file.
    password : str
        ``keyStorePassword``.
    key_password : str
        ``certPass``; empty where it is the same.

    Raises
    ------
    ValueError
        It cannot be read so, or holds no key, or several. The message tells why, without the passwords.
    ModuleNotFoundError
        Of pyjks or cryptography, if it is not installed.
    """
    if content[:4] in _JAVA:
        return _of_java(content, password, key_password or password)
    return _of_pkcs12(content, password)


def _of_java(content: bytes, password: str, key_password: str) -> KeyStore:
    import jks

    try:
        # Not decrypted here: the key may have a password of its own.
        entries = jks.KeyStore.loads(content, password, try_decrypt_keys=False).private_keys
        if len(entries) != 1:
            raise ValueError(f"it must hold one private key, and has {len(entries)}")
        (entry,) = entries.values()
        entry.decrypt(key_password)
    except jks.util.KeystoreException as error:
        raise ValueError(f"{_WRONG} ({type(error).__name__})") from error
    if not entry.cert_chain:
        raise ValueError("it holds no certificate of its key")
    return KeyStore(entry.pkey_pkcs8, tuple(der for _, der in entry.cert_chain))


def _of_pkcs12(content: bytes, password: str) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        key, own, others = pkcs12.load_key_and_certificates(content, password.encode())
    except ValueError as error:
        raise ValueError(f"{_WRONG}, or it is neither JKS, JCEKS nor PKCS#12") from error
    if key is None or own is None:
        raise ValueError("it holds no private key with a certificate")
    chain = tuple(one.public_bytes(Encoding.DER) for one in (own, *others))
    return KeyStore(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), chain)


def with_pem_files(config: Config) -> Config:
    """Return `config` with PEM files in place of the key store of its listener, if it has one.

    They are in a temporary directory that nobody else may enter, which goes when this process ends. The key in them is
    encrypted with a password that only this process knows. Where the last certificate is signed by itself, as WSO2's
    own is, and there is no ``trustFile``, calls to other nodes trust that one.

    Raises
    ------
    ConfigError
        The key store cannot be read.
    """
    listener = config.listener
    file = listener.key_store_file
    if file is None or listener.scheme != "https":
        return config
    password, key_password = (one.reveal() if one else "" for one in (listener.key_store_password, listener.cert_pass))
    try:
        found = read_key_store(file.read_bytes(), password, key_password)
        opens = Secret(secrets.token_urlsafe(32))
        folder = Path(tempfile.mkdtemp(prefix="spdist-tls-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        key = _private(folder / "node.key", _encrypted(found.key, opens))
        chain = _private(folder / "node.crt", _pem(*found.certificates))
        root = found.certificates[-1]
        trusted = _private(folder / "trusted.crt", _pem(root)) if _self_signed(root) else None
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{config.path}: to read the key store {file}, the package {error.name} is needed, which is not installed",
            hint="pip install 'spdist[keystores]', or give certificateFile and keyFile (PEM files)",
        ) from error
    except OSError as error:
        raise ConfigError(f"{config.path}: the key store {file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(
            f"{config.path}: the key store {file} cannot be used: {error}",
            hint=f"`keytool -list -keystore {file}` asks for the password and shows what is in it",
        ) from error
    own = replace(listener, certificate_file=chain, key_file=key, key_password=opens, key_store_file=None)
    listeners = tuple(own if one is listener else one for one in config.http.listeners)
    http = replace(config.http, listeners=listeners, trust_file=config.http.trust_file or trusted)
    return replace(config, http=http)


def _private(file: Path, content: bytes) -> Path:
    # Made with its mode: at no time can others read the key.
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(content)
    return file


def _pem(*certificates: bytes) -> bytes:
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode()


def _encrypted(key: bytes, password: Secret) -> bytes:
    """Return a key as PEM that only `password` opens."""
    from cryptography.hazmat.primitives import serialization as form

    encryption = form.BestAvailableEncryption(password.reveal().encode())
    return form.load_der_private_key(key, None).private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption)


def _self_signed(certificate: bytes) -> bool:
    from cryptography.x509 import load_der_x509_certificate

    read = load_der_x509_certificate(certificate)
    return read.issuer == read.subject
