"""Files of WSO2 SP 4.1 to 4.4 as they are: each loads for its role, and becomes one of ours; a node starts from one."""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from spdist.config import Config, load_config
from spdist.config.datasources import Pool
from spdist.config.standalone import load_standalone
from spdist.errors import ConfigError
from spdist.services.process import free_port
from tests.test_config import LEAST, Load, load

__all__ = ["load"]

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "tests/config_wso2").glob("*.yaml"))
PLAIN = {"SPDIST__PLAIN_PASSWORDS": "true"}
#: Of the files; WSO2's files use them everywhere.
PASSWORDS = {"wso2carbon", "admin", "root", "postgres"}


def role_of(file: Path) -> Any:
    return "manager" if file.stem.startswith("manager") else "worker"


def loaded(name: str) -> Config:
    file = ROOT / f"tests/config_wso2/{name}.yaml"
    return load_config(file, role=role_of(file), environment=PLAIN)


# ----------------------------------------------------------------------------------------------------- as they are
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_wso2_loads_for_its_role(file: Path) -> None:
    config = load_config(file, role=role_of(file), environment=PLAIN)
    assert config.listener.scheme == "https"
    assert config.listener.key_store_file == ROOT / "tests/config_wso2/resources/security/wso2carbon.jks"
    assert config.listener.key_store_password is not None
    assert config.listener.key_store_password.reveal() == "wso2carbon"
    assert config.deployment.https_interface.port == config.port
    assert config.deployment.https_interface.password.reveal() == "admin"
    (user,) = config.auth.users
    assert (user.username, user.password.reveal(), user.roles) == ("admin", "admin", ("admin",))
    assert config.carbon.id == f"wso2-sp-{config.deployment.https_interface.host}-{config.port}"
    assert not [note for note in config.notes if "tells others" in note]


def test_the_files_are_of_every_deployment() -> None:
    managers = {name: loaded(f"manager_{name}") for name in ("h2", "mysql", "postgresql", "nats")}
    kinds = {name: config.datasources["SP_MGT_DB"].url.partition(":")[0] for name, config in managers.items()}
    assert kinds == {
        "h2": "sqlite",
        "mysql": "mysql+pymysql",
        "postgresql": "postgresql+psycopg",
        "nats": "postgresql+psycopg",
    }
    assert [loaded(name).deployment.is_receiver_node for name in ("receiver_postgresql", "worker_mysql")] == [
        True,
        False,
    ]
    assert loaded("worker_h2").state_persistence.persistence_store == "FileSystemPersistenceStore"
    worker = loaded("worker_mysql")
    assert worker.state_persistence.in_database
    assert worker.datasources["PERSISTENCE_DB"].url == "mysql+pymysql://db.example:3306/PERSISTENCE_DB"
    assert [one.url for one in worker.deployment.resource_managers] == [
        "https://manager-1.example:9543",
        "https://manager-2.example:9543",
    ]


def test_bootstrap_urls_choose_kafka_and_a_nats_server_nats() -> None:
    mysql = loaded("manager_mysql").transports
    assert (mysql.default, mysql.kafka.bootstrap_servers) == ("kafka", "kafka-1.example:9092, kafka-2.example:9092")
    assert mysql.kafka.zookeeper_urls == "zoo-1.example:2181"
    older = loaded("manager_h2").transports
    assert (older.default, older.kafka.zookeeper_urls) == ("kafka", "localhost:2181")
    nats = loaded("manager_nats").transports
    assert (nats.default, nats.nats.urls) == ("nats", "nats://nats.example:4222")


