"""Settings as files of WSO2 and people have them: nested sections, older names, hosts, homes, addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from spdist.config import load_config
from spdist.config.allowed import allowed_of
from spdist.config.standalone import load_standalone
from spdist.errors import ConfigError
from tests.test_config import LEAST, NODE, ROOT, Load, load, others_told

__all__ = ["load"]


@pytest.mark.parametrize("host", ["http://h", "h:1", "[::1]", "h/x", "u@h", "[", "a b"])
def test_a_host_is_a_name_or_an_address(load: Load, host: str) -> None:
    with pytest.raises(ConfigError, match=r"httpsInterface\.host must be the name or the address of a host"):
        load(environment={"SPDIST__DEPLOYMENT__HTTPS_INTERFACE__HOST": host})
    for right in ("127.0.0.1", "::1", "node_1.example", "knöten"):
        more = {"SPDIST__DEPLOYMENT__HTTPS_INTERFACE__HOST": right, "SPDIST__HTTP__PLAIN_HTTP_ALLOWED": "true"}
        assert load(environment=more).deployment.https_interface.host == right


def test_the_home_of_nobody_is_a_name_like_any_other(load: Load, tmp_path: Path) -> None:
    config = load("transports: {log: {directory: '~no-such-user/t'}}")
    assert config.transports.log.directory == tmp_path / "~no-such-user/t"
    with pytest.raises(ConfigError, match="cannot read ~no-such-user/deployment"):
        load_config("~no-such-user/deployment.yaml")


def test_sections_may_be_written_inside_of_one_another(load: Load) -> None:
    siddhi = "siddhi: {{extensions: [{{extension: {{name: x}}}}], refs: [], properties: {{a: b}}, script: {{{}}}}}"
    config = load(siddhi.format("python.enabled: true"))
    assert config.script.python_enabled
    assert [note.partition(": ")[2].partition(": not used: ")[0] for note in others_told(config)] == [
        "siddhi.properties.a",
        "siddhi.extensions",
        "siddhi.refs",
    ]
    with pytest.raises(ConfigError, match=r"siddhi\.script\.python\.enable is not a key"):
        load(siddhi.format("python.enable: true"))
    with pytest.raises(ConfigError, match=r"siddhi\.sript is not a section .*\n.*did you mean siddhi\.script\?"):
        load("siddhi: {sript: {}}")
    with pytest.raises(ConfigError, match=r"siddhi\.script was given at .*:\d+; keep one of the two"):
        load("siddhi.script: {python.enabled: true}\nsiddhi: {script: {python.enabled: false}}")


def test_the_older_name_of_a_nodes_interface_is_understood(load: Load, tmp_path: Path) -> None:
    file = tmp_path / "old.yaml"
    file.write_text(LEAST.replace("httpsInterface", "httpInterface"))
    config = load_config(file, environment={"P": "pw"})
    assert config.deployment.https_interface == load().deployment.https_interface


def test_an_address_at_which_nobody_listens_is_noticed(load: Load) -> None:
    for name, value in (("PORT", "9444"), ("SCHEME", "https")):
        (note,) = others_told(load(environment={f"SPDIST__DEPLOYMENT__HTTPS_INTERFACE__{name}": value}))
        assert "tells others http" in note and "but this node listens at http://127.0.0.1:" in note


def test_both_spellings_of_a_url_at_once_are_refused(load: Load) -> None:
    with pytest.raises(ConfigError, match="mean the same"):
        load(
            "wso2.datasources: {dataSources: [{name: A, url: 'sqlite:///a', definition: {configuration: {jdbcUrl: 'sqlite:///b'}}}]}"
        )


# ------------------------------------------------------------------------------------------------- several active nodes
def test_the_shard_of_a_node_has_its_name_or_that_of_its_managers(load: Load) -> None:
    assert (load().shard_id, load().properties.partition_by_id) == ("n1", False)
    named = load("siddhi.properties: {partitionById: true, shardId: 7}")
    allowed = allowed_of(named)
    assert (allowed.shard_id, allowed.partition_by_id) == ("7", True)
    assert load(environment={"SPDIST__PROPERTIES__SHARD_ID": "x"}).shard_id == "x"
    with pytest.raises(ConfigError, match=r"did you mean siddhi\.properties\.partitionById\?"):
        load("siddhi.properties: {partitonById: true}")


def test_a_group_takes_its_shard_from_worker_to_worker() -> None:
    workers = [load_config(ROOT / "conf/worker", environment={**NODE, "SPDIST_NODE_ID": id}) for id in ("a", "b")]
    assert [worker.shard_id for worker in workers] == ["sp", "sp"]


def test_an_app_alone_has_the_shard_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text("siddhi: {properties: {shardId: left}}\n")
    assert allowed_of(load_standalone(file)).shard_id == "left"
    assert allowed_of(load_standalone(directory=tmp_path)).shard_id == ""
