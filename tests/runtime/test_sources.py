"""What sources receive becomes events in a topic: over HTTP, from files, from in-memory topics and NATS."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from spdist.config import Secret
from spdist.config.allowed import Allowed
from spdist.config.sections import Auth
from spdist.config.users import User
from spdist.connectors import receiving as module
from spdist.connectors.file.source import FileSource
from spdist.connectors.http.source import HttpSource
from spdist.connectors.memory.sink import InMemorySink
from spdist.connectors.receiving import NodeContext
from spdist.errors import AppValidationError, TransportError
from spdist.extension import catalog
from spdist.language.checking.checker import check
from spdist.language.parsing.parser import parse
from spdist.planning.standalone import standalone_assignment
from spdist.runtime.sources import Sources, sources_of
from spdist.services.process import free_port
from spdist.transports.base import Record, Repeats
from spdist.transports.delivery import Delivery
from spdist.transports.errors import read_errors
from spdist.transports.log import LogTransport
from spdist.transports.payloads.payload import Payload
from spdist.transports.rejects import fault_topic
from spdist.transports.sockets.logins import Logins

STREAM = "define stream S (k string, n int);"


class Fed:
    """An app's sources over a log, and what they have put into a topic."""

    def __init__(self, root: Path, source: str, rest: str = "", stream: str = STREAM) -> None:
        self.root = root
        self.text = f"@app:name('A') {source} {stream} {rest}"
        self.transport = LogTransport(root / "topics")
        checked = check(parse(self.text), catalog(), self.text)
        self.streams = checked.streams
        self.assignment = standalone_assignment(checked, self.text)
        for assigned in self.assignment.inputs:
            self.transport.ensure(assigned.topic, 1)
        self.users = Logins({"me": "pw", "other": "pw"})
        self.sources = self.made()

    def made(self) -> Sources:
        allowed = Allowed((self.root,), (self.root / "topics",), {"SOURCE": Secret("s3")})
        node = NodeContext(self.transport, self.root / "topics", lambda: self.users, allowed)
        return Sources(self.assignment, node)

    def again(self) -> None:
        """Start as another process would."""
        self.sources.stop()
        self.sources = self.made()
        self.sources.start()

    def chunks(self, stream: str = "S") -> list[list[tuple[Any, ...]]]:
        """The rows by chunk, as a consumer sees them, without repeats."""
        repeats, payload = Repeats(), Payload(self.streams[stream])
        found: list[list[tuple[Any, ...]]] = []
        for record in self.transport.read(f"A.{stream}", 0, 0, 10_000):
            for _, _, _, place, _, row in payload.decode(record.value).part(repeats.fresh(record), record.count):
                if place:
                    found[-1].append(row)
                else:
                    found.append([row])
        return found

    def rows(self, stream: str = "S") -> list[tuple[Any, ...]]:
        return [row for chunk in self.chunks(stream) for row in chunk]

    @property
    def url(self) -> str:
        source = self.sources._sources[0]
        assert isinstance(source, HttpSource)
        return source.url

    def close(self) -> None:
        self.sources.stop()
        self.transport.close()


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[Callable[..., Fed]]:
    made: list[Fed] = []

    def make(source: str, rest: str = "", **more: Any) -> Fed:
        one = Fed(tmp_path, source, rest, **more)
        made.append(one)
        one.sources.start()
        return one

    yield make
    for one in made:
        one.close()


Becomes = Callable[[Callable[[], Any], Any], None]


@pytest.fixture
def becomes(eventually: Callable[..., Any]) -> Becomes:
    """``becomes(look, expected)``: wait until `look` returns that."""

    def wait(look: Callable[[], Any], expected: Any) -> None:
        eventually(lambda: look() == expected, f"{expected}")

    return wait


# ------------------------------------------------------------------------------------------------------------- http
HTTP = "@source(type='http', receiver.url='http://127.0.0.1:0/in'{}, @map(type='json'{}))"


def test_a_body_is_appended_before_it_is_answered(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format("", ""))
    answer = httpx.post(one.url, json={"event": {"k": "a", "n": 1}})
    assert (answer.status_code, answer.json()) == (200, {"events": 1})
    assert one.rows() == [("a", 1)]
    assert httpx.post(one.url + "/", json=[{"event": {"k": "b", "n": 2}}, {"event": {"k": "c", "n": 3}}]).is_success
    assert one.chunks() == [[("a", 1)], [("b", 2), ("c", 3)]]


