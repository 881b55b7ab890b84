"""What the guides say of security holds: its examples run as they stand, and its sentences are true of small apps."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest
from kafka.net.transport import KafkaSSLTransport
from typer.testing import CliRunner

import spdist
from spdist.__main__ import app
from spdist.config.allowed import Allowed, allowed_of
from spdist.config.standalone import load_standalone
from spdist.errors import AppValidationError, SiddhiAppError
from spdist.runtime.standalone import prepare
from spdist.transports.kafka.options import app_properties
from spdist.transports.options import Options

GUIDES = Path(__file__).parents[1] / "docs/guides"
APPS, SETTINGS = ((GUIDES / f"{name}.md").read_text(encoding="utf-8") for name in ("apps", "settings"))
#: In one line: sentences may be broken anywhere.
SECURITY = " ".join((GUIDES / "security.md").read_text(encoding="utf-8").split())


def test_the_example_runs_without_settings_and_writes_where_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"```sql\n(@app:name\('Orders'\).*?)```", APPS, re.DOTALL)
    config = load_standalone()
    prepare(text, allowed=allowed_of(config))
    assert config.files.directories == (tmp_path / "spdist-data/files",)
    with pytest.raises(AppValidationError, match="lies outside of the directories"):
        prepare(text.replace("totals.csv", "/tmp/totals.csv"), allowed=allowed_of(config))
    prepare(text.replace("totals.csv", "/tmp/totals.csv"), allowed=allowed_of(load_standalone(files=["/tmp"])))


def test_the_example_with_spark_runs_and_formats_are_those_that_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    chapter = APPS.partition("## Any Spark connector")[2].partition("\n## ")[0]
    (text,) = re.findall(r"```sql\n(.*?)```", chapter, re.DOTALL)
    prepare(text, allowed=allowed_of(load_standalone()))
    with pytest.raises(AppValidationError, match="cannot be 'delta' on this node"):
        prepare(text.replace("parquet", "delta"), allowed=allowed_of(load_standalone()))
    (settings,) = re.findall(r"```yaml\n(.*?)```", chapter, re.DOTALL)
    (tmp_path / "deployment.yaml").write_text(settings)
    config = load_standalone(tmp_path / "deployment.yaml")
    prepare(text.replace("parquet", "delta"), allowed=allowed_of(config))
    assert config.spark.packages == ("io.delta:delta-spark_4.1_2.13:4.2.0",)


def test_the_store_of_the_guide_is_accepted_and_its_secret_comes_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    (store,) = re.findall(r"`(@store\(type='rdbms', jdbc\.url=[^`]*)`", (GUIDES / "databases.md").read_text())
    spdist.check(f"{store} define table T (k string);")
    monkeypatch.setenv("SPDIST__SECRETS__SHOP", "geheim")
    assert allowed_of(load_standalone()).expand("${secret:SHOP}") == "geheim"
    assert "SPDIST__SECRETS__NAME" in APPS


@pytest.mark.parametrize("written", ["${env:HOME}", "${file:/etc/passwd}", "${secret:S}"])
def test_an_app_never_sees_variables_and_files_of_a_node(written: str) -> None:
    assert "never sees the variables and files of a node" in SECURITY
    app = "@sink(type='http', publisher.url='http://h/{}', @map(type='json')) define stream S (k string);"
    with pytest.raises(SiddhiAppError, match=r"'publisher\.url' of '@sink'"):
        spdist.check(app.format(written))


#: Of Kafka's clients, what reads files and variables of the node, loads classes, or runs commands.
HARMFUL = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "interceptor.classes": "X",
    "metric.reporters": "X",
    "partition.assignment.strategy": "X",
    "sasl.client.callback.handler.class": "X",
    "sasl.jaas.config": 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://h";',
    "sasl.kerberos.kinit.cmd": "/bin/sh",
    "sasl.login.class": "X",
    "sasl.oauthbearer.token.endpoint.url": "file:/etc/passwd",
    "security.providers": "X",
    "ssl.engine.factory.class": "X",
    "ssl.keystore.location": "/etc/passwd",
    "ssl.truststore.location": "/etc/passwd",
}


@pytest.mark.parametrize("name", HARMFUL)
def test_settings_of_kafka_name_no_file_class_or_command(name: str) -> None:
    assert "name no file, class or command" in SECURITY
    read = Options({"optional.configuration": f"{name}:{HARMFUL[name]}"}, "it", allowed=Allowed())
    with pytest.raises(AppValidationError, match=r"'optional\.configuration' of it has"):
        app_properties(read)
    spaced = Options({"optional.configuration": f"client.id:a, {name} : {HARMFUL[name]}"}, "it", allowed=Allowed())
    with pytest.raises(AppValidationError):
        app_properties(spaced)


def test_a_login_module_is_told_name_and_password_only() -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required username='u' password='p'"
    for more in (" keyTab='/etc/x';", "; com.sun.security.auth.module.Krb5LoginModule required;", ' debug="true";'):
        with pytest.raises(AppValidationError, match="no login with username and password"):
            app_properties(Options({"optional.configuration": f"sasl.jaas.config:{plain}{more}"}, "it"))
    found = app_properties(Options({"optional.configuration": f"sasl.jaas.config:{plain};"}, "it"))
    assert found == {"sasl.jaas.config": f"{plain};"}


def test_the_commands_for_a_cluster_with_tls_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = SETTINGS.partition("## A cluster with TLS")[2].partition("\n## ")[0]
    commands = [line.split()[3:] for line in section.splitlines() if line.startswith("python -m spdist ")]
    assert [one[0] for one in commands] == ["tls", "manager", "worker"]
    done = CliRunner().invoke(app, commands[0])
    assert done.exit_code == 0, done.output
    trust, *own = (Path(one) for one in re.findall(r'"(tls/[^"]+)"', section))
    assert own == [Path("tls/ann.crt"), Path("tls/ann.key")]
    spdist.connect("https://10.0.0.1:9543", password="x", trust_file=trust, certificate=(own[0], own[1])).close()
    for said in re.findall(r"`tls (\w+)", section):
        assert CliRunner().invoke(app, ["tls", said, "--help"]).exit_code == 0, said


def test_every_socket_of_ours_gets_its_tls_in_one_place() -> None:
    assert "TLS 1.2 is the minimum on all sockets of spdist" in SECURITY
    makers = re.compile(
        r"create_default_context|ssl\.SSLContext\(|create_ssl_context|verify=(True|False)|ssl_(cert|key)file="
    )
    root = Path(spdist.__file__).parent
    found = {str(one.relative_to(root)) for one in root.rglob("*.py") if makers.search(one.read_text())}
    assert found == {"transports/sockets/tls.py"}


def test_the_context_that_kafkas_client_makes_has_the_same_minimum() -> None:
    context = KafkaSSLTransport._build_ssl_context(KafkaSSLTransport.DEFAULT_CONFIG)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_what_remains_is_said() -> None:
    for word in ("without quotas", "connect to any address", "send every secret", "every database", "other apps"):
        assert word in SECURITY, word
