"""deployment.yaml: WSO2's keys, checked values, origins, secrets."""

from __future__ import annotations

import dataclasses
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from spdist.config import Config, Secret, load_config
from spdist.config.allowed import NotAllowed, allowed_of
from spdist.config.binding import environment_name, keys
from spdist.config.ignored import IGNORED
from spdist.config.sections import SECTIONS
from spdist.config.standalone import load_standalone
from spdist.config.users import BUILT_IN_ROLES
from spdist.errors import ConfigError

ROOT = Path(__file__).parents[1]
NODE = {
    "SPDIST_NODE_ID": "n1",
    "SPDIST_PORT": "0",
    "SPDIST_HOME": "/srv/a b",
    "SPDIST_PASSWORD": "s3cret#: 'x",
    "SPDIST_MANAGERS": "http://127.0.0.1:9001, http://127.0.0.1:9002",
}
LEAST = """\
wso2.carbon: {id: n1}
wso2.transport.http:
  listenerConfigurations: [{host: 127.0.0.1, port: 9443}]
deployment.config:
  httpsInterface: {host: 127.0.0.1, port: 9443, scheme: http, username: u, password: "${env:P}"}
"""

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a file made of the least that is needed and `more`."""

    def make(more: str = "", environment: dict[str, str] | None = None, **options: object) -> Config:
        file = tmp_path / "deployment.yaml"
        file.write_text(LEAST + more)
        return load_config(file, environment={"P": "pw", **(environment or {})}, **options)  # type: ignore[arg-type]

    return make


def others_told(config: Config) -> list[str]:
    """The notes of a file made of LEAST, but for that on its only user."""
    return [note for note in config.notes if "without auth.configs" not in note]


# ------------------------------------------------------------ the shipped files
@pytest.mark.parametrize(
    ("file", "role"),
    [
        ("manager/deployment.yaml", "manager"),
        ("worker/deployment.yaml", "worker"),
        ("server/deployment.yaml", "server"),
        ("local/manager.yaml", "manager"),
        ("local/worker.yaml", "worker"),
    ],
)
def test_shipped_files_load_for_their_role_without_notes(file: str, role: str) -> None:
    config = load_config(ROOT / "conf" / file, role=role, environment=NODE)  # type: ignore[arg-type]
    assert config.notes == ()
    assert (config.deployment.https_interface.password or config.auth.users[0].password).reveal() == "s3cret#: 'x"


def shown_keys(file: Path) -> set[str]:
    """Every key path of `file`, also those that are commented out (``# key: value``)."""
    live = re.sub(r"^(\s*)# (\w+: \S+)$", r"\1\2", file.read_text(), flags=re.MULTILINE)
    found: set[str] = set()

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict):
            for name, child in value.items():
                walk(child, f"{path}.{name}" if path else str(name))
        elif isinstance(value, list):
            for child in value:
                walk(child, f"{path}[]")
        else:
            found.add(path)

    walk(yaml.safe_load(live), "")
    return found


def test_shipped_files_show_every_key_and_no_other() -> None:
    known = {path for section, fields in SECTIONS.values() for path, _ in keys(fields, f"{section}.")}
    files = [ROOT / "conf" / role / "deployment.yaml" for role in ("manager", "worker", "server")]
    assert set().union(*map(shown_keys, files)) == known


@pytest.mark.parametrize("role", ["manager", "worker", "server"])
def test_every_key_of_the_shipped_files_has_a_comment(role: str) -> None:
    lines = (ROOT / "conf" / role / "deployment.yaml").read_text().splitlines()
    explained: set[str] = set()
    for number, line in enumerate(lines):
        match = re.fullmatch(r"\s*(?:# )?(?:- )?(\w+): \S+( \S+)?", line)
        if match is None or match.group(1) in explained:
            continue
        above = number - 1
        while re.fullmatch(r"\s*(-|definition:|configuration:|- user:|- role:)", lines[above]):
            above -= 1
        assert re.match(r"\s*# \S+ ", lines[above]), f"{role}:{number + 1}: {line.strip()} has no comment"
        explained.add(match.group(1))
    assert len(explained) > 20