def test_what_cannot_be_taken_is_said(fed: Callable[..., Fed]) -> None:
    sizes = ", request.size.validation.configurations=\"'request.size.validation.maximum.value:100'\""
    one = fed(HTTP.format(sizes, ""))
    refused = httpx.post(one.url, content="no json")
    assert refused.status_code == 400
    assert "stream 'S'" in refused.json()["error"]
    assert httpx.post(one.url, content=b"\xff\xfe").status_code == 400
    assert httpx.post(one.url, content="x" * 101).status_code == 413
    assert httpx.post(one.url.replace("/in", "/out"), content="{}").status_code == 404
    assert httpx.get(one.url).status_code == 405
    some = httpx.post(one.url, json=[{"event": {"k": "a", "n": 1}}, {"event": {"k": "b"}}])
    assert (some.status_code, some.json()["events"], len(some.json()["rejected"])) == (200, 1, 1)
    assert one.rows() == [("a", 1)]


def test_it_answers_503_while_nothing_can_be_appended(fed: Callable[..., Fed], monkeypatch: pytest.MonkeyPatch) -> None:
    one = fed(HTTP.format("", ""))

    def fails(_records: list[Record]) -> None:
        raise TransportError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(one.transport, "append", fails)
        answer = httpx.post(one.url, json={"event": {"k": "a", "n": 1}})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "the disk is full" in str(one.sources.problem)
    assert httpx.post(one.url, json={"event": {"k": "a", "n": 1}}).is_success
    assert (one.sources.problem, one.rows()) == (None, [("a", 1)])


def test_many_senders_at_once_lose_nothing(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format("", ""))

    def send(name: str) -> None:
        with httpx.Client() as client:
            for number in range(30):
                assert client.post(one.url, json={"event": {"k": name, "n": number}}).is_success

    threads = [threading.Thread(target=send, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = one.rows()
    assert {name: [n for k, n in rows if k == name] for name in "abcd"} == {key: list(range(30)) for key in "abcd"}


def test_sources_share_a_port_by_path(fed: Callable[..., Fed]) -> None:
    port = free_port()
    source = f"@source(type='http', receiver.url='http://localhost:{port}/%s', @map(type='json'))"
    one = fed(source % "a", f"{source % 'b'} define stream T (k string);")
    assert httpx.post(f"http://127.0.0.1:{port}/b", json={"event": {"k": "t"}}).is_success
    assert httpx.post(f"http://127.0.0.1:{port}/a", json={"event": {"k": "s", "n": 1}}).is_success
    assert (one.rows("S"), one.rows("T")) == ([("s", 1)], [("t",)])
    with pytest.raises(TransportError, match="another source listens at"):
        one.made().start()


def test_headers_are_properties_and_users_need_passwords(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format(", basic.auth.enabled='true'", ", @attributes(k='trp:x-kind', n='$.n')"))
    headers = {"X-Kind": "h"}
    for wrong in (None, ("me", "no"), ("you", "pw")):
        answer = httpx.post(one.url, json={"n": 1}, headers=headers, auth=wrong)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="spdist"')
    assert httpx.post(one.url, json={"n": 1}, headers=headers, auth=("me", "pw")).is_success
    assert one.rows() == [("h", 1)]
    own = ", basic.auth.enabled='true', basic.auth.username='u', basic.auth.password='{}'"
    other = fed(HTTP.format(own.format("${secret:SOURCE}"), ""))
    assert httpx.post(other.url, json={"event": {"k": "a", "n": 1}}, auth=("u", "s3")).is_success
    with pytest.raises(AppValidationError, match="is not written into an app"):
        fed(HTTP.format(own.format("plain"), ""))


def test_what_cannot_be_read_is_stored_or_goes_to_the_fault_stream(fed: Callable[..., Fed]) -> None:
    one = fed(HTTP.format(", on.error='STORE'", ""))
    assert httpx.post(one.url, content="no json").status_code == 400
    (entry,) = read_errors(one.transport, "A")
    assert (entry["origin"], entry["stream"], entry["payload"]) == ("source", "S", "no json")
    text = "@OnError(action='STREAM') " + STREAM
    other = fed(HTTP.format(", on.error='STREAM'", ""), "from !S select k insert into Lost;", stream=text)
    assert fault_topic("A", "S") in {one.topic for one in other.assignment.inputs}
    assert httpx.post(other.url, content="no json").status_code == 400
    ((k, n, error),) = other.rows("!S")
    assert (k, n) == (None, None) and "stream 'S'" in error


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("receiver.url='ftp://h/x'", "is no address: 'ftp://h/x'"),
        ("receiver.url='http://h:port/x'", "is no address"),
        ("receiver.url='http://[::1/x'", "is no address"),
        ("receiver.url='http://[x]:1/x'", "is no address"),
        ("receiver.url='https://127.0.0.1:0/x'", "asks for TLS without a certificate"),
        ("basic.auth.enabled='yes'", "is true or false, not 'yes'"),
        ("on.error='HIDE'", "cannot be 'HIDE'"),
    ],
)
def test_wrong_options_are_shown_in_the_text(tmp_path: Path, options: str, told: str) -> None:
    with pytest.raises(AppValidationError, match=told) as error:
        Fed(tmp_path, f"@source(type='http', {options}, @map(type='json'))")
    assert error.value.span is not None
    assert "line 1" in str(error.value)


