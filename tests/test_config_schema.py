"""`spdist config schema`: editors take what a node takes, and refuse what it refuses."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from spdist.__main__ import app
from spdist.config import load_config
from spdist.config.binding import FieldKey, keys
from spdist.config.schema import comments, settings_schema
from spdist.config.sections import SECTIONS
from spdist.config.source import ResolvedScalar, scalar
from spdist.config.types import value_of
from spdist.errors import ConfigError

ROOT = Path(__file__).parents[1]
SHIPPED = [path for path in sorted((ROOT / "conf").rglob("*.yaml")) if path.name != "jobs.yaml"]
WSO2 = sorted((ROOT / "tests/config_wso2").glob("*.yaml"))
KEYS = [(path, key) for section, fields in SECTIONS.values() for path, key in keys(fields, f"{section}.") if key.kind]
SECTION_NAMES = [name for name, _ in SECTIONS.values()]


@cache
def schema() -> dict[str, Any]:
    done = CliRunner().invoke(app, ["config", "schema"])
    assert done.exit_code == 0, done.output
    printed: dict[str, Any] = json.loads(done.output)
    return printed


def errors(document: object) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema()).iter_errors(document)]


def test_it_is_a_schema_of_draft_2020_12() -> None:
    assert schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("file", [*SHIPPED, *WSO2], ids=lambda file: str(file.relative_to(ROOT)))
def test_shipped_files_and_those_of_wso2_are_valid(file: Path) -> None:
    assert errors(yaml.safe_load(file.read_text())) == []


LEAST = """\
wso2.carbon: {id: n1}
wso2.transport.http:
  listenerConfigurations: [{host: 127.0.0.1, port: 9443}]
deployment.config:
  httpsInterface: {host: 127.0.0.1, port: 9443, scheme: http, username: u, password: "${env:P}"}
