"""`spdist config convert`: a file of WSO2 SP becomes one of ours that means the same, without its passwords."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from spdist.config import load_config
from spdist.config.converting import convert
from tests.test_config import LEAST
from tests.test_config_wso2 import FILES, PLAIN, ROOT, role_of


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_converted_file_means_the_same_and_has_no_password(file: Path, tmp_path: Path) -> None:
    new = tmp_path / "spdist/deployment.yaml"
    new.parent.mkdir()
    converted = convert(file, new, environment={})
    new.write_text(converted.text)
    environment = {one.variable: one.value.reveal() for one in converted.secrets}
    old = load_config(file, role=role_of(file), environment=PLAIN)
    config = load_config(new, role=role_of(file), environment=environment)
    assert [note for note in config.notes if "without the section transports" not in note] == []
    for section in ("carbon", "cluster", "deployment", "datasources"):
        assert getattr(config, section) == getattr(old, section), section
    assert config.listener == old.listener
    assert config.auth.users == old.auth.users
    assert config.transports.kafka == old.transports.kafka
    assert config.transports.nats == old.transports.nats
    if "state.persistence" in file.read_text():
        assert config.state_persistence.location == old.state_persistence.location or old.state_persistence.in_database
    for one in converted.secrets:
        assert f"# - {one.variable}: {file}:" in converted.text
        assert f"${{env:{one.variable}}}" in converted.text
    values = [line for line in converted.text.splitlines() if not line.startswith("#") and "assword" in line]
    assert values
    assert all(re.fullmatch(r" *\w+: \$\{env:SPDIST_\w+\}", line) for line in values)
    assert converted.differences
    assert all(f"# - {one}" in converted.text for one in converted.differences)


def test_a_converted_file_that_stays_in_its_directory_keeps_its_relative_paths(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(
        LEAST + "state.persistence: {config: {location: 'state # 1'}}\nsiddhi.secrets: {A: '${env:P}', b: x}"
    )
    converted = convert(old, tmp_path / "new.yaml", environment={"P": "pw"})
    assert 'location: "state # 1"' in converted.text
    assert '  A: "${env:P}"\n  b: ${env:SPDIST_SECRET_B}\n' in converted.text
    old.write_text(old.read_text() + "\nsiddhi.files: {directories: 'a, /b'}")
    moved = convert(old, tmp_path / "there/new.yaml", environment={"P": "pw"})
    assert f'  directories:\n    - "{tmp_path}/a"\n    - "/b"\n' in moved.text
    assert f'location: "{tmp_path}/state # 1"' in moved.text


def test_a_password_of_a_user_is_named_with_how_to_read_it(tmp_path: Path) -> None:
    converted = convert(ROOT / "tests/config_wso2/manager_mysql.yaml", tmp_path / "new.yaml", environment={})
    (user,) = [one for one in converted.secrets if one.base64]
    assert user.variable == "SPDIST_USERS_ADMIN_PASSWORD"
    assert str(user).endswith("(in base64 there: `base64 -d` gives it)")
    names = [one.variable for one in converted.secrets]
    assert "SPDIST_DATA_SOURCES_SP_MGT_DB_PASSWORD" in names
    assert len(names) == len(set(names))


def test_equal_names_of_variables_are_told_apart(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    managers = "".join(f"\n    - {{host: h, port: {port}, username: u, password: p{port}}}" for port in (1, 2))
    old.write_text(LEAST.replace("deployment.config:", f"deployment.config:\n  resourceManagers:{managers}"))
    converted = convert(old, tmp_path / "new.yaml", environment={"P": "pw"})
    assert {one.variable: one.value.reveal() for one in converted.secrets} == {
        "SPDIST_RESOURCE_MANAGERS_H_PASSWORD": "p1",
        "SPDIST_RESOURCE_MANAGERS_H_PASSWORD_2": "p2",
    }


def test_names_of_several_lines_stay_in_their_comment(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    source = "{name: \"x\\ncluster.config: {enabled: maybe}\", definition: {configuration: {jdbcUrl: 'jdbc:h2:./a'}}}"
    old.write_text(f"{LEAST}\nwso2.datasources: {{dataSources: [{source}]}}\n")
    new.write_text(convert(old, new, environment={"P": "pw"}).text)
    assert "cluster.config: {enabled: maybe} can only be opened by Java" in new.read_text()
    assert "cluster.config" not in yaml.safe_load(new.read_text())


def command(*arguments: object, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    known = {**os.environ, **(environment or {})}
    called = [sys.executable, "-m", "spdist", *map(str, arguments)]
    return subprocess.run(called, cwd=ROOT, env=known, capture_output=True, text=True, check=False, timeout=60)


def test_the_command_writes_a_file_once(tmp_path: Path) -> None:
    old, new = ROOT / "tests/config_wso2/worker_mysql.yaml", tmp_path / "deployment.yaml"
    done = command("config", "convert", old, new)
    assert done.returncode == 0, done.stderr
    assert f"written: {new}" in done.stdout
    assert "secret: SPDIST_HTTPS_INTERFACE_PASSWORD: " in done.stdout
    assert "note: " in done.stdout
    new.write_text("mine")
    done = command("config", "convert", old, new)
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert new.read_text() == "mine"
    assert command("config", "convert", old, new, "--force").returncode == 0
    assert new.read_text().startswith("# From ")
    (tmp_path / "wrong.yaml").write_text("spark: {cores: many}")
    done = command("config", "convert", tmp_path / "wrong.yaml", tmp_path / "never.yaml")
    assert done.returncode == 1
    assert "error SP0200" in done.stderr
    assert not (tmp_path / "never.yaml").exists()
