"""``spdist tls``: an authority and its certificates as files; and what its printed settings make of a node."""

from __future__ import annotations

import re
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from typer.testing import CliRunner

from spdist.__main__ import app
from spdist.cluster.security.authority import Authority, Subject, issued_in
from spdist.config import load_config
from spdist.errors import ConfigError

ROOT = Path(__file__).parents[2]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def tls(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["tls", *map(str, arguments)])


def content(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def read(file: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(file.read_bytes())


def test_init_makes_an_authority_and_a_certificate_for_each_node_and_user(tmp_path: Path) -> None:
    place = tmp_path / "a/tls"
    done = tls("init", place, "--node", "manager-1=m1.example,10.0.0.5,::1", "--node", "worker-1", "--user", "ann")
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    pairs = {f"{name}.{end}" for name in ("ca", "manager-1", "worker-1", "ann") for end in ("crt", "key")}
    assert {*content(place)} == pairs
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}
    found = {one.file.stem: one for one in issued_in(place)}
    assert found["manager-1"].hosts == ("m1.example", "10.0.0.5", "::1")
    assert found["worker-1"].hosts == ("worker-1",)
    assert [one.kind.value for one in found.values()] == ["authority", "user", "node", "node"]
    assert "manager-1: node manager-1 for m1.example, 10.0.0.5, ::1; expires" in done.output
    assert not any(line in done.output for line in (place / "ca.key").read_text().splitlines())


def test_what_a_certificate_is_for(tmp_path: Path) -> None:
    made = Authority.create(tmp_path / "tls", NOW, 3650)
    node, user = Subject.node("n=n.example"), Subject.user("ann")
    purposes = {}
    for subject in (node, user):
        made.issue(subject, NOW, 365)
        of = read(tmp_path / f"tls/{subject.name}.crt")
        of.verify_directly_issued_by(read(tmp_path / "tls/ca.crt"))
        assert not of.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert of.not_valid_before_utc < NOW < of.not_valid_after_utc == NOW + timedelta(days=365)
        purposes[subject.name] = [*of.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value]
    assert purposes == {
        "n": [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH],
        "ann": [ExtendedKeyUsageOID.CLIENT_AUTH],
    }
    authority = read(tmp_path / "tls/ca.crt")
    limits = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical and limits.value.ca and limits.value.path_length == 0
    serials = {read(file).serial_number for file in (tmp_path / "tls").glob("*.crt")}
    assert len(serials) == 3 and min(serials) > 1 << 64


def test_a_certificate_ends_no_later_than_its_authority_which_can_be_renewed(tmp_path: Path) -> None:
    made = Authority.create(tmp_path / "tls", NOW, 100)
    assert made.issue(Subject.node("n"), NOW, 365).not_after == NOW + timedelta(days=100)
    later = NOW + timedelta(days=200)
    with pytest.raises(ConfigError, match="has expired"):
        made.issue(Subject.node("m"), later, 365)
    made.renew("ca", later, 3650)
    assert made.renew("n", later, 365).not_after == later + timedelta(days=365)
    read(tmp_path / "tls/n.crt").verify_directly_issued_by(read(tmp_path / "tls/ca.crt"))
    Authority.open(tmp_path / "tls")


def test_nothing_is_overwritten_unless_it_is_asked_for(tmp_path: Path) -> None:
    place = tmp_path / "tls"
    assert tls("init", place, "--node", "a").exit_code == 0
    before = content(place)
    for again in (("init", place, "--node", "b"), ("add", place, "--node", "b", "--node", "a")):
        done = tls(*again)
        assert done.exit_code == 1
        assert "is there already, and nothing was changed" in done.output and "--force" in done.output
        assert content(place) == before
    assert tls("add", place, "--node", "a", "--force").exit_code == 0
    after = content(place)
    assert after["a.key"] != before["a.key"] and after["ca.key"] == before["ca.key"]
    assert tls("init", place, "--node", "a", "--force").exit_code == 0
    assert content(place)["ca.key"] != before["ca.key"]


def test_renewal_keeps_the_key_and_the_hosts_and_needs_no_key_of_the_node(tmp_path: Path) -> None:
    place = tmp_path / "tls"
    tls("init", place, "--node", "a=a.example,10.0.0.1", "--node", "b", "--user", "u", "--days", "3")
    (place / "a.key").unlink()
    before = {one.file.stem: one for one in issued_in(place)}
    assert tls("show", place).exit_code == 1
    done = tls("renew", place)
    assert done.exit_code == 0, done.output
    after = {one.file.stem: one for one in issued_in(place)}
    for name in ("a", "b", "u"):
        assert after[name].hosts == before[name].hosts
        assert after[name].not_after > before[name].not_after
    assert after["ca"] == before["ca"]
    assert tls("show", place).exit_code == 0
    assert tls("renew", place, "ca", "--days", "4000").exit_code == 0
    assert "no certificate" in tls("renew", place, "c").output


def test_show_tells_what_has_expired_or_is_of_another_authority(tmp_path: Path) -> None:
    place = tmp_path / "tls"
    tls("init", place, "--node", "a=10.0.0.1", "--days", "40")
    done = tls("show", place)
    assert done.exit_code == 0
    assert re.search(
        r"^a: node a for 10\.0\.0\.1; expires \d{4}-\d\d-\d\d, (39|40) days left$", done.output, re.MULTILINE
    )
    done = tls("show", place, "--within", "60")
    assert done.exit_code == 1 and "a renewal of a " in done.output
    Authority.open(place).renew("a", datetime.now(UTC) - timedelta(days=50), 40)
    assert "EXPIRED" in tls("show", place, "--within", "0").output
    assert tls("show", place, "--within", "0").exit_code == 1
    tls("add", place, "--node", "b")
    tls("init", place, "--node", "a", "--force")
    done = tls("show", place)
    assert done.exit_code == 1
    assert re.findall("^(.*?): .*NOT SIGNED", done.output, re.MULTILINE) == ["b"]
    assert "was not signed by the authority" in tls("renew", place, "b").output
    assert tls("show", tmp_path).exit_code == 1


@pytest.mark.parametrize(
    "node", ["", "=h", "a/b=h", "../a=h", "ca=h", "a=", "a=h,", "a=h:1", "a=http://h", "a=1.2.3", "a=h h"]
)
def test_a_name_or_a_host_that_is_none_is_refused(tmp_path: Path, node: str) -> None:
    done = tls("init", tmp_path / "tls", "--node", node)
    assert done.exit_code == 1, done.output
    assert not (tmp_path / "tls").exists()


def test_a_node_has_one_certificate(tmp_path: Path) -> None:
    assert tls("init", tmp_path / "tls", "--node", "a=x", "--node", "a=y").exit_code == 1
    assert tls("init", tmp_path / "tls").exit_code == 2
    assert not (tmp_path / "tls").exists()


def test_a_directory_that_others_see_and_a_key_that_others_read_are_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    assert "chmod 700" in tls("init", shared, "--node", "a").output
    assert content(shared) == {}
    place = tmp_path / "tls"
    tls("init", place, "--node", "a")
    (place / "ca.key").chmod(0o640)
    done = tls("add", place, "--node", "b")
    assert done.exit_code == 1 and "chmod 600" in done.output
    (place / "ca.key").unlink()
    assert "has no authority" in tls("add", place, "--node", "b").output


def test_the_settings_that_are_printed_make_a_node(tmp_path: Path) -> None:
    done = tls("init", tmp_path / "tls", "--node", "manager-1=m1.example", "--node", "worker-1")
    assert done.exit_code == 0
    shown = re.findall(r"^  # into deployment\.yaml of (\S+);.*\n((?:  .*\n)+?)(?=\S)", done.output, re.MULTILINE)
    assert [name for name, _ in shown] == ["manager-1", "worker-1"]
    for role, (_, text) in zip(("manager", "worker"), shown, strict=True):
        settings = yaml.safe_load((ROOT / f"conf/{role}/deployment.yaml").read_text())
        printed = yaml.safe_load(text.replace("…", "9543"))
        settings["wso2.transport.http"] = printed["wso2.transport.http"]
        settings["deployment.config"]["httpsInterface"] |= printed["deployment.config"]["httpsInterface"]
        file = tmp_path / f"{role}.yaml"
        file.write_text(yaml.safe_dump(settings))
        config = load_config(file, role=role, environment={"SPDIST_PASSWORD": "x"})  # type: ignore[arg-type]
        assert config.notes == ()
        assert config.listener.ssl_verify_client == "require"
        assert config.listener.key_file is not None and config.listener.key_file.exists()
