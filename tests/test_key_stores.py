"""Key stores of Java: what keytool has written becomes PEM files that nobody else can use."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jks
import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec

from spdist.config import Config, Secret, load_config
from spdist.config.key_stores import KeyStore, read_key_store, with_pem_files
from spdist.errors import ConfigError
from tests.test_config import LEAST, LISTENERS

Keytool = Callable[..., None]


@pytest.fixture
def keytool(tmp_path: Path) -> Keytool:
    """Run Java's keytool on a key store in the test's directory."""

    def run(store: str, *arguments: str) -> None:
        words = ["keytool", "-keystore", str(tmp_path / store), "-storepass", "geheim-store", *arguments]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def make(keytool: Keytool, store: str, kind: str, *more: str) -> None:
    pair = ("-genkeypair", "-alias", "own", "-keyalg", "EC", "-storetype", kind, "-dname", "CN=localhost")
    keytool(store, *pair, "-ext", "SAN=dns:localhost", *more)


def config_of(tmp_path: Path, store: str, more: str = "") -> Config:
    listener = f"id: own, host: 0.0.0.0, port: 9443, scheme: https, keyStoreFile: {store}{more}"
    told = LEAST.replace("scheme: http,", "scheme: https,").replace(LISTENERS, f"[{{{listener}}}]")
    (tmp_path / "deployment.yaml").write_text(told)
    environment = {"P": "pw", "STORE": "geheim-store", "KEY": "geheim-key", "WRONG": "geheim-wrong"}
    return load_config(tmp_path, environment=environment)


def loaded(config: Config) -> ssl.SSLContext:
    listener = config.listener
    assert listener.certificate_file is not None and listener.key_file is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    password = listener.key_password.reveal() if listener.key_password else ""
    context.load_cert_chain(listener.certificate_file, listener.key_file, password)
    return context


STORE = ", keyStorePassword: '${env:STORE}'"


@pytest.mark.parametrize("kind", ["JKS", "JCEKS", "PKCS12"])
def test_what_keytool_writes_becomes_pem(tmp_path: Path, keytool: Keytool, kind: str) -> None:
    """Its name says nothing: keytool has written PKCS#12 into files called .jks since Java 9."""
    same = ("-keypass", "geheim-store")
    make(keytool, "node.jks", kind, *same)
    config = with_pem_files(config_of(tmp_path, "node.jks", STORE))
    loaded(config)
    listener = config.listener
    assert listener.key_store_file is None
    assert listener.key_file is not None and listener.certificate_file is not None
    folder = listener.key_file.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {one.name: one.stat().st_mode & 0o777 for one in folder.iterdir()} == {
        "node.key": 0o600,
        "node.crt": 0o600,
        "trusted.crt": 0o600,
    }
    assert "BEGIN ENCRYPTED PRIVATE KEY" in listener.key_file.read_text()
    with pytest.raises(ssl.SSLError):
        loaded(replace(config, http=replace(config.http, listeners=(replace(listener, key_password=Secret("x")),))))
    # It is signed by itself, and other nodes have the same one with WSO2.
    assert config.http.trust_file is not None
    assert config.http.trust_file.read_text() == listener.certificate_file.read_text()
    assert "geheim" not in repr(config) + config.explain()


def test_a_key_may_have_a_password_of_its_own(tmp_path: Path, keytool: Keytool) -> None:
    make(keytool, "node.jks", "JKS", "-keypass", "geheim-key")
    loaded(with_pem_files(config_of(tmp_path, "node.jks", STORE + ", certPass: '${env:KEY}'")))
    with pytest.raises(ConfigError, match=r"certPass is wrong, or the file is damaged .*\n.*keytool -list"):
        with_pem_files(config_of(tmp_path, "node.jks", STORE))


