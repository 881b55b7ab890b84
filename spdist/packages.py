"""Packages of others that add to spdist: what their entry points bring, loaded where they are named, and else not.

A distribution adds connectors with entry points of the group ``spdist.connectors``, stores with those of
``spdist.stores``, and functions, aggregators, windows, stream functions and mappings with modules that the group
``spdist.extensions`` names. Loading one runs its code with all rights of the process. So being installed is not enough:
who runs the process names the distributions, by `use_packages` or, on a node, in the settings
(``siddhi.script.python.packages``). Processes that it starts have them from the environment.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib import metadata

__all__ = [
    "CONNECTORS",
    "EXTENSIONS",
    "STORES",
    "Brought",
    "brought",
    "failures",
    "named_packages",
    "use_packages",
    "variables",
]

log = logging.getLogger(__name__)

#: Groups of entry points.
CONNECTORS, STORES, EXTENSIONS = "spdist.connectors", "spdist.stores", "spdist.extensions"
#: The variable of the environment with the names, so that processes of Spark and of the planner have them as well.
_NAMED = "SPDIST_PACKAGES"


@dataclass(frozen=True, slots=True)
class Brought:
    """What one entry point of a named distribution brings.

    Parameters
    ----------
    name : str
        Of the entry point.
    package : str
        The distribution with its version, for messages.
    value : Any
        What the entry point names; None where it could not be loaded.
    problem : str
        Why it could not be loaded: a sentence with the names of the entry point and the distribution; else empty.
    """

    name: str
    package: str
    value: Any
    problem: str = ""


def use_packages(names: Iterable[str]) -> None:
    """Let this process, and the processes that it starts from now on, load what these distributions bring.

    Parameters
    ----------
    names : iterable of str
        Of distributions, as ``pip`` knows them, besides those of earlier calls.
    """
    named = {_canonical(name) for name in names if name.strip()}
    if named:
        os.environ[_NAMED] = ",".join(sorted({*named_packages(), *named}))


def named_packages() -> tuple[str, ...]:
    """Return the names of the distributions that this process may load, in the order of the alphabet."""
    return tuple(name for name in os.environ.get(_NAMED, "").split(",") if name)


def variables() -> dict[str, str]:
    """Return the variables with which a process that this one does not start itself loads the same packages."""
    return {_NAMED: os.environ[_NAMED]} if named_packages() else {}


def brought(group: str) -> tuple[Brought, ...]:
    """Return what the named distributions bring for a group, in the order of their names.

    What cannot be loaded is logged once, and stops nothing else.
    """
    return tuple(one for name in named_packages() for one in _brought_by(name, group))


def failures(group: str, name: str) -> tuple[str, ...]:
    """Return why the entry points of a name could not be loaded; empty where nothing is wrong."""
    return tuple(one.problem for one in brought(group) if one.problem and one.name in (name, ""))


@cache
def _brought_by(package: str, group: str) -> tuple[Brought, ...]:
    from importlib import metadata  # half of what importing spdist may cost

    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return (_failed("", package, f"the package {package} is named in the settings, and is not installed here"),)
    known_as = f"{found.metadata['Name']} {found.version}"
    return tuple(_loaded(entry, known_as) for entry in found.entry_points.select(group=group))


def _loaded(entry: metadata.EntryPoint, package: str) -> Brought:
    try:
        return Brought(entry.name, package, entry.load())
    except (Exception, SystemExit) as error:  # whatever the code of others does when it is imported
        why = f"{type(error).__name__}: {error}"
        return _failed(entry.name, package, f"'{entry.name}' of the package {package} ({entry.value}): {why}")


def _failed(name: str, package: str, problem: str) -> Brought:
    log.warning("%s", problem)
    return Brought(name, package, None, problem)


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
