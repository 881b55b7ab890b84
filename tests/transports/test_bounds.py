"""Files of apps stay below the directories that the node allows, whatever apps write and events say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdist.config.allowed import Allowed, NotAllowed
from spdist.connectors.file.sink import FileSink
from spdist.connectors.sending import SendError
from spdist.errors import AppValidationError
from spdist.language.types import Schema
from spdist.mapping.templates import Template
from spdist.transports.delivery import Delivery
from spdist.transports.options import local_path

NAMES = Schema.of([("name", "string"), ("other", "string")])


@pytest.fixture
def allowed(tmp_path: Path) -> Allowed:
    """Two directories, of which one holds spdist's state; beside them what is nobody's business."""
    for name in ("files", "files/state", "more", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "files/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "files/near").symlink_to(tmp_path / "more")
    return Allowed((tmp_path / "files", tmp_path / "more"), (tmp_path / "files/state",))


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("out.txt", "files/out.txt"),
        ("./a/../out.txt", "files/out.txt"),
        ("{root}/more/out.txt", "more/out.txt"),
        ("file:{root}/more/out.txt", "more/out.txt"),
        ("file://{root}/more/a%20b", "more/a b"),
        ("FILE://localhost{root}/more/out.txt", "more/out.txt"),
        ("near/out.txt", "more/out.txt"),
        ("state.txt", "files/state.txt"),
        ("..hidden", "files/..hidden"),
    ],
)
def test_what_an_app_may_name(allowed: Allowed, tmp_path: Path, written: str, found: str) -> None:
    assert local_path(written.format(root=tmp_path), allowed) == tmp_path / found


@pytest.mark.parametrize(
    "written",
    [
        "../elsewhere/x", "/etc/passwd", "file:/etc/passwd", "file:///etc/passwd", "{root}/elsewhere/x",
        "{root}/filesx", "link/x", "near/../elsewhere/x", "file:%2e%2e/elsewhere/x",
        "file:{root}/files/%2E%2E/elsewhere", "a/../../x",
        "state/x", "state", "{root}/files/a/../state/x", "~/x", "~nobody-of-that-name/x", "file://host/share/x",
        "file://host", "C:\\x", "C:/x", "..\\x", "a\0b", "a\nb", "file:a%00b", ".out.txt.spdist", "a/.out.spdist.new",
        ".out.txt.spdist.d/7", "x.spdist-private.json", "spdist-spark-1-x/y", "{root}", "/", "",
    ],
)  # fmt: skip
def test_what_it_may_not(allowed: Allowed, tmp_path: Path, written: str) -> None:
    if written == "":  # the directory itself, to be listed
        assert local_path(written, allowed) == tmp_path / "files"
        return
    with pytest.raises(NotAllowed) as error:
        local_path(written.format(root=tmp_path), allowed)
    assert error.value.hint


def test_nothing_is_allowed_by_default(tmp_path: Path) -> None:
    for path in ("x", str(tmp_path), "/"):
        with pytest.raises(NotAllowed, match="outside of the directories"):
            local_path(path, Allowed())
    listed = Allowed((tmp_path,), (tmp_path,))
    with pytest.raises(NotAllowed):  # what is spdist's own stays so, also where somebody lists it
        local_path("x", listed)


WORDS = ("..", ".", "/", "a", "b.c", "%2e", "\\", "\0", "\n", "~", "link", "file:", "//", "é")
PARTS = st.lists(st.sampled_from(WORDS))
TEMPLATES = (
    "{{name}}", "sub/{{name}}.txt", "sub/{{name}}/{{other}}", "sub/.{{name}}", "a{{name}}/../{{other}}",
    "file:sub/{{name}}", "sub/x-{{name}}",
)  # fmt: skip


@given(st.sampled_from(TEMPLATES), PARTS, PARTS)
def test_events_do_not_leave_the_directory_that_is_written(
    tmp_path_factory: pytest.TempPathFactory, template: str, one: list[str], two: list[str]
) -> None:
    root = tmp_path_factory.getbasetemp() / "law"
    (root / "files/sub").mkdir(parents=True, exist_ok=True)
    (root / "elsewhere").mkdir(exist_ok=True)
    for at in ("files/link", "files/sub/link"):
        if not (root / at).is_symlink():
            (root / at).symlink_to(root / "elsewhere")
    allowed = Allowed((root / "files",))
    uri = Template(template, NAMES).filled(("".join(one), "".join(two)))
    try:
        found = local_path(uri, allowed)
    except NotAllowed:
        return
    fixed = root / ("files/sub" if "sub/" in template else "files")
    assert found.is_relative_to(fixed)
    assert os.path.realpath(found) == str(found)
    own = [part for part in found.relative_to(fixed).parts if part.startswith(".")]
    assert not own or template == "sub/.{{name}}"


def test_a_sink_writes_what_fits_and_rejects_what_does_not(allowed: Allowed, tmp_path: Path) -> None:
    template = Template("out/{{name}}.txt", NAMES)
    rows = [("a", ""), ("b", ""), ("../../elsewhere/x", ""), ("a", ""), ("n" * 300, ""), ("c", "")]
    made = [
        Delivery("file", 0, 0, "S", {"file.uri": template.filled(row)}, f"{number}", "A-1", number)
        for number, row in enumerate(rows)
    ]
    sink, left, dropped = FileSink(made[0].options, allowed), made, []
    while left:  # as `Sinks` does
        try:
            sink.send(left)
            break
        except SendError as error:
            assert error.lasting
            dropped.append(left[error.done].seq)
            left = left[error.done + 1 :]
    assert dropped == [2, 4]
    names = {path.name: path.read_text() for path in (tmp_path / "files/out").iterdir() if path.suffix == ".txt"}
    assert names == {"a.txt": "0\n3\n", "b.txt": "1\n", "c.txt": "5\n"}
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_sink_whose_directory_is_not_allowed_does_not_start(allowed: Allowed) -> None:
    for uri in ("/etc/x.txt", Template("/etc/{{name}}", NAMES).filled(("x", ""))):
        with pytest.raises(AppValidationError, match=r"'file\.uri' of the @sink of type 'file' lies outside") as error:
            FileSink({"file.uri": uri}, allowed)
        assert "siddhi.files.directories of this node:" in (error.value.hint or "")
    FileSink({"file.uri": Template("{{name}}", NAMES).filled(("/etc/x", ""))}, allowed)  # an event's fault
