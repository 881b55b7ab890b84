"""TLS on the wire: what our contexts accept and refuse, and why; and that renewed certificates are taken over."""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from spdist.cluster.security.authority import Authority, Subject
from spdist.errors import TransportError
from spdist.transports.sockets.tls import VERIFY_CLIENT, Certificate, client_context, refusal_hint, server_context
from tests.transports.certificates import answering, authority, certificate, expired, foreign_client, greeted, old


@pytest.fixture
def made(tmp_path: Path) -> Path:
    authority(tmp_path / "tls")
    return tmp_path / "tls"


def foreign_server(made: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "node.crt", made / "node.key")
    return context


def test_a_handshake_is_of_version_1_3_or_at_least_1_2(made: Path) -> None:
    with answering(server_context(certificate(made, "node"))) as (port, _):
        assert greeted(client_context(made / "ca.crt"), port) == "TLSv1.3"
        capped = foreign_client(made)
        capped.maximum_version = ssl.TLSVersion.TLSv1_2
        assert greeted(capped, port) == "TLSv1.2"


def test_tls_1_1_is_refused_by_a_listener_and_by_a_client(made: Path) -> None:
    with answering(old(foreign_server(made))) as (port, _):
        assert greeted(old(foreign_client(made)), port) == "TLSv1.1", "it can be spoken here"
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version|unsupported.protocol"):
            greeted(client_context(made / "ca.crt"), port)
    context = server_context(certificate(made, "node"))
    context.set_ciphers("ALL:@SECLEVEL=0")  # so that it is the version that is refused
    with answering(context) as (port, seen), pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        greeted(old(foreign_client(made)), port)
    assert "unsupported protocol" in seen[0].lower()


def test_the_minimum_does_not_depend_on_the_settings_of_this_machine(made: Path) -> None:
    for context in (server_context(certificate(made, "node")), client_context()):
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        weak = [
            one["name"] for one in context.get_ciphers() if {"RC4", "3DES", "MD5", "NULL"} & {*one["name"].split("-")}
        ]
        assert weak == []


def test_another_authority_is_not_believed(made: Path, tmp_path: Path) -> None:
    authority(tmp_path / "other")
    with answering(server_context(certificate(made, "node"))) as (port, _):
        for trust in (tmp_path / "other/ca.crt", None):
            with pytest.raises(ssl.SSLCertVerificationError) as refused:
                greeted(client_context(trust), port)
            assert "authorities to trust" in refusal_hint(refused.value)


def test_a_certificate_for_another_host_or_of_a_user_is_not_believed(made: Path) -> None:
    Authority.open(made).issue(Subject("far", ("far.example", "10.0.0.5")), datetime.now(UTC), 5)
    with answering(server_context(certificate(made, "far"))) as (port, _):
        with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for '127\.0\.0\.1'") as refused:
            greeted(client_context(made / "ca.crt"), port)
        assert "name the host" in refusal_hint(refused.value)
    with (
        answering(server_context(certificate(made, "ann"))) as (port, _),
        pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable certificate purpose|unsupported certificate"),
    ):
        greeted(client_context(made / "ca.crt"), port)