# ------------------------------------------------------------------------------------------------------------- file
FILE = "@source(type='file', {}, file.polling.interval='20', dir.polling.interval='20', @map(type='csv'))"


def test_a_file_is_followed_and_each_line_read_once(fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes) -> None:
    path = tmp_path / "in.csv"
    path.write_text("k,n\na,1\nb,2\nhalf")
    one = fed(FILE.format(f"file.uri='{path}', header.present='true'"))
    becomes(one.rows, [("a", 1), ("b", 2)])
    with path.open("a") as file:
        file.write(",3\nc,4\n")
    becomes(one.rows, [("a", 1), ("b", 2), ("half", 3), ("c", 4)])
    one.again()
    with path.open("a") as file:
        file.write("bad,line\nd,5\n")
    becomes(lambda: one.rows()[4:], [("d", 5)])
    path.unlink()
    path.write_text("k,n\ne,6\n")
    becomes(lambda: one.rows()[5:], [("e", 6)])


def test_a_crash_between_note_and_append_or_after_it_repeats_nothing(
    fed: Callable[..., Fed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a,1\n")
    source = FILE.format(f"file.uri='{path}'")
    one = Fed(tmp_path, source)
    (source,) = one.sources._sources
    assert isinstance(source, FileSource)
    source._begin()
    source._turn()
    for number, after in enumerate((False, True), 2):
        with path.open("a") as file:
            file.write(f"b,{number}\n")
        append = source._append

        def dies(*what: Any, append: Any = append, after: bool = after) -> None:
            if after:
                append(*what)
            raise KeyboardInterrupt

        monkeypatch.setattr(source, "_append", dies)
        with pytest.raises(KeyboardInterrupt):
            source._turn()
        with path.open("a") as file:
            file.write(f"c,{number}\n")
        one.sources = one.made()
        (source,) = one.sources._sources
        assert isinstance(source, FileSource)
        source._begin()
        source._turn()
    assert one.rows() == [("a", 1), ("b", 2), ("c", 2), ("b", 3), ("c", 3)]
    one.close()


def test_who_stood_still_does_not_set_back_who_goes_on_with_a_file(
    fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("a,1\n")
    one = fed(FILE.format(f"file.uri='{path}'"))
    becomes(one.rows, [("a", 1)])
    stale, one.sources = one.sources, one.made()
    one.sources.start()
    for number, name in enumerate("bcd", 2):
        with path.open("a") as file:
            file.write(f"{name},{number}\n")
        becomes(lambda name=name: one.rows()[-1][0], name)
        becomes(lambda: "another process goes on" in (stale.problem or ""), True)
        stale.stop()
    one.again()
    assert one.rows() == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_files_of_a_directory_are_read_whole_and_put_away(
    fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes
) -> None:
    inbox, done = tmp_path / "inbox", tmp_path / "done"
    inbox.mkdir()
    for name, text in (("2.json", "b"), ("1.json", "a"), ("note.txt", "x")):
        (inbox / name).write_text(text)
    source = f"""@source(type='file', dir.uri='file:{inbox}', mode='TEXT.FULL', file.name.pattern='*.json',
        dir.polling.interval='20', action.after.process='move', move.after.process='{done}',
        @map(type='text', regex.A='(.)', @attributes(k='A[1]', p='trp:file.path', e='trp:eof')))"""
    one = fed(source, stream="define stream S (k string, p string, e string);")
    becomes(
        lambda: [(k, Path(p).name, e) for k, p, e in one.rows()], [("a", "1.json", "true"), ("b", "2.json", "true")]
    )
    becomes(lambda: sorted(path.name for path in done.iterdir()), ["1.json", "2.json"])
    assert [path.name for path in inbox.iterdir()] == ["note.txt"]
    one.again()
    (tmp_path / "1.json").write_text("c")
    (tmp_path / "1.json").rename(inbox / "1.json")
    becomes(lambda: [row[0] for row in one.rows()], ["a", "b", "c"])


def test_a_file_that_somebody_still_writes_to_is_waited_for(
    fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    source = f"""@source(type='file', dir.uri='{inbox}', mode='TEXT.FULL', dir.polling.interval='60000',
        action.after.process='delete', @map(type='text', regex.A='(.*)', @attributes(k='A[1]')))"""
    with (inbox / "slow.txt").open("w") as file:
        one = fed(source, stream="define stream S (k string);")
        (source,) = one.sources._sources
        assert isinstance(source, FileSource)
        becomes(lambda: len(source._waiting), 1)
        file.write("standalone_assignment")
    becomes(one.rows, [("standalone_assignment",)])
    becomes(lambda: list(inbox.iterdir()), [])
    assert not source._waiting


def test_parts_between_patterns(fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes) -> None:
    path = tmp_path / "in.txt"
    path.write_text("<e>a\n1</e> noise <e>b</e><e>c")
    source = f"""@source(type='file', file.uri='{path}', mode='REGEX', begin.regex='<e>', end.regex='</e>',
        file.polling.interval='20', @map(type='text', regex.A='<e>([^<]*)</e>', @attributes(k='A[1]')))"""
    one = fed(source, stream="define stream S (k string);")
    becomes(one.rows, [("a\n1",), ("b",)])
    with path.open("a") as file:
        file.write("d</e>")
    becomes(one.rows, [("a\n1",), ("b",), ("cd",)])


def test_patterns_that_go_back_and_forth_end(fed: Callable[..., Fed], tmp_path: Path, becomes: Becomes) -> None:
    """Of text, of names of files, of payloads: a hundred letters would take `re` longer than the world has been."""
    text, names = tmp_path / "in.txt", tmp_path / "names"
    text.write_text("a" * 100)
    names.mkdir()
    (names / ("a" * 100)).write_text("no")
    (names / "b").write_text("a" * 100 + "b")
    mapped = "@map(type='text', regex.A='((a+)+)b', @attributes(k='A[1]'))"
    one, other = (
        fed(f"@source(type='file', {options}, {mapped})", stream="define stream S (k string);")
        for options in (
            f"file.uri='{text}', mode='REGEX', end.regex='(a+)+b', file.polling.interval='20'",
            f"dir.uri='{names}', mode='TEXT.FULL', file.name.pattern='(a+)*b', dir.polling.interval='20'",
        )
    )
    becomes(other.rows, [("a" * 100,)])
    with text.open("a") as file:
        file.write("b and a")
    becomes(one.rows, [("a" * 100,)])
    assert one.sources.problem is None
    assert other.sources.problem is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("mode='line'", "or 'dir.uri' must be written"),
        ("file.uri='f', mode='magic'", "cannot be 'magic'"),
        ("file.uri='f', mode='TEXT.FULL', tailing='true'", "do not go together"),
        ("file.uri='f', action.after.process='delete'", "cannot be 'delete' with tailing"),
        ("file.uri='f', tailing='false', action.after.process='move'", "'move.after.process' of .* is missing"),
        ("file.uri='f', mode='REGEX'", "is needed with mode='REGEX'"),
        ("file.uri='f', mode='REGEX', begin.regex='('", "is no regular expression"),
    ],
)
def test_wrong_options_of_files_are_shown(tmp_path: Path, options: str, told: str) -> None:
    with pytest.raises(AppValidationError, match=told):
        Fed(tmp_path, FILE.format(options))


# -------------------------------------------------------------------------------------------------------- in memory
def test_in_memory_topics_are_heard_from_other_apps_and_not_from_itself(
    fed: Callable[..., Fed], becomes: Becomes
) -> None:
    one = fed("@source(type='inMemory', topic='t', @map(type='json'))")
    sink = InMemorySink(one.transport)

    def publish(seq: int, name: str, producer: str) -> None:
        payload = json.dumps({"event": {"k": name, "n": seq}})
        sink.send([Delivery("inMemory", 0, 0, "X", {"topic": "t"}, payload, producer, seq)])

    publish(0, "theirs", "B")
    publish(0, "own", "A")
    becomes(one.rows, [("theirs", 0)])
    one.sources.stop()
    publish(1, "while away", "B")
    one.again()
    becomes(one.rows, [("theirs", 0), ("while away", 1)])


def test_a_feeder_that_cannot_go_on_says_so_and_tries_again(
    fed: Callable[..., Fed], monkeypatch: pytest.MonkeyPatch, becomes: Becomes
) -> None:
    monkeypatch.setattr(module.Looping, "_LONGEST_PAUSE_S", 0.05)
    one = fed("@source(type='inMemory', topic='t', @map(type='json'))")

    def fails(*_: Any) -> Any:
        raise TransportError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(one.transport, "read", fails)
        becomes(lambda: one.sources.problem, "the @source of stream 'S': gone")
    becomes(lambda: one.sources.problem, None)


# --------------------------------------------------------------------------------------------------- what apps may use
def test_a_file_outside_of_the_directories_is_not_read(fed: Callable[..., Fed], tmp_path: Path) -> None:
    for place in ("file.uri='/etc/hostname'", "dir.uri='/etc'", "file.uri='topics/x'", "dir.uri='../..'"):
        with pytest.raises(AppValidationError, match="lies outside of the directories that apps may use") as error:
            Fed(tmp_path, FILE.format(place))
        assert error.value.span is not None and "siddhi.files.directories" in (error.value.hint or "")
    moved = "dir.uri='in', tailing='false', action.after.process='move', move.after.process='/etc/done'"
    with pytest.raises(AppValidationError, match=r"'move\.after\.process' .* lies outside"):
        Fed(tmp_path, FILE.format(moved))


def test_links_that_lead_outside_are_left_out(
    tmp_path: Path, becomes: Becomes, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "allowed"
    (root / "in").mkdir(parents=True)
    (tmp_path / "private.csv").write_text("geheim,1\n")
    (root / "in/a.csv").symlink_to(tmp_path / "private.csv")
    (root / "other.csv").write_text("linked,2\n")
    (root / "in/b.csv").symlink_to(root / "other.csv")
    (root / "in/c.csv").write_text("c,3\n")
    one = Fed(root, FILE.format("dir.uri='in', tailing='false'"))
    one.sources.start()
    try:
        becomes(one.rows, [("linked", 2), ("c", 3)])
        (root / "in/c.csv").unlink()
        (root / "in/d.csv").write_text("d,4\n")
        becomes(one.rows, [("linked", 2), ("c", 3), ("d", 4)])
    finally:
        one.close()
    assert [line for line in caplog.messages if "a.csv is left out" in line and "outside of the directories" in line]
    assert len([line for line in caplog.messages if "left out" in line]) == 1


def test_those_who_may_deploy_may_send(tmp_path: Path) -> None:
    """Of a node's users who may only look, or only report for work, none may send; no password is kept in clear."""
    roles = {"root": "admin", "dev": "developer", "eye": "viewer", "work": "worker"}
    users = tuple(User(name, Secret(f"{name}-pw"), (role,)) for name, role in roles.items())
    one = Fed(tmp_path, HTTP.format(", basic.auth.enabled='true'", ""))
    config = SimpleNamespace(auth=Auth(users=users), script=SimpleNamespace(python_enabled=False))
    host: Any = SimpleNamespace(config=config, log_directory=tmp_path / "topics", allowed=Allowed())
    (one.sources,) = sources_of([one.assignment], one.transport, host)
    one.sources.start()
    try:
        answers = {
            name: httpx.post(one.url, json={"event": {"k": name, "n": 1}}, auth=(name, f"{name}-pw")).status_code
            for name in roles
        }
        assert answers == {"root": 200, "dev": 200, "eye": 401, "work": 401}
        (source,) = one.sources._sources
        assert isinstance(source, HttpSource)
        assert "-pw" not in repr(vars(source._route.logins)) if source._route.logins else False
    finally:
        one.close()
    config.auth = Auth(users=users[2:])
    with pytest.raises(AppValidationError, match="asks for users, and there are none who may send"):
        sources_of([one.assignment], one.transport, host)
