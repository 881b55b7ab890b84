"""``spdist config schema``: what may stand in ``deployment.yaml``, as JSON Schema, by which editors check it.

It is of what a file may hold, whatever the environment adds: nothing is required there but within items of lists, and a
password may be text, since both can be decided from outside.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_origin

import yaml

from spdist.config import types
from spdist.config.binding import NAME, FieldKey, field_keys
from spdist.config.ignored import IGNORED
from spdist.config.sections import SECTIONS, Accepted, DeploymentSettings, SiddhiProperties
from spdist.config.source import ResolvedScalar
from spdist.config.wso2 import CARRIERS

__all__ = ["comments", "settings_schema"]

Schema = dict[str, Any]
_REFERENCE = {"type": "string", "pattern": r"\$\{((env|file):[^}]+|(sys:)?carbon\.home|sys:wso2\.runtime)\}"}
#: The types that have a name.
_NAMES = {kind: name for name, kind in vars(types).items() if get_origin(kind) is Annotated and name[0] != "_"}
#: A key that is commented out in a shipped file, and a line that only begins a mapping.
_OUT, _BEGIN = re.compile(r"^(\s*)# (\w+: \S+)$", re.MULTILINE), re.compile(r"\s*(-|(- )?\w+:)\s*")


def settings_schema(told: Mapping[str, str]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of ``deployment.yaml``; `told` describes keys, as `comments` reads it."""
    writer = _SchemaWriter(told)
    sections = {name: writer.named(name, writer.mapping(fields, name)) for name, fields in SECTIONS.values()}
    # As a key of the file, too, `spdist.config.sorting` takes what is the whole of a section.
    own = {f"spdist.{key.paths[0]}": writer.key(key, f"spdist.{key.paths[0]}") for key in field_keys(Accepted).values()}
    inside = tuple(f"{name}." for name in sections)
    ignored = {name: _ignored(reason) for name, reason in IGNORED.items() if not name.startswith(inside)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "deployment.yaml of spdist",
        **_nested({**ignored, **own, **sections}, dotted=True),
        "$defs": {"reference": {**_REFERENCE, "description": "of the environment, or from a file"}, **writer.defs},
    }


def _ignored(reason: str) -> Schema:
    return {"description": f"Accepted and not used: {reason}.", "deprecated": True}


def _nested(leaves: Mapping[str, Schema], *, dotted: bool = False) -> Schema:
    """Return the mapping whose keys are `leaves`, of which each dot may be one of a key, or begin a mapping.

    Editors offer one of these spellings: nested ones, or with `dotted` whole names.
    """
    offered: Schema = {}
    taken: Schema = {}
    for name in leaves:
        ends = [*(match.start() for match in re.finditer(r"\.", name)), len(name)]
        for end in ends:
            key = name[:end]
            inner = {other[end + 1 :]: leaf for other, leaf in leaves.items() if other.startswith(f"{key}.")}
            if key in leaves and key != name:
                continue
            found = leaves.get(key) or _nested(inner)
            if key == (name if dotted else name[: ends[0]]):
                offered[key] = found
            else:
                taken[f"^{re.escape(key)}$"] = found
    shown: Schema = {"type": "object", "properties": offered, "additionalProperties": False}
    return {**shown, "patternProperties": taken} if taken else shown


def _default(key: FieldKey) -> Schema:
    """Return the default of a key, where it could stand in the file like that."""
    value = str(key.default) if isinstance(key.default, Path) else key.default
    if key.kind is None or key.many or not isinstance(value, str | int):
        return {}
    try:
        types.value_of(key.kind, ResolvedScalar(value, str(value), ""), Path())
    except ValueError:
        return {}
    return {"default": value}


class _SchemaWriter:
    """Writes the schemas of mappings and values; `defs` are those that have a name."""

    def __init__(self, told: Mapping[str, str]) -> None:
        self._told = told
        self.defs: Schema = {}

    def named(self, name: str, schema: Schema) -> Schema:
        """Return a reference to a schema, which is kept under its name."""
        self.defs[name] = schema
        return {"$ref": f"#/$defs/{name}"}

    def mapping(self, fields: type, path: str) -> Schema:
        """Return the schema of what is bound to the dataclass `fields` at `path`."""
        own = field_keys(fields).values()
        said = {"description": " ".join((fields.__doc__ or "").partition("\n\n")[0].replace("``", "`").split())}
        for key in own:
            if key.named:
                names = {"propertyNames": {"pattern": f"^{NAME.pattern}$"}}
                return {**said, "type": ["object", "null"], **names, "additionalProperties": self._value(key.kind)}
        leaves = {spelling: self.key(key, f"{path}.{key.paths[0]}") for key in own for spelling in key.paths}
        for name, reason in IGNORED.items():
            if name.startswith(f"{path}.") and "[]" not in name[len(path) :]:
                leaves[name[len(path) + 1 :]] = _ignored(reason)
        if fields is DeploymentSettings:
            leaves |= {name: {"description": "WSO2's: see the section transports."} for name in CARRIERS}
        found = {**said, **_nested(leaves)}
        if fields is SiddhiProperties:  # other extensions have theirs there
            del found["additionalProperties"]
        needed = [key.paths[0] for key in own if key.default is dataclasses.MISSING and len(key.paths) == 1]
        return {**found, "required": needed} if "[]" in path and needed else found

    def key(self, key: FieldKey, path: str) -> Schema:
        """Return the schema of what stands at `path`."""
        found = self._value(key.kind) if key.fields is None else self._fields(key, path)
        if key.many:
            found = {"type": "array", "items": found}
            if key.fields is None or key.short is not None:
                found = {"anyOf": [found, self._value(types.Text)]}
        found |= _default(key)
        return {**found, "description": self._told[path]} if path in self._told else found

    def _fields(self, key: FieldKey, path: str) -> Schema:
        assert key.fields is not None
        if not key.many:
            return self.mapping(key.fields, path)
        if not key.wrapper:
            return self.mapping(key.fields, f"{path}[]")
        inner = self.mapping(key.fields, f"{path}[].{key.wrapper}")
        return {**_nested({key.wrapper: inner}), "required": [key.wrapper]}

    def _value(self, kind: Any) -> Schema:
        shown = types.schema_of(kind)
        said = {"description": shown.pop("description")} if "description" in shown else {}
        found = {**said, "anyOf": [*shown.get("anyOf", [shown]), {"$ref": "#/$defs/reference"}]}
        return self.named(_NAMES[kind], found) if kind in _NAMES else found


def comments(text: str) -> dict[str, str]:
    """Return what the comments of a ``deployment.yaml`` say of its keys, also of those that are commented out."""
    live = _OUT.sub(r"\1\2", text)
    lines = live.splitlines()
    return {path: said for path, line in _lines(yaml.compose(live), "") if (said := _above(lines, line))}


def _lines(node: yaml.Node | None, path: str) -> Iterator[tuple[str, int]]:
    """Yield every key path with the number of its line."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _lines(item, f"{path}[]")
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            full = f"{path}.{key.value}" if path else key.value
            yield full, key.start_mark.line
            yield from _lines(value, full)


def _above(lines: list[str], number: int) -> str:
    """Return the comment above a line, or above the lines before it that only begin a mapping."""
    number -= 1
    while number >= 0 and _BEGIN.fullmatch(lines[number]):
        number -= 1
    first = number
    while first >= 0 and lines[first].lstrip().startswith("# "):
        first -= 1
    return " ".join(line.strip()[2:] for line in lines[first + 1 : number + 1])
