"""An app never sees the node's variables and files, whatever option it writes them into; secrets show nowhere.

The options are found in the code of the connectors, so that a new one is tried, too.
"""

from __future__ import annotations

import ast as python
import base64
import logging
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spdist
from spdist.config import Secret
from spdist.config.allowed import Allowed
from spdist.connectors.file.source import FileSource
from spdist.connectors.http import sink as outlet_http
from spdist.connectors.http.source import HttpSource
from spdist.connectors.kafka.source import UserTopics
from spdist.connectors.nats.source import NatsSource
from spdist.connectors.registry import built_in, store_types
from spdist.connectors.sending import SendError, SinkContext, open_sink
from spdist.errors import AppValidationError, SiddhiAppError, SpdistError
from spdist.language import ast
from spdist.language.parsing.parser import parse
from spdist.language.types import Schema
from spdist.mapping.passing import ChunkPayload
from spdist.mapping.templates import Template
from spdist.stores import settings as store_module
from spdist.stores.settings import store_settings
from spdist.transports.delivery import Delivery
from spdist.transports.log import LogTransport
from spdist.transports.options import Options
from spdist.transports.sockets.connections import ConnectionLimits
from tests.transports.receiver import Receiver

#: Options that may name secrets, by type.
SECRETS = {kind: one.secrets for kind, one in (*store_types().items(), *built_in().items())}
CODE = Path(spdist.__file__).parent
#: Which modules read the options of each type.
MODULES = {
    "http": ("connectors/http/sink", "connectors/http/source"),
    "file": ("connectors/file/sink", "connectors/file/source"),
    "nats": ("connectors/nats/sink", "connectors/nats/link", "connectors/nats/source"),
    "kafka": (
        *(f"connectors/kafka/{name}" for name in ("sink", "records", "link", "source")),
        "transports/kafka/options",
    ),
    "log": ("connectors/log/sink", "transports/event_log"),
    "inMemory": ("connectors/memory/sink", "connectors/memory/source"),
}
#: Of the words in that code, those that no option can be called.
KEYWORDS = {"all", "for", "next", "type"}
READING = {"choice", "expanded", "flag", "get", "names_secret", "needed", "path", "pem", "secret", "text", "whole"}
#: What is read under a name that the code puts together.
COMPOSED = {"http": {"body.consumer.key", "body.consumer.secret"}, "kafka": {"optional.configuration"}}
VALUES = ("geheim-env", "geheim-file", "geheim-secret")
#: How apps have named what belongs to the node, and how they name a secret.
FORMS = ("${env:PW_ADMIN}", "env:PW_ADMIN", "${file:%s}", "file:%s", "${sys:PW_ADMIN}", "${secret:S}")


def calls(kind: str, methods: set[str]) -> Iterator[str]:
    """Yield the texts that the code of a type gives to some methods as their first argument."""
    for module in MODULES[kind]:
        for node in python.walk(python.parse((CODE / f"{module}.py").read_text())):
            if isinstance(node, python.Call) and isinstance(node.func, python.Attribute) and node.func.attr in methods:
                yield from (
                    one.value
                    for argument in node.args[:1]
                    for one in python.walk(argument)
                    if isinstance(one, python.Constant) and isinstance(one.value, str)
                )
            if isinstance(node, python.Subscript) and methods is READING and isinstance(node.slice, python.Constant):
                yield str(node.slice.value)


def options_of(kind: str) -> list[str]:
    names = {one for one in calls(kind, READING) if re.fullmatch(r"[a-z]+(\.[a-z]+)*", one)} - KEYWORDS
    return sorted(names | COMPOSED.get(kind, set()) | {"on.error"})