@pytest.mark.parametrize("role", ["manager", "worker", "server"])
def test_the_shipped_values_are_the_defaults(load: Load, role: str) -> None:
    """What is in the file is what holds without the line; names and folders are examples."""
    examples = re.compile(
        r"\.(name|displayName|description|localDirectory|director(y|ies)|location|datasource|firstPasswordFile)$"
        r"|\[0\]\.|httpsInterface|deployment\.config\.type"
    )
    defaults = {entry.key: entry.value for entry in load().entries if entry.origin == "default"}
    shipped = load_config(ROOT / "conf" / role, environment=NODE)
    different = {entry.key for entry in shipped.entries if defaults.get(entry.key, entry.value) != entry.value}
    assert {key for key in different if not examples.search(key)} == set()


# ------------------------------------------------------------ local files
def test_templates_take_everything_from_the_environment() -> None:
    manager = load_config(ROOT / "conf/local/manager.yaml", role="manager", environment=NODE)
    assert manager.carbon.id == "n1"
    assert manager.datasources["LOCAL_DB"].url == "sqlite:////srv/a b/cluster.db"
    worker = load_config(ROOT / "conf/local/worker.yaml", role="worker", environment=NODE)
    assert [one.url for one in worker.deployment.resource_managers] == NODE["SPDIST_MANAGERS"].split(", ")
    assert worker.state_persistence.location == Path("/srv/a b/state")
    assert worker.transports.log.directory == manager.transports.log.directory


def test_a_bad_list_of_managers_is_named() -> None:
    with pytest.raises(ConfigError, match=r"resourceManagers must be a list of managers.*not 'here'"):
        load_config(ROOT / "conf/local/worker.yaml", environment={**NODE, "SPDIST_MANAGERS": "here"})


