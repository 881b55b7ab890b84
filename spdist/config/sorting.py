"""From a file to its sections: nested ones unfolded, WSO2's words said in ours, each bound to its dataclass."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spdist.config.binding import CONVERT, PLAIN, Binder, places
from spdist.config.ignored import IGNORED
from spdist.config.sections import SECTIONS
from spdist.config.source import ValueNode, read
from spdist.config.wso2 import adapted, add_own_user, as_server
from spdist.errors import ConfigError

__all__ = ["FileSections", "settings_file"]

_KNOWN = [key for key, _ in SECTIONS.values()]


def settings_file(path: str | os.PathLike[str]) -> Path:
    """Return the file that `path` names: itself, or ``deployment.yaml`` in it where it is a directory."""
    file = Path(os.path.expanduser(path))
    return file / "deployment.yaml" if file.is_dir() else file


class FileSections:
    """The sections of one file, or of none.

    Parameters
    ----------
    file : Path
        The file; where there is none, its directory is where relative paths start from.
    environment : mapping of str to str
        Variables for references and overrides.
    there : bool
        False where there is no file: then all is default or override.

    Attributes
    ----------
    given : dict of str to ValueNode
        The sections that spdist knows, by name, in our words.
    binder : Binder
        What binds them.
    chooses_transports : bool
        Whether anything says what carries events between groups.

    Raises
    ------
    ConfigError
        The file cannot be read, or holds a section that neither spdist nor WSO2 has.
    """

    def __init__(self, file: Path, environment: Mapping[str, str], *, there: bool = True) -> None:
        self.binder = Binder(file, environment, IGNORED)
        self._changes: list[str] = []
        content = read(file).content if there else {}
        assert isinstance(content, dict)
        self.given = adapted(self._sorted(content), self._changes.append)
        overridden = any(name.startswith("SPDIST__TRANSPORTS__") for name in environment)
        self.chooses_transports = overridden or "transports" in self.given

    def add_own_user(self) -> None:
        """Let a node without ``auth.configs`` be called with the credentials of its own interface."""
        add_own_user(self.given, self._changes.append)

    def make_server(self) -> None:
        """Let the file be one of a server, also where it does not say so."""
        as_server(self.given)

    def bind(self, wanted: Mapping[str, tuple[str, type]]) -> dict[str, Any]:
        """Return `wanted` of `spdist.config.sections.SECTIONS`, each as an object of its class."""
        parts: dict[str, Any] = {}
        for name, (key, fields) in wanted.items():
            # `accepted` is first, as others depend on it; SPDIST__PLAIN_PASSWORDS is name enough for its override.
            names = () if name == "accepted" else (name,)
            node = self.given.get(key, ValueNode({}, str(self.binder.file)))
            parts[name] = self.binder.bind(fields, node, key, names)
            if name == "accepted":
                self.binder.plain_passwords = parts[name].plain_passwords
        return parts

    @property
    def differences(self) -> list[str]:
        """What was changed in meaning, and what is not used, a sentence each."""
        return [*self._changes, *self.binder.notes()]

    @property
    def notes(self) -> list[str]:
        """The same, and which passwords stand in the file as text."""
        plain = list(dict.fromkeys(self.binder.plain))
        told = [f"a node does not start with this: {reason}" for reason in self.binder.absent]
        if plain and self.binder.plain_passwords:
            told.append(f"{places(plain)}: passwords stand here as text, for whoever can read it; {CONVERT}")
        elif plain:
            told.append(f"{places(plain)}: passwords stand here as text, and a node does not start so; {PLAIN}")
        return [*told, *self.differences]

    def _sorted(self, content: Mapping[str, ValueNode]) -> dict[str, ValueNode]:
        """Sort the top-level keys into sections; a key that belongs to WSO2 and is not used becomes a note.

        ``siddhi: {extensions: …}``, as WSO2 writes it, is the section ``siddhi.extensions``.
        """
        given: dict[str, ValueNode] = {}
        for name, node in _unfolded(content, {*_KNOWN, *IGNORED}):
            if name in given:
                raise ConfigError(f"{node.origin}: {name} was given at {given[name].origin}; keep one of the two")
            if name in _KNOWN:
                given[name] = node
            # With dots: `siddhi.refs` stands for all below it, and for nothing that only begins so.
            elif unused := next((key for key in IGNORED if f"{name}.".startswith(f"{key}.")), None):
                self.binder.unused(unused, node)
            else:
                self.binder.unknown_section(name, node, _KNOWN)
        return given


def _unfolded(content: Mapping[str, ValueNode], names: set[str]) -> Iterator[tuple[str, ValueNode]]:
    """Yield the sections; in place of a mapping that only holds some, those.

    ``spdist.plainPasswords: true`` is the key of a section that has nothing else.
    """
    for name, node in content.items():
        holds = name not in names and any(one.startswith(f"{name}.") for one in names)
        section, _, key = name.partition(".")
        if holds and isinstance(node.content, dict):
            yield from _unfolded({f"{name}.{inner}": one for inner, one in node.content.items()}, names)
        elif section == "spdist" and key:
            yield section, ValueNode({key: node}, node.origin)
        else:
            yield name, node