"""
DATABASE = "wso2.datasources: {dataSources: [{name: A, definition: {configuration: {jdbcUrl: 'jdbc:h2:./x'}}}]}"
USERS = "auth.configs: {userManager: {userStore: {users: [{user: {username: a, password: '${env:P}', roles: admin}}]}}}"


@pytest.mark.parametrize(
    "more",
    [
        "spark: {cores: 4, driverMemory: 2g, mergeWait: 2s, tickInterval: 500}",
        "spark:\n  cores: ${env:CORES}\n  optimizeFor: start\n  packages: ['a:b:1', 'c:d:2']\n  formats: csv, json",
        "cluster.config: {groupId: 007, strategyConfig.heartbeatInterval: 2s}",
        "cluster: {config: {strategyConfig: {heartbeatMaxRetry: 3}, enabled: true}}",
        "wso2.artifact.deployment:\n  directory: ${sys:wso2.runtime}/apps",
        "spdist.plainPasswords: true",
        "spdist: {plainPasswords: false}",
        "siddhi: {secrets: {SHOP: '${env:P}'}, files: {directories: [a, /b]}, extensions: [{any: thing}]}",
        "siddhi.secrets:",
        "siddhi.properties: {partitionById: true, of.another: 1}",
        "wso2.metrics: {enabled: true}\nwso2.metrics.jdbc: {dataSource: [1]}",
        DATABASE,
        DATABASE.replace("definition: {configuration: {jdbcUrl: 'jdbc:h2:./x'}}", "url: 'sqlite:${env:P}.db'"),
        USERS,
        "state.persistence: {persistenceStore: org.wso2.IncrementalDBPersistenceStore, config.location: 's3://b/x'}",
        "transports: {default: nats, nats: {urls: 'nats://h:4222', timeout: 5 min}}",
        "logging: {format: json, kept: 0}",
    ],
)
def test_what_a_node_takes_is_valid(tmp_path: Path, more: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(LEAST + more)
    load_config(file, environment={"P": "cHc=", "CORES": "3"})
    assert errors(yaml.safe_load(LEAST + more)) == []


@pytest.mark.parametrize(
    ("more", "at"),
    [
        ("spark: {core: 4}", "$.spark"),
        ("spakr: {cores: 4}", "$"),
        ("spark: {cores: many}", "$.spark.cores"),
        ("spark: {cores: 0}", "$.spark.cores"),
        ("spark: {cores: '4'}", "$.spark.cores"),
        ("spark: {cores: 4.5}", "$.spark.cores"),
        ("spark: {cores: true}", "$.spark.cores"),
        ("spark: {cores: }", "$.spark.cores"),
        ("spark: {cores: [4]}", "$.spark.cores"),
        ("spark: {driverMemory: much}", "$.spark.driverMemory"),
        ("spark: {mode: automatic}", "$.spark.mode"),
        ("spark: {packages: [delta-spark]}", "$.spark.packages"),
        ("spark: 4", "$.spark"),
        ("spark:\n  cores: ${sec:cores}", "$.spark.cores"),
        ("spark: {tickInterval: 1 day}", "$.spark.tickInterval"),
        ("cluster: {config: {strategyConfig: {heartbeatInterval: 5}}}", "$.cluster.config.strategyConfig"),
        ("cluster.config: {strategyConfig.heartbeatIntervall: 2s}", "$['cluster.config']"),
        ("logging: {format: xml}", "$.logging.format"),
        ("spdist.plainPasswords: 1", "$['spdist.plainPasswords']"),
        ("siddhi.secrets: {a b: '${env:P}'}", "$['siddhi.secrets']"),
        ("siddhi.secrets: {A: {B: '${env:P}'}}", "$['siddhi.secrets'].A"),
        ("state.persistence: {persistenceStore: Other}", "$['state.persistence'].persistenceStore"),
        ("state.persistence: {config: {location: 'ftp://b'}}", "$['state.persistence'].config.location"),
        (USERS.replace("user: {", "usr: {"), "$['auth.configs'].userManager.userStore.users[0]"),
        (USERS.replace(", roles: admin", ""), "$['auth.configs'].userManager.userStore.users[0].user"),
        (DATABASE.replace("h2", "oracle"), "$['wso2.datasources'].dataSources[0].definition.configuration.jdbcUrl"),
    ],
)
def test_a_misspelt_key_and_a_wrong_value_are_not(tmp_path: Path, more: str, at: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(LEAST + more)
    with pytest.raises(ConfigError):
        load_config(file, environment={"P": "cHc="})
    found = errors(yaml.safe_load(LEAST + more))
    assert found
    assert all(one.startswith(at) for one in found)


#: What an item of a list must have.
NEEDED: dict[str, dict[str, object]] = {
    "listenerConfigurations[]": {"host": "h", "port": 1},
    "resourceManagers[]": {"host": "h", "port": 1},
    "dataSources[]": {"name": "A"},
    "roleMapping[]": {"role": "admin"},
    "user": {"username": "u", "password": "p", "roles": "admin"},
    "role": {"id": 1, "displayName": "admin"},
}


def within(path: str, value: object) -> dict[str, Any]:
    """The document of one value at the key path `path`."""
    section = max((name for name in SECTION_NAMES if path.startswith(f"{name}.")), key=len)
    for step in reversed(path[len(section) + 1 :].split(".")):
        value = {**NEEDED[step], **value} if isinstance(value, dict) and step in NEEDED else value
        value = {step.removesuffix("[]"): [value] if step.endswith("[]") else value}
    return {section: value}


def exact(kind: Any) -> bool:
    """Whether pydantic alone decides: ranges, truth values and choices."""
    return (
        kind is bool
        or get_origin(kind) is Literal
        or (get_origin(kind) is Annotated and all(hasattr(one, "metadata") for one in kind.__metadata__))
    )


#: Values of lists stand in one text, too; those by name have names of their own.
SINGLE = [(path, key) for path, key in KEYS if not (key.many or key.named)]


@given(
    st.sampled_from(SINGLE),
    st.text() | st.integers(-5, 70_000).map(str) | st.sampled_from(["true", "2s", "1g", "http", "log", "ha"]),
)
def test_the_schema_of_a_value_takes_what_the_node_takes(chosen: tuple[str, FieldKey], text: str) -> None:
    path, key = chosen
    value = scalar(text)
    if value is None:  # a key without a value is refused before its type is asked
        return
    found = errors(within(path, value))
    try:
        value_of(key.kind, ResolvedScalar(value, text, "", whole=True), ROOT)
    except ValueError:
        assert found or "${" in text or not exact(key.kind)
    else:
        assert found == []


def defaults(part: object) -> list[dict[str, Any]]:
    if isinstance(part, list):
        return [found for one in part for found in defaults(one)]
    if not isinstance(part, dict):
        return []
    own = [part] if "default" in part and isinstance(part.get("anyOf") or part.get("$ref"), list | str) else []
    return own + [found for one in part.values() for found in defaults(one)]


def test_what_editors_fill_in_is_right() -> None:
    shown = defaults(schema())
    assert len(shown) > 80
    for one in shown:
        assert Draft202012Validator({**one, "$defs": schema()["$defs"]}).is_valid(one["default"]), one


def test_every_key_is_described_by_the_comment_of_the_shipped_files() -> None:
    told = {path for file in SHIPPED for path in comments(file.read_text())}
    assert sorted({path for path, _ in KEYS} - told) == []
    heartbeat = schema()["$defs"]["cluster.config"]["properties"]["strategyConfig"]["properties"]["heartbeatInterval"]
    assert heartbeat["description"] == "How often each manager writes its heartbeat."
    key = schema()["$defs"]["wso2.transport.http"]["properties"]["listenerConfigurations"]["items"]["properties"]
    assert key["keyPassword"]["description"] == "Opens an encrypted key file."
    assert schema()["properties"]["wso2.metrics"]["deprecated"]


def test_without_comments_it_takes_the_same() -> None:
    bare = settings_schema({})
    Draft202012Validator.check_schema(bare)
    assert Draft202012Validator(bare).is_valid(yaml.safe_load(LEAST))
    assert not Draft202012Validator(bare).is_valid({"spark": {"core": 1}})
    assert dataclasses.MISSING not in bare.values()


def test_the_guide_shows_what_editors_take() -> None:
    page = (ROOT / "docs/guides/settings.md").read_text()
    blocks = [
        textwrap.dedent(block) for _, block in re.findall(r"^( *)```yaml\n(.*?)^\1```", page, re.DOTALL | re.MULTILINE)
    ]
    assert sum(block.startswith("# yaml-language-server: $schema=deployment.schema.json\n") for block in blocks) == 1
    for block in blocks:
        assert errors(yaml.safe_load(block)) == []