TRANSPORTS = [(kind, option) for kind in MODULES for option in options_of(kind)]
STORES = [
    (kind, option)
    for kind, own in store_module._TYPES.items()
    for option in sorted((own | {f"@cache {one}" for one in store_module._CACHE}) - {"type"})
]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A node with a variable and a file of its own, a secret, and a directory for apps."""
    private = tmp_path / "private"
    private.write_text("geheim-file\n")
    (tmp_path / "files").mkdir()
    monkeypatch.setenv("PW_ADMIN", "geheim-env")
    # Reading the authorities of this machine takes longer than a trial.
    monkeypatch.setattr(outlet_http.ssl, "create_default_context", lambda **_: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    allowed = Allowed((tmp_path / "files",), (tmp_path,), {"S": Secret("geheim-secret")})
    return SimpleNamespace(private=private, files=tmp_path / "files", allowed=allowed)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_the_options_are_found() -> None:
    assert {"publisher.url", "headers", "basic.auth.password", "proxy.host"} <= set(options_of("http"))
    assert {"file.uri", "move.after.process", "append"} <= set(options_of("file"))
    assert {"destination", "password", "truststore.file"} <= set(options_of("nats"))
    assert {"topic", "optional.configuration", "partition.no"} <= set(options_of("kafka"))


@pytest.mark.parametrize("kind", ["http", "kafka", "nats"])
def test_what_is_expanded_is_what_the_checker_lets_pass(kind: str) -> None:
    expanded = {one for one in calls(kind, {"secret", "expanded"}) if one}
    composed = (
        {"consumer.key", "consumer.secret"} if kind == "http" else {"optional.configuration"} & set(SECRETS[kind])
    )
    assert (expanded | composed | COMPOSED.get(kind, set())) - {".consumer.key", ".consumer.secret"} == set(
        SECRETS[kind]
    )


# ------------------------------------------------------------------------------------------------------ the checker
LOGIN = ("password", "secret", "token", "username", "consumer.key")


@pytest.mark.parametrize("kind", MODULES)
def test_the_checker_lets_pass_secrets_in_logins_only(kind: str) -> None:
    """An app for each option, with one line for each way to name something of the node."""
    for option in options_of(kind):
        lines, refused = [], set()
        for form in FORMS:
            value = form % "/etc/passwd" if "%s" in form else form
            needed = "topic='t', " if kind == "inMemory" and option != "topic" else ""
            what = "sink" if len(lines) % 2 else "source"
            written = f"@{what}(type='{kind}', {needed}{option}='{value}', @map(type='json'))"
            lines.append(f"{written} define stream S{len(lines)} (k string);")
            # A plain text such as file:/path is a path or a name where no login stands; nothing looks behind it.
            plain = not value.startswith("${") and not any(word in option for word in LOGIN)
            if not plain and not (value == "${secret:S}" and option in SECRETS[kind]):
                refused.add(len(lines))
        with pytest.raises(SiddhiAppError) as caught:
            spdist.check("\n".join(lines))
        found = [one for one in caught.value.errors if "of '@s" in one.message]
        assert {one.span.line for one in found if one.span} == refused, option
        assert all(one.hint for one in found)


def found_by_checker(text: str) -> list[str]:
    try:
        spdist.check(text)
    except SiddhiAppError as error:
        return [str(one) for one in error.errors or (error,)]
    return []


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ("@sink(type='http', basic.auth.password='env:PW')", "names a variable", "siddhi.secrets: {PW: '${env:PW}'}"),
        ("@sink(type='http', oauth.password='file:/run/pw')", "names a variable or file", "${file:/run/pw}"),
        ("@sink(type='log', prefix='${secret:S}')", "cannot hold a secret", "Nothing of this kind"),
        ("@sink(type='http', publisher.url='http://h/?k=${secret:S}')", "cannot hold a secret", "Secrets stand in"),
        ("@sink(type='nats', password='${secret:}')", "names no secret", "Write ${secret:NAME}"),
        ("@sink(type='nats', password='${secret:{{k}}}')", "names no secret", "Write ${secret:NAME}"),
        ("@sink(type='http', @map(type='text', @payload('${secret:S}')))", "cannot hold a secret", "Nothing of"),
        ("@sink(type='jms', password='${env:PW}')", "names a variable", "${secret:PW}"),
        (
            "@sink(type='http', @map(type='json'), @distribution(strategy='roundRobin', "
            "@destination(publisher.url='${env:PW}')))",
            "names a variable",
            "Secrets stand in",
        ),
    ],
)
def test_the_checker_says_what_to_write(text: str, told: str, hint: str) -> None:
    (problem,) = found_by_checker(f"{text} define stream S (k string);")
    assert told in problem and hint in problem


@pytest.mark.parametrize("definition", ["define table T (k string);", "define aggregation"])
def test_stores_are_checked_too(definition: str) -> None:
    if "table" not in definition:
        definition = "define aggregation A from S select k, count() as n group by k aggregate every sec...day;"
    for option, value in (
        ("datasource", "${env:PW_ADMIN}"),
        ("table.name", "${secret:S}"),
        ("password", "env:PW_ADMIN"),
    ):
        text = f"define stream S (k string); @store(type='rdbms', {option}='{value}') {definition}"
        (problem,) = found_by_checker(text)
        assert f"'{option}' of '@store'" in problem
        assert found_by_checker(text.replace(f"{option}='{value}'", "password='${secret:S}'")) == []


# ---------------------------------------------------------------------------------------------------- the connectors
BASE: dict[str, dict[str, str]] = {
    "http": {"basic.auth.username": "u", "basic.auth.password": "p"},
    "file": {"file.uri": "out.txt"},
    "nats": {
        "server.urls": "nats://127.0.0.1:1",
        "destination": "d",
        "auth.type": "user",
        "username": "u",
        "password": "p",
    },
    "kafka": {"bootstrap.servers": "127.0.0.1:1", "topic": "t", "topic.list": "t"},
    "log": {},
    "inMemory": {"topic": "t"},
}


def trials(kind: str, option: str, value: str, url: str) -> Iterator[dict[str, str]]:
    """Yield options with a reference in one of them: alone, and with what makes others count."""
    base = BASE[kind] | ({"publisher.url": f"{url}/in"} if kind == "http" else {})
    yield {**base, option: value}
    if kind == "http" and any(word in option for word in ("oauth", "consumer", "token")):
        plain = {name: text for name, text in base.items() if not name.startswith("basic")}
        oauth = {"token.url": f"{url}/token", "consumer.key": "k", "consumer.secret": "s"}
        yield {**plain, **oauth, option: value}
        yield {**plain, **oauth, "oauth.username": "u", "oauth.password": "p", option: value}
    if "proxy" in option:
        yield {**base, "proxy.host": "127.0.0.1", "proxy.port": "1", "proxy.username": "u", option: value}
    if option == "headers":
        yield {**base, option: f"'X: {value}'"}
    if option == "optional.configuration":
        yield {**base, option: f"client.id:{value}"}
        yield {**base, option: f"ssl.truststore.type:PEM,ssl.truststore.location:{value}"}
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{value}";'
        yield {**base, option: f"sasl.jaas.config:{login}"}


def tried(attempt: Callable[[], Any]) -> str:
    """Return what an attempt says that goes wrong: all errors that a log would show with it."""
    try:
        attempt()
    except (SpdistError, SendError, OSError) as error:
        told, cause = [], error
        while cause is not None:
            told.append(f"{cause} {cause!r} {getattr(cause, 'hint', '')}")
            cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)  # type: ignore[assignment]
        return "\n".join(told)
    return ""


@pytest.mark.parametrize("form", [" ".join(one for one in FORMS if one[0] == "$"), "env:PW_ADMIN", "file:%s"])
@pytest.mark.parametrize(("kind", "option"), TRANSPORTS)
def test_no_connector_sends_or_shows_it(
    kind: str, option: str, form: str, node: SimpleNamespace, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.answers = {"/token": [(200, '{"access_token": "t"}')] * 9, "/in": [(400, "no")] * 9}
    value = form % node.private if "%s" in form else form
    told = []
    for options in trials(kind, option, value, receiver.url):
        told.append(tried(lambda options=options: sent(kind, options, node)))
        told.append(tried(lambda options=options: received(kind, options, node)))
    shown = "\n".join([*told, caplog.text])
    written = "\n".join(f"{path} {path.read_text()}" for path in node.files.rglob("*") if path.is_file())
    out = f"{receiver.got}\n{written}"
    for secret in VALUES:
        assert secret not in shown
        if option not in SECRETS[kind]:
            assert secret not in out
    for own in VALUES[:2]:
        assert own not in out
    assert node.private.read_text() == "geheim-file\n"
    assert [path for path in node.private.parent.iterdir() if path.name not in ("private", "files", "topics")] == []


def sent(kind: str, options: dict[str, str], node: SimpleNamespace) -> None:
    transport = LogTransport(node.files.parent / "topics")
    sink = open_sink(kind, options, SinkContext("A", transport, {}, allowed=node.allowed))
    try:
        if kind != "kafka":  # there is no broker
            payload = ChunkPayload([(1, ("x",))]) if kind == "inMemory" else "x"
            sink.send([Delivery(kind, 0, 0, "S", options, payload, "A", 0)])
    finally:
        sink.close()


def received(kind: str, options: dict[str, str], node: SimpleNamespace) -> None:
    read = Options(options, f"the @source of type '{kind}'", allowed=node.allowed)
    context: Any = SimpleNamespace(options=read, app="A", stream="S", writer=SimpleNamespace(topic="A.S"))
    if kind == "http":
        HttpSource(context, lambda: None, ConnectionLimits())
    elif kind == "file":
        FileSource(context, node.files / "position")._paths()
    elif kind == "nats":
        NatsSource(context)
    elif kind == "kafka":
        UserTopics.of(read)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("kind", "option"), STORES)
def test_no_store_shows_it(kind: str, option: str, form: str, node: SimpleNamespace) -> None:
    value = form % node.private if "%s" in form else form
    place = "path='t.duckdb'" if kind == "duckdb" else "jdbc.url='jdbc:postgresql://db/shop', username='u'"
    nested = f", @Cache(size='1', {option.removeprefix('@cache ')}='{value}')" if option.startswith("@cache") else ""
    own = (
        place if nested else f"{option}='{value}'" if option in ("jdbc.url", "path") else f"{place}, {option}='{value}'"
    )
    if nested and option == "@cache size":
        nested = f", @Cache(size='{value}')"
    if option == "username":
        own = own.replace("username='u', ", "")
    tree = parse(f"@store(type='{kind}', {own}{nested}) define table T (k string);")
    definition = tree.definitions[0]
    assert isinstance(definition, ast.TableDefinition)
    found: list[Any] = []
    schema = Schema.of([("k", "string")])
    told = tried(lambda: found.append(store_settings(definition.annotations[0], "T", schema, node.allowed)))
    shown = f"{told}\n{found!r}"
    assert not [secret for secret in VALUES if secret in shown], shown
    if found:
        database = found[0].database
        revealed = {database.username, database.password.reveal() if database.password else ""}
        assert ("geheim-secret" in revealed) == (value == "${secret:S}" and option in SECRETS[kind])
        assert not {"geheim-env", "geheim-file"} & revealed


def test_an_event_names_no_secret(receiver: Receiver, node: SimpleNamespace) -> None:
    """What came with an event is never looked through for references."""
    schema = Schema.of([("k", "string")])
    filled = {
        "publisher.url": f"{receiver.url}/in",
        "headers": Template("'X-Own: ${secret:S}','X-Theirs: {{k}}'", schema).filled(("${secret:S}",)),
        "basic.auth.username": Template("{{k}}", schema).filled(("${secret:S}",)),
        "basic.auth.password": "p",
    }
    receiver.answers["/in"] = [(422, "you sent geheim-secret and dTpw")]
    told = tried(lambda: sent("http", filled, node))
    assert "answers 422 you sent ***" in told and "geheim-secret" not in told
    (_, _, headers, _) = receiver.got[0]
    assert (headers["x-own"], headers["x-theirs"]) == ("geheim-secret", "${secret:S}")
    assert base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode() == "${secret:S}:p"


def test_a_secret_that_is_not_there_is_named_with_its_place() -> None:
    read = Options({"password": "x${secret:OTHER}"}, "it", allowed=Allowed())
    with pytest.raises(AppValidationError, match="'password' of it names the secret OTHER, which this node") as error:
        read.secret("password")
    assert "siddhi.secrets: {OTHER: '${env:VARIABLE}'}" in (error.value.hint or "")
