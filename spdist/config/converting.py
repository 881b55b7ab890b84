"""From a file of WSO2 SP to one of ours: `spdist config convert`. No secret of the old file stands in the new one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from spdist.config import load_config
from spdist.config.binding import FieldKey, spellings
from spdist.config.kinds import Secret
from spdist.config.sections import SECTIONS, Accepted
from spdist.config.sorting import FileSections, settings_file
from spdist.config.source import REFERENCE, ResolvedScalar, ValueNode, expand, java_place
from spdist.config.types import DatabaseUrl, Location, Place, PlainPassword, UserPassword, value_of

__all__ = ["Converted", "SecretNeeded", "convert"]

_LISTENERS = "wso2.transport.http.listenerConfigurations"
#: What tells items of a list apart.
_LABELS = ("name", "id", "host", "username")
_IN_BASE64 = " (in base64 there: `base64 -d` gives it)"
#: Text that means itself in YAML without quotes.
_PLAIN = re.compile(r"(?!- )[\w./$-]([\w ./:${},;@=+-]*[\w./}=+-])?")


@dataclass(frozen=True, slots=True)
class SecretNeeded:
    """A password that stood in the old file, and that the new one takes from an environment variable.

    Parameters
    ----------
    variable : str
        Its name.
    place : str
        File and line of the old password, and the key.
    value : Secret
        The password; for a user's, what its base64 means.
    base64 : bool
        Whether it stood there in base64.
    """

    variable: str
    place: str
    value: Secret
    base64: bool = False

    def __str__(self) -> str:
        return f"{self.variable}: {self.place}{_IN_BASE64 if self.base64 else ''}"


@dataclass(frozen=True, slots=True)
class Converted:
    """What `convert` returns.

    Parameters
    ----------
    text : str
        The new file.
    differences : tuple of str
        What was changed in meaning or left out, a sentence each.
    secrets : tuple of SecretNeeded
        What has to be in the environment of a node that starts with it.
    """

    text: str
    differences: tuple[str, ...]
    secrets: tuple[SecretNeeded, ...]


def convert(old: str | os.PathLike[str], new: Path, *, environment: Mapping[str, str] | None = None) -> Converted:
    """Return the settings of a file of WSO2 SP as we write them; writes nothing.

    Parameters
    ----------
    old : str or path
        WSO2's ``deployment.yaml``, or its directory.
    new : Path
        Where the result is going to be: relative paths start from there.
    environment : mapping of str to str, optional
        Variables that `old` refers to (default: those of this process).

    Raises
    ------
    ConfigError
        `old` cannot be used, as it would be with its passwords as text: names the line and what would be right.
    """
    file = settings_file(old)
    # Passwords as text are what is to be converted, so they have to be readable.
    known = {**(os.environ if environment is None else environment), "SPDIST__PLAIN_PASSWORDS": "true"}
    config = load_config(file, environment=known)
    # `load_config` checks the whole; the sections, as they are written, are read once more.
    given = FileSections(file, known)
    given.add_own_user()
    given.bind(SECTIONS)
    differences = list(given.differences)
    number = config.http.listeners.index(config.listener)
    if len(config.http.listeners) > 1:
        differences.append(f"{file}: of the listeners only {config.listener.id!r} is kept: a node opens one")
    writer = _MappingWriter(file.parent, new.parent, known, number)
    lines: list[str] = []
    for section, fields in SECTIONS.values():
        if section in given.given and fields is not Accepted:
            body = writer.mapping(fields, given.given[section], section)
            lines += ["", f"{section}:", *body] if body else []
    head = _head(file, differences, writer.secrets)
    return Converted("\n".join([*head, *lines, ""]), tuple(differences), tuple(writer.secrets))


def _head(old: Path, differences: list[str], secrets: list[SecretNeeded]) -> list[str]:
    lines = [f"From {old}, by `spdist config convert`."]
    if secrets:
        lines += ["", "Passwords that are text there, and here come from the environment, which must have them:"]
        lines += [f"- {one}" for one in secrets]
    if differences:
        lines += ["", "What is different here:", *(f"- {one}" for one in differences)]
    # A name with several lines would end the comment, and its rest be settings.
    return [f"# {' '.join(line.splitlines())}".rstrip() for line in lines]


class _MappingWriter:
    """Writes mappings of a file again, with the keys that are used, in the order they have there."""

    def __init__(self, old: Path, new: Path, environment: Mapping[str, str], listener: int) -> None:
        self._old = old
        self._moved = old.resolve() != new.resolve()
        self._environment = environment
        self._listener = listener
        self.secrets: list[SecretNeeded] = []

    def mapping(self, fields: type, node: ValueNode, path: str, labels: tuple[str, ...] = ()) -> list[str]:
        """Return the lines of a mapping that is bound to the dataclass `fields`."""
        known = spellings(fields, path)
        if path in known:  # values under names of their own
            (key,) = known.values()
            return list(self._named(key, node, path))
        return list(self._walk(known, node, path, labels))

    def _named(self, key: FieldKey, node: ValueNode, path: str) -> Iterator[str]:
        for name, child in _items(node):
            yield f"  {name}: {self._value(key, child, f'{path}.{name}', ('secret', name))}"

    def _walk(
        self, known: Mapping[str, FieldKey], node: ValueNode, path: str, labels: tuple[str, ...]
    ) -> Iterator[str]:
        for name, child in _items(node):
            full = f"{path}.{name}"
            key = known.get(full)
            if key is not None:
                yield from self._setting(key, child, full, labels)
            elif any(other.startswith(f"{full}.") for other in known):
                inner = list(self._walk(known, child, full, labels))
                yield from [f"  {name}:", *map(_indented, inner)] if inner else []

    def _setting(self, key: FieldKey, node: ValueNode, full: str, labels: tuple[str, ...]) -> Iterator[str]:
        first, given = key.paths[0], full.rpartition(".")[2]
        name = first if "." not in first and len(key.paths) > 1 else given
        if key.fields is not None and not key.many:
            inner = self.mapping(key.fields, node, full, (*labels, name))
            yield from [f"  {name}:", *map(_indented, inner)] if inner else []
        elif key.many and isinstance(node.content, list):
            yield f"  {name}:"
            for number, item in enumerate(node.content):
                if full != _LISTENERS or number == self._listener:
                    yield from self._item(key, item, f"{full}[{number}]", (*labels, name))
        elif key.many and key.fields is None:  # a list of values that is written as one text
            yield f"  {name}:"
            for part in str(node.content).split(","):
                yield f"    - {self._value(key, replace(node, content=part.strip()), full, (*labels, name))}"
        elif key.fields is None:
            yield f"  {name}: {self._value(key, node, full, (*labels, name))}"
        else:  # a list of mappings that is
            yield f"  {name}: {self._text(node.content, node.quoted)}"

    def _item(self, key: FieldKey, item: ValueNode, full: str, labels: tuple[str, ...]) -> Iterator[str]:
        if key.fields is None:
            yield f"    - {self._value(key, item, full, labels)}"
            return
        inner = dict(_items(item))[key.wrapper] if key.wrapper else item
        own = next((child.content for one in _LABELS for name, child in _items(inner) if name == one), "")
        lines = self.mapping(key.fields, inner, full, (*labels, str(own)))
        lines = [f"  {key.wrapper}:", *map(_indented, lines)] if key.wrapper else lines
        yield from (f"    {'-' if number == 0 else ' '} {line[2:]}" for number, line in enumerate(lines))

    # --------------------------------------------------------------------------------------------------------- values
    def _value(self, key: FieldKey, node: ValueNode, full: str, labels: tuple[str, ...]) -> str:
        """Return a value as YAML: in place of a password that is text the name of a variable."""
        written = str(node.content)
        if key.secret:
            reference = expand(node, full, self._environment, self._old)
            try:
                value_of(key.kind, reference, self._old)
            except PlainPassword:
                password = value_of(key.kind, reference, self._old, plain=True)
                return f"${{env:{self._variable(password, f'{node.origin}, {full}', labels, key)}}}"
        text = REFERENCE.sub(
            lambda found: java_place(found[0], self._environment, self._old) or found[0],
            written,
        )
        # Relative paths start from the file, and the new one is elsewhere.
        known = "${" not in text if key.kind == DatabaseUrl else not text.startswith("${")
        if self._moved and known and key.kind in (Place, Location, DatabaseUrl):
            moved = value_of(key.kind, ResolvedScalar(text, text, ""), self._old)
            text = str(moved) if isinstance(moved, Path) or moved.startswith("sqlite:") else text
        return self._text(text, node.quoted)

    def _text(self, text: object, quoted: bool) -> str:
        # `: ` would begin a mapping.
        safe = not quoted and _PLAIN.fullmatch(str(text)) and ": " not in str(text)
        return str(text) if safe else json.dumps(text, ensure_ascii=False)

    def _variable(self, value: Secret, place: str, labels: tuple[str, ...], key: FieldKey) -> str:
        """Return the name of the variable for a password, the same one for the same password of the same line."""
        where = place.partition(",")[0]
        for one in self.secrets:
            if one.place.partition(",")[0] == where and one.value == value:
                return one.variable
        words = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", label).strip("_") for label in labels if label]
        name = own = "_".join(["SPDIST", *words]).upper()
        taken = {one.variable for one in self.secrets}
        number = 1
        while name in taken:
            number += 1
            name = f"{own}_{number}"
        self.secrets.append(SecretNeeded(name, place, value, key.kind == UserPassword))
        return name


def _items(node: ValueNode) -> Iterator[tuple[str, ValueNode]]:
    return iter(node.content.items() if isinstance(node.content, dict) else ())


def _indented(line: str) -> str:
    return f"  {line}"