# ------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("cluster.config: {strategyConfig: {heartbeatIntervall: 5}}", "did you mean cluster.config.strategy"),
        ("cluster.config: {heartbeatInterval: 500}", "did you mean cluster.config.strategyConfig.heartbeatInterval?"),
        ("cluster.confg: {groupId: x}", "did you mean cluster.config?"),
        ("cluster.config: {strategyConfig: {heartbeatInterval: 1 day}}", "not '1 day'"),
        ("cluster.config: {strategyConfig: {heartbeatInterval: 5}}", "at least 50 ms"),
        ("cluster.config: {strategyConfig: {heartbeatMaxRetry: 0}}", "a whole number from 1 to 1000, not '0'"),
        ("cluster.config: {strategyConfig: {heartbeatMaxRetry: true}}", "a whole number"),
        ("cluster.config: {strategyConfig: 3}", "cluster.config.strategyConfig must be a mapping"),
        ("cluster.config: {groupId: [a]}", "groupId must be one value"),
        ("cluster.config: {groupId: }", "groupId has no value"),
        ("cluster.config: {groupId: a, groupId: b}", "stands here a second time"),
        ("cluster.config: {strategyConfig: {datasource: X}}", "datasource is 'X', but wso2.datasources has: none"),
        ("spark: {driverMemory: much}", "an amount of memory such as 512m or 2g, not 'much'"),
        ("spark: {packages: [delta-spark]}", "Maven coordinates such as io.delta:delta-spark"),
        ("transports: {default: pulsar}", "transports.default must be log or kafka or nats, not 'pulsar'"),
        ("transports: {default: kafka}", "transports.default is kafka, but transports.kafka.bootstrapServers is mis"),
        ("transports: {default: nats}", "transports.default is nats, but transports.nats.urls is missing"),
        ("transports: {kafka: {properties: 'sasl.jaas.config=x'}}", "a reference where passwords are among them"),
        ("transports: {kafka: {properties: nonsense}}", "lines of name=value"),
        ("auth.configs: {type: other}", "auth.configs.type must be local or external"),
        ("auth.configs: {userManager: {userStore: {users: [{name: a}]}}}", "a mapping with the one key 'user'"),
        ("wso2.datasources: {dataSources: 5}", "must be a list"),
        ("wso2.datasources: {dataSources: [{name: A}]}", "dataSources[0].definition.configuration.jdbcUrl is missing"),
        ("spark:\n  cores: ${env:CORES}", "the environment variable CORES, which is not set"),
        ("spark:\n  cores: ${sec:cores}", "of a kind not known here"),
        ("spark:\n  cores: ${file:nowhere}", "nowhere"),
        ("spark: [", "is not valid YAML"),
        (f"spark: {'[' * 1000}", "nests too deep"),
        ("spark: &here {cores: [*here]}", "holds an alias of what it stands in"),
        ('cluster.config: {groupId: "a\\nb"}', "groupId must be one line of text"),
        ('state.persistence: {config: {location: "a\\0b"}}', "location must be a path, which holds no NUL"),
        ('spark:\n  cores: "${file:a\\0b}"', "needs the file"),
    ],
)  # fmt: skip
def test_errors_name_the_place_and_what_would_be_right(load: Load, more: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(more)
    assert says in str(caught.value)
    assert "deployment.yaml" in str(caught.value)


def test_errors_name_the_line(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"deployment\.yaml:7: spark\.cores must be"):
        load("spark:\n  cores: none")


def test_another_type_and_a_file_that_is_not_there_are_refused(load: Load, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "hot.yaml").write_text(LEAST.replace("deployment.config:", "deployment.config:\n  type: hot"))
    with pytest.raises(ConfigError, match="type must be distributed or default or ha, not 'hot'"):
        load_config(tmp_path / "hot.yaml", environment={"P": "x"})


def test_a_truth_value_is_true_or_false(load: Load) -> None:
    with pytest.raises(ConfigError, match="plainHttpAllowed must be true or false, not 'maybe'"):
        load(environment={"SPDIST__HTTP__PLAIN_HTTP_ALLOWED": "maybe"})
    assert load(environment={"SPDIST__HTTP__PLAIN_HTTP_ALLOWED": "true"}).http.plain_http_allowed


@pytest.mark.parametrize(("role", "key"), [("manager", "strategyConfig.datasource"), ("worker", "resourceManagers")])
def test_a_role_needs_its_keys(load: Load, role: str, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key} is missing, and a {role} cannot do without it"):
        load(role=role)


# ------------------------------------------------------------ secrets
def test_a_password_is_a_reference_and_never_shown(load: Load, tmp_path: Path) -> None:
    config = load()
    secret = config.deployment.https_interface.password
    assert secret.reveal() == "pw"
    assert secret == Secret("pw")
    for shown in (repr(config), str(config), config.explain(), f"{secret}"):
        assert "pw" not in shown.replace("password", "").replace("environment P", "")
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_password_from_a_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("null\n")
    more = "wso2.datasources: {dataSources: [{name: A, url: postgresql://db/x, username: u, password: '${file:key}'}]}"
    password = load(more).datasources["A"].password
    assert password is not None
    assert password.reveal() == "null"


@pytest.mark.parametrize("written", ["admin", "YWRtaW4=", "x${env:P}"])
def test_a_password_written_into_the_file_is_refused_and_not_repeated(tmp_path: Path, written: str) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(LEAST.replace("${env:P}", written))
    with pytest.raises(ConfigError) as caught:
        load_config(file, environment={"P": "pw"})
    assert "password must be a reference" in str(caught.value)
    assert "${env:NAME}" in str(caught.value)
    assert written not in str(caught.value)


def test_an_empty_password_is_refused(load: Load) -> None:
    with pytest.raises(ConfigError, match="a password that is not empty"):
        load(environment={"P": ""})


# ------------------------------------------------------------ what apps may refer to
def test_secrets_are_named_and_never_shown(load: Load, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("geheim-file\n")
    more = "siddhi.secrets: {SHOP: '${env:SHOP_PW}', nats.token: '${file:token}'}"
    config = load(more, {"SHOP_PW": "geheim-env", "SPDIST__SECRETS__MORE": "geheim-more"})
    found = {name: one.reveal() for name, one in config.secrets.by_name.items()}
    assert found == {"SHOP": "geheim-env", "nats.token": "geheim-file", "MORE": "geheim-more"}
    assert "geheim" not in config.explain() + repr(config)
    lines = {line.split()[0]: line for line in config.explain().splitlines()}
    assert lines["siddhi.secrets.SHOP"].split()[1:] == ["***", f"{config.path}:6", "(environment", "SHOP_PW)"]
    assert lines["siddhi.secrets.MORE"].endswith("environment SPDIST__SECRETS__MORE")
    assert load("siddhi.secrets:\n  # SHOP: ${env:SHOP_PW}\n").secrets.by_name == {}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("siddhi.secrets: {A: geheim}", "siddhi.secrets.A must be a reference"),
        ("siddhi.secrets: {A: '${env:NOT_SET}'}", "needs the environment variable NOT_SET, which is not set"),
        ("siddhi.secrets: {'a b': '${env:P}'}", "'a b' cannot be a name here"),
        ("siddhi.secrets: {A: {B: '${env:P}'}}", "must be one value"),
        ("siddhi.secrets: [A]", "siddhi.secrets must be a mapping of names to values"),
        ("siddhi.secrets: A", "siddhi.secrets must be a mapping of names to values"),
        ("siddhi.files: {directory: x}", "did you mean siddhi.files.directories?"),
        ("siddhi.files: {directories: [a, [b]]}", "must be one value"),
        ("siddhi.files: {directories: ''}", "must be a path"),
    ],
)
def test_wrong_secrets_and_directories_are_refused(load: Load, more: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(more)
    assert says in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_directories_of_apps(load: Load, tmp_path: Path) -> None:
    assert load().files.directories == (tmp_path / "siddhi-app-persistence/files",)
    assert "siddhi-app-persistence/files" in load().explain()
    assert load("siddhi.files: {directories: [a, /b]}").files.directories == (tmp_path / "a", Path("/b"))
    assert load("siddhi.files: {directories: 'a, /b'}").files.directories == (tmp_path / "a", Path("/b"))
    override = {"SPDIST__FILES__DIRECTORIES": "/c,/d"}
    assert load("siddhi.files: {directories: [a]}", override).files.directories == (Path("/c"), Path("/d"))


@pytest.mark.parametrize("listed", [".", "..", "siddhi-app-persistence", "topics", "/"])
def test_what_spdist_keeps_is_out_of_reach_whatever_is_listed(load: Load, tmp_path: Path, listed: str) -> None:
    allowed = allowed_of(load(f"siddhi.files: {{directories: {listed}}}\ntransports: {{log: {{directory: topics}}}}"))
    for path in ("deployment.yaml", "topics/App.S.sqlite", "siddhi-app-persistence/App/x", "topics"):
        with pytest.raises(NotAllowed):
            allowed.bounded(str(tmp_path / path))
    assert allowed_of(load()).bounded("x") == tmp_path / "siddhi-app-persistence/files/x"


def test_other_processes_get_passwords_in_a_private_file_only(load: Load, tmp_path: Path) -> None:
    more = """siddhi.secrets: {SHOP: '${env:P}'}
wso2.datasources: {dataSources: [{name: DB, url: 'postgresql://db/x', username: u, password: '${env:Q}'}]}"""
    config = load(more, {"P": "geheim-p", "Q": "geheim-q"})
    sent = pickle.dumps(allowed_of(config).for_tasks(config.datasources, tmp_path))
    assert b"geheim" not in sent
    received = pickle.loads(sent)
    assert received.expand("<${secret:SHOP}>") == "<geheim-p>"
    database, password = received.datasource("DB")
    assert (database.url, database.username, password.reveal()) == ("postgresql://db/x", "u", "geheim-q")
    assert Path(received.private).stat().st_mode & 0o777 == 0o600
    with pytest.raises(NotAllowed, match="names the secret OTHER"):
        received.expand("${secret:OTHER}")


def test_one_app_alone_has_files_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_standalone().files.directories == (tmp_path / "spdist-data/files",)
    assert load_standalone(directory="d", files=["/tmp"]).files.directories == (tmp_path / "d/files", Path("/tmp"))
    file = tmp_path / "c/deployment.yaml"
    file.parent.mkdir()
    file.write_text("siddhi.files: {directories: own}")
    config = load_standalone("c", files=["more"])
    assert config.files.directories == (tmp_path / "c/own", tmp_path / "more")
    assert load_standalone("c", directory="d").files.directories == (tmp_path / "c/own",)


# ------------------------------------------------------------ values
@pytest.mark.parametrize(
    ("written", "ms"), [("750", 750), ("2s", 2000), ("500ms", 500), ("5 min", 300_000), ("1h", 3_600_000)]
)
def test_durations(load: Load, written: str, ms: int) -> None:
    assert load(f"spark: {{tickInterval: {written}}}").spark.tick_interval_ms == ms


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("jdbc:sqlite:/a/c.db", "sqlite:////a/c.db"),
        ("sqlite:////a/c.db", "sqlite:////a/c.db"),
        ("jdbc:postgresql://db:5432/sp?ssl=true", "postgresql+psycopg://db:5432/sp"),
        ("jdbc:mysql://db:3306/sp", "mysql+pymysql://db:3306/sp"),
        ("jdbc:mariadb://db/sp", "mariadb+pymysql://db/sp"),
        ("postgresql+psycopg://db/sp", "postgresql+psycopg://db/sp"),
    ],
)
def test_databases(load: Load, written: str, url: str) -> None:
    more = f"wso2.datasources: {{dataSources: [{{name: A, definition: {{configuration: {{jdbcUrl: '{written}'}}}}}}]}}"
    assert load(more).datasources["A"].url == url