@pytest.mark.parametrize(
    ("deployment", "kind"),
    [
        ("natsServerUrl: 'nats://n:4222', clusterId: c", "nats"),
        ("natsServerUrl: 'nats://n:4222', bootstrapURLs: 'k:9092'", "kafka"),
        ("natsServerUrl: 'nats://n:4222', bootstrapURLs: 'k:9092', appCreatorClass: a.b.NatsSiddhiAppCreator", "nats"),
        ("zooKeeperConfig: {zooKeeperURLs: 'z:2181'}", "kafka"),
        ("clusterId: c", "log"),
        ("appCreatorClass: a.b.SPSiddhiAppCreator", "log"),
    ],
)
def test_what_wso2_would_choose_is_chosen(tmp_path: Path, deployment: str, kind: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(LEAST.replace("deployment.config:", f"deployment.config:\n  {deployment}".replace(", ", "\n  ")))
    config = load_config(file, environment={"P": "pw"})
    assert config.transports.default == kind
    (note,) = [note for note in config.notes if "deployment.config." in note and "auth.configs" not in note]
    assert f"so {kind} carries events" in note or (kind == "log" and "neither bootstrapURLs nor" in note)
    file.write_text(file.read_text() + "transports: {default: log}")
    config = load_config(file, environment={"P": "pw"})
    assert config.transports.default == "log"
    assert any("not used, since the section transports decides" in note for note in config.notes)


HA = """\
wso2.carbon: {id: sp-node-1, type: wso2-sp}
wso2.transport.http:
  listenerConfigurations:
    - {id: default, host: 0.0.0.0, port: 9090}
    - {id: msf4j-https, host: 0.0.0.0, port: 9443, scheme: https, keyStoreFile: "${carbon.home}/k.jks", certPass: c}
wso2.datasources:
  dataSources:
    - name: WSO2_CLUSTER_DB
      definition: {type: RDBMS, configuration: {jdbcUrl: 'jdbc:mysql://db.example/CLUSTER', username: root}}
cluster.config:
  enabled: true
  groupId: sp
  coordinationStrategyClass: org.wso2.carbon.cluster.coordinator.rdbms.RDBMSCoordinationStrategy
  strategyConfig: {datasource: WSO2_CLUSTER_DB, heartbeatInterval: 1000, heartbeatMaxRetry: 2}
deployment.config:
  type: ha
  passiveNodeDetailsWaitTimeOutMillis: 300000
  passiveNodeDetailsRetrySleepTimeMillis: 500
  eventByteBufferQueueCapacity: 20000
  byteBufferExtractorThreadPoolSize: 5
  eventSyncServer: {host: localhost, port: 9893, advertisedHost: node-1.example, bossThreads: 10}
  eventSyncClientPool: {maxActive: 10, maxTotal: 10, maxIdle: 10, maxWait: 60000}
wso2.artifact.deployment: {updateInterval: 5}
auth.configs: {userManager: {userStore: {users: [{user: {username: admin, password: YWRtaW4=, roles: admin}}]}}}
"""


def test_a_node_of_the_two_node_deployment_is_a_server_of_a_group(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(HA)
    config = load_config(file, role="server", environment=PLAIN)
    assert (config.is_ha, config.cluster.group_id, config.shard_id) == (True, "sp", "sp")
    assert config.deployment.https_interface.host == "node-1.example"
    assert config.artifacts.update_interval_s == 5
    (unused,) = [note for note in config.notes if "durable before it is acknowledged" in note]
    for key in ("eventSyncServer", "eventSyncClientPool", "eventByteBufferQueueCapacity", "passiveNodeDetailsWaitTime"):
        assert key in unused
    file.write_text(HA.replace("advertisedHost: node-1.example, ", ""))
    notes = load_config(file, role="server", environment=PLAIN).notes
    assert any("give deployment.config.httpsInterface.host an address" in note for note in notes)


def test_a_worker_of_wso2_hears_that_it_has_to_know_what_its_manager_knows() -> None:
    file = ROOT / "tests/config_wso2/worker_h2.yaml"
    said = "without the section transports"
    assert [note for note in load_config(file, role="worker", environment=PLAIN).notes if said in note]
    given = {
        **PLAIN,
        "SPDIST__TRANSPORTS__DEFAULT": "kafka",
        "SPDIST__TRANSPORTS__KAFKA__BOOTSTRAP_SERVERS": "k:9092",
    }
    config = load_config(file, role="worker", environment=given)
    assert not [note for note in config.notes if said in note]
    assert config.transports.kafka.bootstrap_servers == "k:9092"


# ------------------------------------------------------------------------------------------------------- databases
DATABASE = (
    "wso2.datasources: {{dataSources: [{{name: A, definition: {{configuration: "
    "{{jdbcUrl: '{}', username: sa, password: '${{env:P}}'}}}}}}]}}"
)


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("jdbc:h2:./database/A;DB_CLOSE_ON_EXIT=FALSE;LOCK_TIMEOUT=60000", "{home}/database/A.sqlite"),
        ("jdbc:h2:file:/srv/db", "/srv/db.sqlite"),
        ("jdbc:h2:nio:x", "{home}/x.sqlite"),
        ("jdbc:h2:${sys:carbon.home}/${sys:wso2.runtime}/A", "{home}/{name}/A.sqlite"),
    ],
)
def test_a_file_of_h2_becomes_one_of_sqlite(load: Load, tmp_path: Path, written: str, place: str) -> None:
    config = load(DATABASE.format(written))
    database = config.datasources["A"]
    assert database.url == f"sqlite:///{place.format(home=tmp_path, name=tmp_path.name)}"
    assert (database.username, database.password) == ("", None)
    assert any("the H2 database A can only be opened by Java: the SQLite file" in note for note in config.notes)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        (
            "jdbc:sqlserver://db:1433;databaseName=sp",
            "Microsoft SQL Server is none: jdbc:sqlite:file, jdbc:post",
        ),
        ("jdbc:oracle:thin:@db:1521/sp", "Oracle is none"),
        ("jdbc:db2://db:50000/sp", "DB2 is none"),
        ("jdbc:h2:tcp://db/sp", "H2 is none"),
        ("jdbc:h2:mem:sp", "H2 is none"),
        ("jdbc:mysql://db/sp?user=u&password=geheim", "a URL without a password"),
        ("jdbc:h2:tcp://db/sp;PASSWORD=geheim", "a URL without a password"),
        ("postgresql://u:geheim@db/sp", "a URL without a password"),
    ],
)
def test_other_databases_are_refused_with_advice(load: Load, url: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(DATABASE.format(url))
    assert says in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_apps_are_kept_where_the_election_is() -> None:
    config = loaded("manager_mysql")
    assert (config.cluster.datasource, config.deployment.datasource) == ("WSO2_CLUSTER_DB", "WSO2_CLUSTER_DB")
    assert any("apps are kept in WSO2_CLUSTER_DB, where managers elect" in note for note in config.notes)


def test_what_only_a_java_driver_knows_is_told(load: Load) -> None:
    config = load(DATABASE.format("jdbc:mysql://db:3306/sp?useSSL=false&autoReconnect=true"))
    assert config.datasources["A"].url == "mysql+pymysql://db:3306/sp"
    assert any("the options of A's jdbcUrl after ? are of its Java driver" in note for note in config.notes)


def test_places_and_defaults_in_references(tmp_path: Path) -> None:
    home = tmp_path / "conf/worker"
    home.mkdir(parents=True)
    more = (
        "transports: {log: {directory: '${sys:carbon.home}/t'}}\n"
        "cluster.config: {groupId: '${env:GROUP,of ${sys:wso2.runtime}}'}\n"
    )
    (home / "deployment.yaml").write_text(LEAST + more.replace("of ${sys:wso2.runtime}", "sp-2"))
    config = load_config(home, environment={"P": "pw"})
    assert config.transports.log.directory == tmp_path / "t"
    assert config.cluster.group_id == "sp-2"
    config = load_config(home, environment={"P": "pw", "GROUP": "g", "CARBON_HOME": "/opt/wso2"})
    assert config.transports.log.directory == Path("/opt/wso2/t")
    assert config.cluster.group_id == "g"
    (home / "deployment.yaml").write_text(LEAST.replace("${env:P}", "${env:P,geheim}"))
    with pytest.raises(ConfigError, match="password must be a reference"):
        load_config(home, environment={})


# ------------------------------------------------------------------------------------------------------- passwords
def test_passwords_in_the_file_are_refused_without_the_switch_which_the_refusal_names() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(FILES[0], environment={})
    said = str(caught.value)
    assert "keyStorePassword must be a reference" in said
    assert "spdist.plainPasswords: true in this file, or SPDIST__PLAIN_PASSWORDS=true in the environment" in said
    assert "config convert OLD NEW" in said
    assert "wso2carbon" not in said


@pytest.mark.parametrize("switch", ["spdist.plainPasswords: true", "spdist: {plainPasswords: true}"])
def test_with_the_switch_they_are_accepted_and_told_without_the_passwords(tmp_path: Path, switch: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(LEAST.replace("${env:P}", "geheim") + switch)
    config = load_config(file, environment={})
    assert config.deployment.https_interface.password.reveal() == "geheim"
    (note,) = [note for note in config.notes if "passwords stand here as text" in note]
    assert note.startswith(f"{file}:5: ")
    assert "geheim" not in config.explain() + repr(config)
    file.write_text(file.read_text().replace("true", "false"))
    with pytest.raises(ConfigError, match="password must be a reference"):
        load_config(file, environment={})


USER = (
    "auth.configs: {{userManager: {{userStore: {{users: [{{user: {{username: a, password: {}, roles: admin}}}}]}}}}}}"
)


def test_the_password_of_a_user_is_base64_as_wso2_keeps_it(load: Load) -> None:
    def password(written: str, **environment: str) -> str:
        return load(USER.format(written), {**PLAIN, **environment}).auth.users[0].password.reveal()

    assert password(base64.b64encode("grün 1".encode()).decode()) == "grün 1"
    assert password("'${env:SHOP}'", SHOP="YWRtaW4=") == "YWRtaW4="
    for wrong in ("admin", "geheim12", "'x${env:P}'", "'ABCD'"):
        with pytest.raises(ConfigError, match="password must be in base64, as WSO2 keeps the passwords") as caught:
            password(wrong)
        assert wrong.strip("'") not in str(caught.value)


def test_other_secrets_of_the_file_follow_the_switch(load: Load, tmp_path: Path) -> None:
    more = "siddhi.secrets: {A: geheim}\ntransports: {kafka: {properties: 'sasl.jaas.config=geheim'}}"
    config = load(more, PLAIN)
    assert config.secrets.by_name["A"].reveal() == "geheim"
    assert config.transports.kafka.properties is not None
    assert "geheim" not in "\n".join(config.notes)
    for part in more.splitlines():
        with pytest.raises(ConfigError, match=r"(A|properties) must be a reference.*\n.*spdist\.plainPasswords"):
            load(part)
    with pytest.raises(ConfigError, match="properties must be lines of name=value"):
        load("transports: {kafka: {properties: nonsense}}", PLAIN)


def test_one_app_alone_understands_such_a_file() -> None:
    config = load_standalone(ROOT / "tests/config_wso2/manager_mysql.yaml", environment=PLAIN)
    assert config.transports.kafka.bootstrap_servers.startswith("kafka-1.example")
    assert config.datasources["SP_MGT_DB"].url == "mysql+pymysql://db.example:3306/SP_MGT_DB"
    assert any("passwords stand here as text" in note for note in config.notes)


def test_a_file_without_users_has_that_of_its_own_interface() -> None:
    config = loaded("manager_h2")
    assert any("without auth.configs, the user of deployment.config.httpsInterface" in one for one in config.notes)
    assert not any("without auth.configs" in note for note in loaded("manager_mysql").notes)


def test_explain_shows_such_a_file_without_the_switch_and_says_what_is_in_the_way() -> None:
    config = load_config(FILES[0], environment={}, explaining=True)
    said = config.explain()
    assert re.search(r"httpInterface\.password +\*\*\*", said)
    assert "passwords stand here as text, and a node does not start so; `spdist config convert" in said
    assert not [word for word in PASSWORDS - {"admin"} if re.search(rf" {word} ", said)]


# ------------------------------------------------------------------------------------------------------ a real node
def test_a_manager_starts_from_a_file_of_wso2(tmp_path: Path, eventually: Callable[..., Any]) -> None:
    """As it lies in WSO2's directories: H2 becomes SQLite, and it answers with the certificate of its key store."""
    home, temporary = tmp_path / "wso2", tmp_path / "tmp"
    for folder in (home / "conf/manager", home / "resources/security", temporary):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "tests/config_wso2/manager_h2.yaml", home / "conf/manager/deployment.yaml")
    store, certificate = home / "resources/security/wso2carbon.jks", tmp_path / "node.crt"
    keytool = ["keytool", "-keystore", str(store), "-storepass", "wso2carbon", "-alias", "wso2carbon"]
    made = "-genkeypair -keyalg RSA -storetype JKS -keypass wso2carbon -dname CN=localhost -ext SAN=dns:localhost"
    subprocess.run([*keytool, *made.split()], check=True, capture_output=True)
    subprocess.run([*keytool, "-exportcert", "-rfc", "-file", str(certificate)], check=True, capture_output=True)
    port = free_port()
    environment = {
        **os.environ,
        **PLAIN,
        "TMPDIR": str(temporary),
        # Not to meet other tests at WSO2's own port.
        "SPDIST__CARBON__PORTS_OFFSET": str(port - 9543),
        "SPDIST__DEPLOYMENT__HTTPS_INTERFACE__PORT": str(port),
    }
    log = tmp_path / "log.txt"
    started = [sys.executable, "-m", "spdist", "manager", "--conf", str(home / "conf/manager")]
    with log.open("w") as out:
        node = subprocess.Popen(started, cwd=ROOT, env=environment, stdout=out, stderr=out)
    try:
        trust = ssl.create_default_context(cafile=certificate)
        with httpx.Client(base_url=f"https://localhost:{port}", auth=("admin", "admin"), verify=trust) as client:

            def answers() -> bool:
                assert node.poll() is None, log.read_text()
                try:
                    return client.get("/siddhi-apps").status_code == 200
                except httpx.TransportError:
                    return False

            eventually(answers, "the manager answers", timeout_s=30)
            assert client.get("/siddhi-apps", auth=("admin", "wrong")).status_code == 401
        (folder,) = temporary.glob("spdist-tls-*")
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "node.key").stat().st_mode & 0o777 == 0o600
        assert (folder / "node.key").read_text().startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        # One database for both: that of the election.
        assert [one.name for one in (home / "wso2/manager/database").glob("*.sqlite")] == ["WSO2_CLUSTER_DB.sqlite"]
        node.send_signal(signal.SIGTERM)
        assert node.wait(15) == 0, log.read_text()
    finally:
        node.kill()
        node.wait()
    assert not folder.exists()
    said = log.read_text()
    assert "WARNING" in said
    assert "passwords stand here as text" in said
    assert "Traceback" not in said


