"""From the tree of a file to frozen dataclasses: every key is known, checked, and remembers where it came from.

A section is a dataclass whose fields are made by `setting` (one value, or a mapping) or `listing`. Their metadata hold
the YAML key path below the section, as WSO2 spells it; their annotations say what may stand there, and pydantic checks
it (`spdist.config.types`).
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from spdist.config.kinds import PASSWORD_IN_URL, Secret
from spdist.config.source import ResolvedScalar, ValueNode, expand, plain, scalar
from spdist.errors import ConfigError

__all__ = [
    "CONVERT",
    "NAME",
    "PLAIN",
    "Binder",
    "ExplainedSetting",
    "FieldKey",
    "by_name",
    "environment_name",
    "field_keys",
    "keys",
    "listing",
    "places",
    "setting",
    "spellings",
    "tree",
]

T = TypeVar("T")
#: What `by_name` takes for a name.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
#: What to do about passwords in a file.
CONVERT = "`spdist config convert OLD NEW` writes a file with references in their place"
PLAIN = (
    f"{CONVERT}; spdist.plainPasswords: true in this file, or SPDIST__PLAIN_PASSWORDS=true in the environment, accepts "
    "passwords as text"
)
_REQUIRED: Any = dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class ExplainedSetting:
    """One line of `Config.explain`: a key, its value as shown to people, and where the value came from."""

    key: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class FieldKey:
    """How a field is written in the file.

    Parameters
    ----------
    paths : tuple of str
        Key path below the section; further ones are other accepted spellings.
    wrapper : str
        The key that wraps each item of a list (WSO2: ``users: [{user: {…}}]``); empty for none.
    short : callable, optional
        Reads a list written as one text into mappings of key to text.
    named : bool
        True for values under names that the file chooses; the key path shows as an example of such a name.
    tree : bool
        True for a mapping of names that the file chooses to whatever YAML can say, without references.
    many : bool
        True for a list.
    fields : type, optional
        The dataclass of a mapping, or of the items of a list.
    kind : annotation
        The type of a single value, None where there are `fields`.
    default : any
        What holds where the file says nothing; `dataclasses.MISSING` where it must.
    """

    paths: tuple[str, ...]
    wrapper: str = ""
    short: Callable[[str], list[dict[str, str]]] | None = None
    named: bool = False
    tree: bool = False
    many: bool = False
    fields: type | None = None
    kind: Any = None
    default: Any = None

    @property
    def secret(self) -> bool:
        """Whether a single value is a password."""
        return getattr(self.kind, "__origin__", None) is Secret


def setting(path: str, default: Any = _REQUIRED, *, also: tuple[str, ...] = ()) -> Any:
    """Return the dataclass field of a value or mapping at `path`, also spelt `also`; without `default` it is needed."""
    return dataclasses.field(default=default, metadata={"key": FieldKey((path, *also))})


def listing(path: str, *, wrapper: str = "", short: Callable[[str], list[dict[str, str]]] | None = None) -> Any:
    """Return the dataclass field of a list at `path`, by default empty; one of values may be one text with commas."""
    return dataclasses.field(default=(), metadata={"key": FieldKey((path,), wrapper, short)})


def by_name(example: str) -> Any:
    """Return the only field of a section whose keys are names that the file chooses, such as `example`."""
    return dataclasses.field(default_factory=dict, metadata={"key": FieldKey((example,), named=True)})


def tree(path: str) -> Any:
    """Return the dataclass field of a mapping at `path` of the file's own names to scalars, lists and mappings."""
    return dataclasses.field(default_factory=dict, metadata={"key": FieldKey((path,), tree=True)})


@cache
def field_keys(fields: type) -> dict[str, FieldKey]:
    """Return how each field of the dataclass `fields` is written, by its name; what it may be says its annotation."""
    # Only here: a program that reads no settings does without pydantic.
    from spdist.config import types

    hints = get_type_hints(fields, localns=vars(types), include_extras=True)
    return {
        field.name: _typed(field.metadata["key"], hints[field.name], field.default)
        for field in dataclasses.fields(fields)
        if "key" in field.metadata
    }


def _typed(key: FieldKey, hint: Any, default: Any) -> FieldKey:
    """Return `key` with what the annotation of its field says."""
    # None is what holds where nothing is written.
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    many = get_origin(hint) is tuple
    if many or key.named:
        hint = [one for one in get_args(hint) if one is not ...][-1]
    fields = hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None
    return replace(key, many=many, fields=fields, kind=None if fields or key.tree else hint, default=default)