def test_a_relative_sqlite_file_and_path_start_from_the_files_directory(load: Load, tmp_path: Path) -> None:
    config = load(
        "wso2.datasources: {dataSources: [{name: A, url: 'sqlite:///sub/c.db'}]}\ntransports: {log: {directory: t}}"
    )
    assert config.datasources["A"].url == f"sqlite:///{tmp_path / 'sub/c.db'}"
    assert config.transports.log.directory == tmp_path / "t"
    assert config.state_persistence.location == tmp_path / "siddhi-app-persistence"


@pytest.mark.parametrize(
    "url", ["jdbc:h2:mem:db", "sqlite://", "sqlite:///:memory:", "postgresql://u:pw@db/x", "jdbc:oracle:thin:@x"]
)
def test_other_databases_are_refused(load: Load, url: str) -> None:
    with pytest.raises(ConfigError, match=r"\.url must be"):
        load(f"wso2.datasources: {{dataSources: [{{name: A, url: '{url}'}}]}}")


@pytest.mark.parametrize("given", ["username: sa", "password: '${env:P}'"])
def test_a_user_of_sqlite_is_refused(load: Load, given: str) -> None:
    with pytest.raises(ConfigError, match="gives 'A' a user name or a password, but SQLite knows no users"):
        load(f"wso2.datasources: {{dataSources: [{{name: A, url: 'jdbc:sqlite:cluster.db', {given}}}]}}")