# ---------------------------------------------------------------------------------------------------------- datasources
@pytest.mark.parametrize(
    ("written", "pool"),
    [
        ("", Pool(most=15, kept=5)),
        ("maxPoolSize: 50, minIdle: 10", Pool(most=50, kept=10)),
        ("maxPoolSize: 50", Pool(most=50, kept=50)),
        ("maxPoolSize: 10, minIdle: 20", Pool(most=10, kept=10)),
        ("minIdle: 2", Pool(most=15, kept=2)),
        ("maxPoolSize: 1", Pool(most=3, kept=1)),
        ("idleTimeout: 60000, connectionTimeout: 2500", Pool(recycle_ms=60_000, wait_ms=2_500)),
    ],
)
def test_the_settings_of_a_pool_are_those_of_hikaricp(load: Load, written: str, pool: Pool) -> None:
    config = load(datasource(f"configuration: {{jdbcUrl: 'jdbc:sqlite:a', {written}}}"))
    assert config.datasources["A"].pool == pool
    assert not [note for note in config.notes if "dataSources" in note]


def test_what_sqlalchemys_pool_does_not_have_is_told(load: Load) -> None:
    ours = "maxPoolSize: 50, idleTimeout: 60000"
    theirs = "connectionTestQuery: SELECT 1, validationTimeout: 30000, isAutoCommit: false, driverClassName: x.Driver"
    config = load(datasource(f"configuration: {{jdbcUrl: 'jdbc:sqlite:a', {ours}, {theirs}}}"))
    said = "\n".join(note for note in config.notes if "dataSources" in note)
    assert {key for key in re.findall(r"\w+", f"{ours} {theirs}") if f".{key}" in said} == {
        *("connectionTestQuery", "validationTimeout", "isAutoCommit", "driverClassName")
    }


def test_a_database_is_also_called_by_its_jndi_name_which_only_one_may_have(load: Load) -> None:
    written = datasource(
        "configuration: {jdbcUrl: 'jdbc:sqlite:a'}", "jndiConfig: {name: jdbc/A, useJndiReference: true}"
    )
    config = load(written)
    assert config.datasources["jdbc/A"] is config.datasources["A"]
    assert [note for note in config.notes if "jndiConfig.useJndiReference" in note]
    again = "{name: B, url: 'sqlite:///b', jndiConfig: {name: jdbc/A}}"
    with pytest.raises(ConfigError, match="has the name 'jdbc/A' twice"):
        load(written.replace("[{name: A", f"[{again}, {{name: A"))


def datasource(definition: str, more: str = "description: a") -> str:
    return f"wso2.datasources: {{dataSources: [{{name: A, {more}, definition: {{{definition}}}}}]}}"