def test_the_chain_is_complete_and_only_what_signs_itself_is_trusted(tmp_path: Path, keytool: Keytool) -> None:
    make(keytool, "ca.jks", "PKCS12", "-ext", "bc=ca:true")
    make(keytool, "node.jks", "JKS", "-keypass", "geheim-store")
    request, signed, root = (str(tmp_path / name) for name in ("node.csr", "node.crt", "ca.crt"))
    keytool("node.jks", "-certreq", "-alias", "own", "-file", request)
    keytool("ca.jks", "-gencert", "-alias", "own", "-rfc", "-infile", request, "-outfile", signed)
    keytool("ca.jks", "-exportcert", "-alias", "own", "-rfc", "-file", root)
    keytool("node.jks", "-importcert", "-noprompt", "-alias", "ca", "-file", root)
    keytool("node.jks", "-importcert", "-noprompt", "-alias", "own", "-file", signed)
    config = with_pem_files(config_of(tmp_path, "node.jks", STORE))
    loaded(config)
    _, authority = read_key_store((tmp_path / "node.jks").read_bytes(), "geheim-store").certificates
    assert ssl.DER_cert_to_PEM_cert(authority).split() == Path(root).read_text().split()
    assert config.http.trust_file is not None
    assert config.http.trust_file.read_text() == ssl.DER_cert_to_PEM_cert(authority)
    given = replace(config_of(tmp_path, "node.jks", STORE))
    given = replace(given, http=replace(given.http, trust_file=tmp_path / "mine.crt"))
    assert with_pem_files(given).http.trust_file == tmp_path / "mine.crt"


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_wrong_password_is_told_without_it(tmp_path: Path, keytool: Keytool, kind: str) -> None:
    make(keytool, "node.jks", kind, "-keypass", "geheim-store")
    for more in (", keyStorePassword: '${env:WRONG}'", ""):
        with pytest.raises(ConfigError, match=r"the key store .*node\.jks cannot be used: keyStorePassword") as caught:
            with_pem_files(config_of(tmp_path, "node.jks", more))
        assert "geheim" not in str(caught.value)


def test_files_that_are_no_key_store_of_a_node_are_told(tmp_path: Path, keytool: Keytool) -> None:
    with pytest.raises(ConfigError, match=r"the key store .*none\.jks cannot be read: No such file"):
        with_pem_files(config_of(tmp_path, "none.jks", STORE))
    for content in (b"", b"\xfe\xed\xfe\xed\0\0\0\2", b"\xfe\xed\xfe\xed" + bytes(range(256)), b"not a key store"):
        (tmp_path / "odd.jks").write_bytes(content)
        with pytest.raises(ConfigError, match=r"the key store .*odd\.jks cannot be used"):
            with_pem_files(config_of(tmp_path, "odd.jks", STORE))
    make(keytool, "node.jks", "JKS", "-keypass", "geheim-store")
    keytool("node.jks", "-genkeypair", "-alias", "two", "-keyalg", "EC", "-dname", "CN=b", "-keypass", "geheim-store")
    with pytest.raises(ConfigError, match="it must hold one private key, and has 2"):
        with_pem_files(config_of(tmp_path, "node.jks", STORE))
    keytool("node.jks", "-delete", "-alias", "two")
    keytool("node.jks", "-delete", "-alias", "own")
    with pytest.raises(ConfigError, match="it must hold one private key, and has 0"):
        with_pem_files(config_of(tmp_path, "node.jks", STORE))


def test_a_key_without_a_certificate_is_told(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    der = key.private_bytes(form.Encoding.DER, form.PrivateFormat.PKCS8, form.NoEncryption())
    entry = jks.PrivateKeyEntry.new("own", [], der, "pkcs8")
    (tmp_path / "node.jks").write_bytes(jks.KeyStore.new("jks", [entry]).saves("geheim-store"))
    with pytest.raises(ConfigError, match="no certificate of its key"):
        with_pem_files(config_of(tmp_path, "node.jks", STORE))


def test_a_node_without_a_key_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(LEAST)
    config = load_config(tmp_path, environment={"P": "pw"})
    assert with_pem_files(config) is config


def test_a_package_that_is_not_installed_is_named(
    tmp_path: Path, keytool: Keytool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(keytool, "node.jks", "JKS", "-keypass", "geheim-store")
    monkeypatch.setitem(sys.modules, "jks", None)
    with pytest.raises(ConfigError, match=r"the package jks is needed.*\n.*pip install 'spdist\[keystores\]'"):
        with_pem_files(config_of(tmp_path, "node.jks", STORE))


def test_a_key_store_and_pem_files_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has keyStoreFile and PEM files; keep one of the two"):
        config_of(tmp_path, "node.jks", ", certificateFile: a.crt, keyFile: a.key")


def test_a_key_never_shows() -> None:
    assert repr(KeyStore(b"geheim", (b"x",))) == "KeyStore(1 certificates)"