def test_roles_become_their_names_and_must_exist(load: Load) -> None:
    role = "{{role: {{id: 1, displayName: admin}}}}"
    users = f"auth.configs: {{{{userManager: {{{{userStore: {{{{roles: [{role}], users: [{{}}]}}}}}}}}}}}}"
    one = "{{user: {{username: {}, password: '${{env:P}}', roles: {}}}}}"
    assert load(users.format(one.format("a", "1"))).auth.users[0].roles == ("admin",)
    for known in BUILT_IN_ROLES:
        assert load(users.format(one.format("a", known))).auth.users[0].roles == (known,)
    with pytest.raises(ConfigError, match="the role '7', but does not define it"):
        load(users.format(one.format("a", "7")))
    with pytest.raises(ConfigError, match="the user 'a' twice"):
        load(users.format(one.format("a", "1") + ", " + one.format("a", "1")))


# ------------------------------------------------------------ listeners
LISTENERS = "[{host: 127.0.0.1, port: 9443}]"


def test_plain_http_stays_on_the_loopback(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(LEAST.replace(LISTENERS, "[{host: 0.0.0.0, port: 9443}]"))
    with pytest.raises(ConfigError, match="passwords would cross the network in clear"):
        load_config(file, environment={"P": "x"})
    file.write_text(LEAST.replace(LISTENERS, "[{host: 0.0.0.0, port: 9443}]\n  plainHttpAllowed: true"))
    assert load_config(file, environment={"P": "x"}).listener.host == "0.0.0.0"


def test_https_comes_first_and_needs_a_certificate(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    secure = "{id: secure, host: 0.0.0.0, port: 9444, scheme: https%s}"
    both = LISTENERS[:-1] + ", " + secure + "]"
    file.write_text(LEAST.replace(LISTENERS, both % ""))
    with pytest.raises(ConfigError, match="'secure' needs certificateFile and keyFile"):
        load_config(file, environment={"P": "x"})
    told = LEAST.replace("port: 9443, scheme: http,", "port: 9444, scheme: https,")
    file.write_text(told.replace(LISTENERS, both % ", certificateFile: a.crt, keyFile: a.key"))
    config = load_config(file, environment={"P": "x"})
    assert config.listener.id == "secure"
    assert config.listener.key_file == tmp_path / "a.key"
    (note,) = others_told(config)
    assert "'default' is not opened" in note


def test_the_offset_moves_the_port(load: Load) -> None:
    assert load(environment={"SPDIST__CARBON__PORTS_OFFSET": "2"}).port == 9445


# ------------------------------------------------------------ origins
def test_explain_tells_where_each_value_comes_from(load: Load) -> None:
    config = load("spark:\n  cores: ${env:CORES}\n", {"CORES": "3", "SPDIST__SPARK__DRIVER_MEMORY": "2g"})
    lines = {line.split()[0]: line for line in config.explain().splitlines()}
    assert lines["spark.cores"].endswith("deployment.yaml:7 (environment CORES)")
    assert " 3 " in lines["spark.cores"]
    assert lines["spark.driverMemory"].endswith("environment SPDIST__SPARK__DRIVER_MEMORY")
    assert lines["spark.mergeWait"].split()[1:] == ["1000", "default"]
    assert "***" in lines["deployment.config.httpsInterface.password"]


def test_the_environment_overrides_the_file(load: Load) -> None:
    assert environment_name("cluster", "heartbeat_interval_ms") == "SPDIST__CLUSTER__HEARTBEAT_INTERVAL"
    environment = {"SPDIST__CLUSTER__HEARTBEAT_INTERVAL": "2s", "SPDIST__DEPLOYMENT__HTTPS_INTERFACE__PORT": "1"}
    config = load("cluster.config: {strategyConfig: {heartbeatInterval: 70}}", environment)
    assert config.cluster.heartbeat_interval_ms == 2000
    assert config.deployment.https_interface.port == 1


def test_an_override_of_nothing_is_refused(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"did you mean SPDIST__CLUSTER__GROUP_ID\?"):
        load(environment={"SPDIST__CLUSTER__GROUPID": "x"})


# ------------------------------------------------------------ keys not used
@pytest.mark.parametrize("key", sorted(IGNORED))
def test_keys_of_wso2_that_are_not_used_leave_a_note(tmp_path: Path, key: str) -> None:
    section = next((one for one, _ in SECTIONS.values() if key.startswith(f"{one}.")), None)
    document = yaml.safe_load(LEAST)
    if section is None:
        document[key] = {"any": ["thing"]}
    else:
        at = document.setdefault(section, {})
        *steps, last = key[len(section) + 1 :].split(".")
        for step in steps:
            name, is_list = step.removesuffix("[]"), step.endswith("[]")
            at = at.setdefault(name, [{"name": "A", "url": "sqlite:///a"}] if is_list else {})
            at = at[0] if is_list else at
        at[last] = "${sec:not.resolved}"
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump(document))
    config = load_config(file, environment={"P": "x"})
    (note,) = others_told(config)
    assert IGNORED[key] in note
    assert note in config.explain()


def test_every_setting_is_read_by_something() -> None:
    """A key that nothing heeds is worse than an unknown one: it looks as if it worked."""
    files = [path for top in ("spdist", "spdist/panels") for path in (ROOT / top).rglob("*.py")]
    code = "\n".join(path.read_text() for path in files if path.name != "binding.py")
    fields = {field.name for _, fields in SECTIONS.values() for field in every_field(fields)}
    for_people = {"description"}
    assert {name for name in fields - for_people if not re.search(rf"\.{name}\b", code)} == set()


def every_field(fields: type) -> Iterator[dataclasses.Field[object]]:
    for field in dataclasses.fields(fields):
        inner = field.metadata["key"].fields
        if inner is None:
            yield field
        else:
            yield from every_field(inner)


def test_no_key_is_both_used_and_ignored() -> None:
    known = {path for section, fields in SECTIONS.values() for path, _ in keys(fields, f"{section}.")}
    assert not [key for key in IGNORED if any(f"{path}.".startswith(f"{key}.") for path in known)]


def test_a_path_that_leads_nowhere_says_what_is_wanted_and_from_where_it_counts() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(Path("nowhere/deployment.yaml"))
    assert "cannot read nowhere/deployment.yaml: No such file or directory" in str(caught.value)
    assert f"the directory that holds it; a relative path counts from {Path.cwd()}" in str(caught.value)