def test_certificates_pass_the_strict_checks_of_later_pythons(made: Path) -> None:
    context = server_context(certificate(made, "node"), made / "ca.crt", VERIFY_CLIENT["require"])
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    client = client_context(made / "ca.crt", certificate(made, "ann"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    with answering(context) as (port, _):
        assert greeted(client, port) == "TLSv1.3"


def test_a_listener_that_requires_a_certificate(made: Path, tmp_path: Path) -> None:
    authority(tmp_path / "other")
    context = server_context(certificate(made, "node"), made / "ca.crt", VERIFY_CLIENT["require"])
    with answering(context) as (port, seen):
        for name in ("ann", "node"):
            assert greeted(client_context(made / "ca.crt", certificate(made, name)), port) == "TLSv1.3"
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required") as refused:
            greeted(client_context(made / "ca.crt"), port)
        assert "none was shown" in refusal_hint(refused.value)
        with pytest.raises(ssl.SSLError, match=r"(?i)unknown.ca") as refused:
            greeted(client_context(made / "ca.crt", certificate(tmp_path / "other", "ann")), port)
        assert "does not trust" in refusal_hint(refused.value)
    assert "peer did not return a certificate" in seen[2]
    optional = server_context(certificate(made, "node"), made / "ca.crt", VERIFY_CLIENT["optional"])
    with answering(optional) as (port, _):
        assert greeted(client_context(made / "ca.crt"), port) == "TLSv1.3"
        with pytest.raises(ssl.SSLError, match=r"(?i)unknown.ca"):
            greeted(client_context(made / "ca.crt", certificate(tmp_path / "other", "ann")), port)


def test_an_expired_certificate_is_refused_by_either_side(made: Path) -> None:
    expired(Authority.open(made), "ann")
    context = server_context(certificate(made, "node"), made / "ca.crt", VERIFY_CLIENT["require"])
    with answering(context) as (port, _):
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.expired") as refused:
            greeted(client_context(made / "ca.crt", certificate(made, "ann")), port)
        assert "tls renew" in refusal_hint(refused.value)
    expired(Authority.open(made), "node")
    with answering(server_context(certificate(made, "node"))) as (port, _):
        with pytest.raises(ssl.SSLCertVerificationError, match="expired") as expiry:
            greeted(client_context(made / "ca.crt"), port)
        assert "tls renew" in refusal_hint(expiry.value)


def test_renewed_certificates_are_taken_over_without_a_restart(made: Path, caplog: pytest.LogCaptureFixture) -> None:
    of = Authority.open(made)
    expired(of, "node")
    expired(of, "ann")
    server = server_context(certificate(made, "node"), made / "ca.crt", VERIFY_CLIENT["require"])
    client = client_context(made / "ca.crt", certificate(made, "ann"))
    with answering(server) as (port, _), caplog.at_level(logging.INFO):
        with pytest.raises(ssl.SSLError, match="expired"):
            greeted(client, port)
        of.renew("node", datetime.now(UTC), 5)
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.expired"):  # the client's
            greeted(client, port)
        of.renew("ann", datetime.now(UTC), 5)
        assert greeted(client, port) == "TLSv1.3"
        # What cannot be used changes nothing, and is said once.
        (made / "node.crt").write_text("no certificate")
        assert [greeted(client, port) for _ in range(2)] == ["TLSv1.3"] * 2
        assert len([one for one in caplog.records if "cannot be used" in one.message]) == 1
        # Half of a pair, too, until the other half is there.
        (made / "node.crt").write_bytes((made / "ann.crt").read_bytes())
        assert greeted(client, port) == "TLSv1.3"
        (made / "node.crt").unlink()
        assert greeted(client, port) == "TLSv1.3"


def test_files_that_cannot_be_used_are_named(made: Path, tmp_path: Path) -> None:
    for wrong in (lambda: client_context(tmp_path / "none.pem"), lambda: client_context(made / "node.key")):
        with pytest.raises(TransportError, match=r"authorities of .*(none\.pem|node\.key)"):
            wrong()
    with pytest.raises(TransportError, match=r"node\.crt and .*ann\.key"):
        client_context(made / "ca.crt", (made / "node.crt", made / "ann.key"))
    with pytest.raises(TransportError, match=r"node\.crt"):
        client_context(made / "ca.crt", made / "node.crt")  # without its key


def test_certificate_and_key_may_stand_in_one_file_and_the_key_may_have_a_password(made: Path) -> None:
    both = made / "ann.pem"
    both.write_bytes((made / "ann.crt").read_bytes() + (made / "ann.key").read_bytes())
    context = server_context(certificate(made, "node"), made / "ca.crt", VERIFY_CLIENT["require"])
    with answering(context) as (port, _):
        assert greeted(client_context(made / "ca.crt", str(both)), port) == "TLSv1.3"
        key = serialization.load_pem_private_key((made / "ann.key").read_bytes(), None)
        locked = serialization.BestAvailableEncryption(b"geheim")
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        (made / "ann.key").write_bytes(key.private_bytes(*form, locked))
        files = made / "ann.crt", made / "ann.key"
        own = Certificate(*files, "geheim")
        assert greeted(client_context(made / "ca.crt", own), port) == "TLSv1.3"
        assert "geheim" not in repr(own)
        with pytest.raises(TransportError, match=r"ann\.key"):  # and nobody is asked at the terminal
            client_context(made / "ca.crt", files)
