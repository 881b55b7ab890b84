"""Reading ``deployment.yaml``: text to a tree that remembers where each value stands. The only user of yaml.

References are resolved only where a value is used, so that a file may hold keys of other products, with references that
this program cannot resolve.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from spdist.errors import ConfigError

__all__ = ["REFERENCE", "ResolvedScalar", "ValueNode", "expand", "java_place", "plain", "read", "scalar"]

#: A reference to something outside of the file.
REFERENCE = re.compile(r"\$\{([^}:]*):?([^}]*)\}")
#: YAML types that a plain scalar may become; the rest (dates, binary) stay text.
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null"))


@dataclass(frozen=True, slots=True)
class ValueNode:
    """A value of the file.

    Parameters
    ----------
    content : dict of str to ValueNode, list of ValueNode, or str
        A mapping, a list, or the text of a scalar.
    origin : str
        Where it was written: ``file:line`` or ``environment NAME``.
    quoted : bool
        True where a scalar was written in quotes, and so is text whatever it looks like.
    """

    content: dict[str, ValueNode] | list[ValueNode] | str
    origin: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedScalar:
    """A scalar after its references were resolved.

    Parameters
    ----------
    value : str, int, float, bool or None
        What it means in YAML.
    text : str
        The same, as text.
    origin : str
        Where it comes from.
    whole : bool
        True where the scalar was one reference to outside of the file and nothing else.
    """

    value: str | int | float | bool | None
    text: str
    origin: str
    whole: bool = False


def read(path: Path) -> ValueNode:
    """Return the tree of the YAML file at `path`.

    Raises
    ------
    ConfigError
        The file cannot be read, is no YAML, is no mapping, or holds a key twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        hint = "settings are a deployment.yaml, or the directory that holds it"
        if not path.is_absolute():
            hint += f"; a relative path counts from {Path.cwd()}"
        raise ConfigError(f"cannot read {path}: {error.strerror or error}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from error
    try:
        # Composed, not loaded: nodes know their lines, and stay text until a setting says what they are.
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{path}{line} is not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path} nests too deep") from error
    if root is None:
        return ValueNode({}, f"{path}:1")
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}:1 must be a mapping of sections such as wso2.carbon and deployment.config")
    try:
        return _convert(root, path)
    except RecursionError as error:
        raise ConfigError(f"{path} nests too deep, or holds an alias of what it stands in") from error


def _convert(node: yaml.Node, path: Path) -> ValueNode:
    origin = f"{path}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        items: dict[str, ValueNode] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else str(key.value)
            # YAML forbids it, but PyYAML lets the last one win.
            if name in items:
                raise ConfigError(
                    f"{path}:{key.start_mark.line + 1}: the key {name!r} stands here a second time",
                    hint=f"it was first given at {items[name].origin}; keep one of the two",
                )
            items[name] = _convert(value, path)
        return ValueNode(items, origin)
    if isinstance(node, yaml.SequenceNode):
        return ValueNode([_convert(item, path) for item in node.value], origin)
    assert isinstance(node, yaml.ScalarNode)
    # A scalar without quotes has no style; one with quotes is text, whatever it looks like.
    return ValueNode(str(node.value), origin, quoted=node.style is not None)


def scalar(text: str, *, quoted: bool = False) -> Any:
    """Return what `text` means as a YAML scalar: an int, a float, a bool, None, or the text itself."""
    if quoted:
        return text
    loader = yaml.SafeLoader("")
    try:
        # (True, False): as a scalar without quotes, whose type follows from its looks.
        tag = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        if tag not in _PLAIN_TAGS:
            return text
        return loader.construct_object(yaml.ScalarNode(tag, text))
    finally:
        loader.dispose()


def plain(node: ValueNode, key: str) -> Any:
    """Return what a tree without references means in YAML; its dates are text.

    Raises
    ------
    ConfigError
        It has a reference to something outside of the file.
    """
    if isinstance(node.content, dict):
        return {name: plain(child, f"{key}.{name}") for name, child in node.content.items()}
    if isinstance(node.content, list):
        return [plain(child, f"{key}[{number}]") for number, child in enumerate(node.content)]
    for found in REFERENCE.finditer(node.content):
        if found[1] in ("env", "file"):
            raise ConfigError(
                f"{node.origin}: {key} has the reference {found[0]}, and what it stands for would be stored in clear",
                hint="give the name of the variable or file, and read it where it is used",
            )
    return scalar(node.content, quoted=node.quoted)


def expand(node: ValueNode, key: str, environment: Mapping[str, str], base: Path) -> ResolvedScalar:
    """Resolve ``${env:NAME}``, ``${env:NAME,default}`` and ``${file:path}`` in a scalar, and WSO2's names of places.

    Parameters
    ----------
    node : ValueNode
        A scalar.
    key : str
        Its key path, for errors.
    environment : mapping of str to str
        The variables.
    base : Path
        The directory that relative file names start from.

    Raises
    ------
    ConfigError
        The variable is not set, the file cannot be read, or the reference is of another kind.
    """
    written = node.content
    if not isinstance(written, str):
        raise TypeError(f"{key} is not a scalar")
    origins: list[str] = []
    outside = bool(REFERENCE.fullmatch(written))

    def resolve(match: re.Match[str]) -> str:
        nonlocal outside
        kind, name = match.groups()
        if kind == "env":
            name, comma, default = name.partition(",")
            if comma and name not in environment:
                # The default stands in the file itself.
                outside = False
                return default
            if name not in environment:
                raise ConfigError(
                    f"{node.origin}: {key} needs the environment variable {name}, which is not set",
                    hint=f"export {name}=… before starting, or give {key} another value",
                )
            origins.append(f"environment {name}")
            return environment[name]
        if kind == "file":
            file = base / os.path.expanduser(name)
            try:
                content = file.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise ConfigError(f"{node.origin}: {key} needs the file {file}: {error}") from error
            origins.append(f"file {file}")
            # Editors end a file with a line break, which is no part of a password.
            return content.rstrip("\r\n")
        if (place := java_place(match.group(0), environment, base)) is not None:
            outside = False
            return place
        raise ConfigError(
            f"{node.origin}: {key} has the reference {match.group(0)}, which is of a kind not known here",
            hint="write ${env:NAME} or ${file:path}",
        )

    text = REFERENCE.sub(resolve, written)
    origin = f"{node.origin} ({', '.join(origins)})" if origins else node.origin
    return ResolvedScalar(scalar(text, quoted=node.quoted), text, origin, whole=outside)


def java_place(reference: str, environment: Mapping[str, str], base: Path) -> str | None:
    """Return what WSO2's ``${carbon.home}`` and ``${sys:wso2.runtime}`` mean for a file in `base`; None for others.

    WSO2 keeps a node's settings in ``<carbon.home>/conf/<wso2.runtime>``; elsewhere `base` is the home.
    """
    own = base.resolve()
    if reference in ("${carbon.home}", "${sys:carbon.home}"):
        return environment.get("CARBON_HOME") or str(own.parents[1] if own.parent.name == "conf" else own)
    return own.name if reference == "${sys:wso2.runtime}" else None