def keys(fields: type, prefix: str = "") -> Iterator[tuple[str, FieldKey]]:
    """Yield every key path below the dataclass `fields` with its `FieldKey`; an item of a list shows as ``[]``."""
    for key in field_keys(fields).values():
        path = f"{prefix}{key.paths[0]}"
        if key.fields is None:
            yield path, key
        else:
            inner = f"[].{key.wrapper}." if key.wrapper else "[]."
            yield from keys(key.fields, f"{path}{inner if key.many else '.'}")


def spellings(fields: type, path: str) -> dict[str, FieldKey]:
    """Return the keys of the dataclass `fields` of a mapping at `path`, by every path that they may be given at.

    Where names are the file's own, that is `path` itself.
    """
    given = field_keys(fields).values()
    return {path if key.named else f"{path}.{spelling}": key for key in given for spelling in key.paths}


def environment_name(*fields: str) -> str:
    """Return the variable that overrides a field.

    ``cluster, heartbeat_interval_ms`` gives ``SPDIST__CLUSTER__HEARTBEAT_INTERVAL``, without
    the unit, since the value may have one.
    """
    return "__".join(("SPDIST", *(re.sub(r"_(ms|min)$", "", name).upper() for name in fields)))


class Binder:
    """Binds the sections of one file.

    Parameters
    ----------
    file : Path
        The file, for errors.
    environment : mapping of str to str
        Variables: for references and for overrides.
    ignored : mapping of str to str
        Key paths that are accepted and not used, with the reason.

    Attributes
    ----------
    entries : list of ExplainedSetting
        Every value bound so far, defaults included.
    plain_passwords : bool
        Whether a password may stand in the file as text.
    plain : list of str
        Where one did.
    explaining : bool
        Whether settings are only shown: then passwords need not be there.
    absent : list of str
        Why a password could not be read, then.
    overrides : dict of str to str
        Variables ``SPDIST__…`` that no field has taken yet.
    """

    def __init__(self, file: Path, environment: Mapping[str, str], ignored: Mapping[str, str]) -> None:
        self.file = file
        self.base = file.parent
        self.environment = environment
        self.ignored = ignored
        self.entries: list[ExplainedSetting] = []
        self.plain_passwords = False
        self.plain: list[str] = []
        self.explaining = False
        self.absent: list[str] = []
        self._unused: dict[str, list[str]] = {}
        self.overrides = {name: value for name, value in environment.items() if name.startswith("SPDIST__")}
        self.known_overrides: list[str] = []

    def bind(self, fields: type[T], node: ValueNode, path: str, names: tuple[str, ...] | None = None) -> T:
        """Return `fields` filled from the mapping `node`, which stands at `path`; `names` lead to its overrides."""
        own = field_keys(fields)  # type: ignore[arg-type]
        for name, key in own.items():
            if key.named:  # the only one
                return fields(**{name: self._named(key, path, node, names)})
        known = spellings(fields, path)
        found: dict[str, ValueNode] = {}
        self._collect(node, path, known, found)
        values: dict[str, Any] = {}
        for name, key in own.items():
            given = [full for spelling in key.paths if (full := f"{path}.{spelling}") in found]
            if len(given) > 1:
                raise ConfigError(
                    f"{found[given[1]].origin}: {given[0]} and {given[1]} mean the same; give one of them"
                )
            full = given[0] if given else f"{path}.{key.paths[0]}"
            values[name] = self._value(key, full, found.get(full), None if names is None else (*names, name))
        return fields(**values)

    def finish(self) -> None:
        """Refuse overrides that name no setting."""
        # Each is taken out where it is used: what is left belongs to no setting.
        for name in self.overrides:
            raise ConfigError(
                f"environment {name}: there is no such setting", hint=_nearest(name, self.known_overrides)
            )

    def unknown_section(self, name: str, node: ValueNode, known: list[str]) -> NoReturn:
        """Refuse a section that neither spdist nor WSO2 has."""
        raise ConfigError(
            f"{node.origin}: {name} is not a section that spdist knows",
            hint=_nearest(name, known) or f"sections: {', '.join(known)}",
        )

    def unused(self, key: str, node: ValueNode) -> None:
        """Remember that `key`, which stands in `ignored`, was given."""
        self._unused.setdefault(key, []).append(node.origin)

    def notes(self) -> list[str]:
        """Return what was accepted and is not used, however often it was given: a sentence for each reason."""
        reasons: dict[str, list[str]] = {}
        for key in self._unused:
            reasons.setdefault(self.ignored[key], []).append(key)
        return [
            f"{places(origin for key in keys for origin in self._unused[key])}: "
            f"{', '.join(key.replace('[]', '') for key in keys)}: not used: {reason}"
            for reason, keys in reasons.items()
        ]

    # ------------------------------------------------------------------------------------------------ walking the tree
    def _collect(self, node: ValueNode, path: str, known: Mapping[str, Any], found: dict[str, ValueNode]) -> None:
        if not isinstance(node.content, dict):
            raise ConfigError(f"{node.origin}: {path} must be a mapping of keys to values")
        for name, child in node.content.items():
            full = f"{path}.{name}"
            # A key of an item is ignored in every item.
            generic = re.sub(r"\[\d+\]", "[]", full)
            if full in known:
                found[full] = child
            elif generic in self.ignored:
                self.unused(generic, child)
            elif any(other.startswith(f"{full}.") for other in known):
                self._collect(child, full, known, found)
            else:
                raise self._unknown(child, path, full, known)

    def _unknown(self, node: ValueNode, path: str, full: str, known: Mapping[str, Any]) -> ConfigError:
        # Candidates are the names that may stand next to it, and where nothing is near, the same name elsewhere.
        here = sorted({other[len(path) + 1 :].split(".")[0] for other in known})
        name = full[len(path) + 1 :]
        near = difflib.get_close_matches(name, here, n=1, cutoff=0.5)
        deeper = [other for other in known if other.split(".")[-1] == name]
        hint = f"did you mean {path}.{near[0]}?" if near else f"keys of {path}: {', '.join(here)}"
        if deeper:
            hint = f"did you mean {deeper[0]}?"
        return ConfigError(f"{node.origin}: {full} is not a key that spdist knows", hint=hint)

    # --------------------------------------------------------------------------------------------------------- values
    def _value(self, key: FieldKey, full: str, node: ValueNode | None, names: tuple[str, ...] | None) -> Any:
        if key.tree:
            return self._tree(full, node)
        if key.many and key.fields is None:
            return self._list(key, full, node, names)
        if key.many:
            assert key.fields is not None
            items = self._items(key, full, node) if node is not None else []
            return tuple(
                self.bind(key.fields, item, f"{full}[{number}]{'.' + key.wrapper if key.wrapper else ''}")
                for number, item in enumerate(items)
            )
        if key.fields is not None:
            return self.bind(key.fields, node or ValueNode({}, str(self.file)), full, names)
        try:
            reference = self._reference(full, node, names)
            value = None if reference is None else self._read(key, full, reference)
        except ConfigError as error:
            if not (self.explaining and key.secret and node is not None):
                raise
            # What is only shown needs no password.
            self.absent.append(error.message)
            self.entries.append(ExplainedSetting(full, "(missing)", node.origin))
            return Secret("(missing)")
        if reference is None:
            if key.default is dataclasses.MISSING:
                raise ConfigError(f"{self.file}: {full} is missing", hint=self._how(key, full))
            # Relative to the file, as it would be if it stood there.
            value = (self.base / key.default).resolve() if isinstance(key.default, Path) else key.default
        origin = "default" if reference is None else reference.origin
        self.entries.append(ExplainedSetting(full, _shown(value), origin))
        return value

    def _read(self, key: FieldKey, full: str, reference: ResolvedScalar) -> Any:
        from spdist.config.types import PlainPassword, value_of

        accepted = self.plain_passwords or self.explaining
        try:
            try:
                return value_of(key.kind, reference, self.base)
            except PlainPassword:
                if not accepted:
                    raise
                value = value_of(key.kind, reference, self.base, plain=True)
        except ValueError as error:
            # A value that should have been a reference may be a password: it is not repeated.
            hidden = key.secret or PASSWORD_IN_URL.search(reference.text)
            shown = "" if hidden else f", not {reference.text!r}"
            hint = PLAIN if isinstance(error, PlainPassword) else None
            raise ConfigError(f"{reference.origin}: {full} must be {error}{shown}", hint=hint) from None
        self.plain.append(reference.origin)
        return value

    def _list(self, key: FieldKey, full: str, node: ValueNode | None, names: tuple[str, ...] | None) -> tuple[Any, ...]:
        """Return a list of single values; one text holds them with commas between them."""
        items = node.content if node is not None and isinstance(node.content, list) else None
        whole = self._reference(full, node if items is None else None, names)
        given: list[ResolvedScalar] = []
        origin = "default"
        if whole is not None:
            parts = [part.strip() for part in whole.text.split(",")]
            given, origin = [replace(whole, value=part, text=part) for part in parts], whole.origin
        elif items is not None and node is not None:
            found = (self._reference(f"{full}[{number}]", one, None) for number, one in enumerate(items))
            given, origin = [one for one in found if one is not None], node.origin
        read = tuple(self._read(key, full, one) for one in given)
        self.entries.append(ExplainedSetting(full, _shown(read), origin))
        return read

    def _named(self, key: FieldKey, path: str, node: ValueNode, names: tuple[str, ...] | None) -> Mapping[str, Any]:
        """Return values under names that the file chooses; a section without any may be left empty."""
        empty = isinstance(node.content, str) and scalar(node.content, quoted=node.quoted) is None
        if not empty and not isinstance(node.content, dict):
            raise ConfigError(f"{node.origin}: {path} must be a mapping of names to values")
        given: dict[str, ResolvedScalar] = {}
        for name, child in node.content.items() if isinstance(node.content, dict) else ():
            reference = self._reference(f"{path}.{name}", child, None)
            assert reference is not None
            given[name] = reference
        start = f"{environment_name(*names or ())}__"
        # A list, as each is taken out of the dictionary meanwhile.
        for variable in [one for one in self.overrides if one.startswith(start)]:
            text = self.overrides.pop(variable)
            given[variable.removeprefix(start)] = ResolvedScalar(text, text, f"environment {variable}", whole=True)
        for name, reference in given.items():
            if not NAME.fullmatch(name):
                hint = "letters, digits, _, . and -, and no digit first"
                raise ConfigError(f"{reference.origin}: {path}.{name}: {name!r} cannot be a name here", hint=hint)
        found = {name: self._read(key, f"{path}.{name}", reference) for name, reference in given.items()}
        self.entries += [ExplainedSetting(f"{path}.{name}", _shown(found[name]), given[name].origin) for name in found]
        return found

    def _tree(self, full: str, node: ValueNode | None) -> dict[str, Any]:
        """Return a mapping as YAML has it; left empty it has nothing in it."""
        found = {} if node is None else plain(node, full)
        if not isinstance(found, dict | None):
            raise ConfigError(f"{'' if node is None else node.origin}: {full} must be a mapping of names to values")
        self.entries.append(
            ExplainedSetting(full, _shown(", ".join(found or ())), "default" if node is None else node.origin)
        )
        return found or {}

    def _reference(self, full: str, node: ValueNode | None, names: tuple[str, ...] | None) -> ResolvedScalar | None:
        if names:
            name = environment_name(*names)
            self.known_overrides.append(name)
            if name in self.overrides:
                text = self.overrides.pop(name)
                return ResolvedScalar(scalar(text), text, f"environment {name}", whole=True)
        if node is None:
            return None
        if not isinstance(node.content, str):
            raise ConfigError(f"{node.origin}: {full} must be one value, not a list or a mapping")
        # In YAML a key with nothing behind it, or `~`, is null.
        if scalar(node.content, quoted=node.quoted) is None:
            raise ConfigError(f"{node.origin}: {full} has no value", hint="give it one, or leave the key out")
        return expand(node, full, self.environment, self.base)

    def _items(self, key: FieldKey, full: str, node: ValueNode) -> list[ValueNode]:
        if isinstance(node.content, str) and key.short is not None:
            reference = expand(node, full, self.environment, self.base)
            try:
                written = key.short(reference.text)
            except ValueError as error:
                raise ConfigError(f"{reference.origin}: {full} must be {error}, not {reference.text!r}") from None
            return [
                ValueNode({name: ValueNode(text, reference.origin) for name, text in item.items()}, reference.origin)
                for item in written
            ]
        if not isinstance(node.content, list):
            raise ConfigError(f"{node.origin}: {full} must be a list")
        if not key.wrapper:
            return node.content
        items = []
        for number, item in enumerate(node.content):
            if not isinstance(item.content, dict) or list(item.content) != [key.wrapper]:
                raise ConfigError(f"{item.origin}: {full}[{number}] must be a mapping with the one key {key.wrapper!r}")
            items.append(item.content[key.wrapper])
        return items

    def _how(self, key: FieldKey, full: str) -> str:
        if key.secret:
            return f"write {full.split('.')[-1]}: ${{env:NAME}} or ${{file:path}} there"
        return "this setting has no default: it must differ from node to node, or only you can know it"


def _shown(value: Any) -> str:
    if isinstance(value, Secret):
        return "***"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "(none)"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if value not in ("", None) else "(none)"


def places(origins: Iterable[str]) -> str:
    """Return places of one file, each once and with the file's name once: ``file:3, 14``."""
    first, *others = dict.fromkeys(origins)
    return ", ".join([first, *(other.rpartition(":")[2] for other in others)])


def _nearest(name: str, known: list[str]) -> str | None:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else None
