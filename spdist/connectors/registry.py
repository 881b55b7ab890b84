"""The registry of connectors: what each declares of itself, found by its type, its code loaded when it is opened.

A connector is one folder of this package with a `Connector` named ``CONNECTOR`` in its ``__init__.py``; or that of
another distribution, named by an entry point of the group ``spdist.connectors`` (`spdist.packages`). A declaration is
values only: checker, planner and completion read it, and load no library for it.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from spdist.errors import TransportError
from spdist.packages import CONNECTORS, brought, failures, named_packages

__all__ = ["Connector", "built_in", "connector", "connectors", "sink_types", "source_types", "why_missing"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """What the sources and sinks of one type are.

    Parameters
    ----------
    type : str
        As ``@source(type='…')`` and ``@sink(type='…')`` name it.
    source : str
        ``module:callable`` that makes a `spdist.connectors.receiving.Source` of a
        `~spdist.connectors.receiving.SourceContext`; empty where there is none, or Spark reads it.
    sink : str
        ``module:callable`` that makes a `spdist.connectors.sending.Sink` of options and a
        `~spdist.connectors.sending.SinkContext`; empty where there is none.
    check : str
        ``module:callable`` that is told of each sink before the app runs: its options, its annotation and the schema of
        its stream. Without it the sink is opened and closed.
    read_by_spark : bool
        Whether Spark's own reader brings in what a source reads.
    needed : tuple of str
        Options without which it does nothing.
    dynamic : tuple of str, optional
        Options of a sink that may differ from event to event; None where any may.
    secrets : tuple of str
        Options that may hold ``${secret:NAME}``: they are used for logins, and shown nowhere. ``option.*`` stands for
        all whose names begin so.
    services : bool
        Whether options ``dep:…`` mean something: a service that is deployed next to the app.
    requires : str
        What to install where its code finds a library missing, for example ``acme-mqtt[tls]``.
    """

    type: str
    source: str = ""
    sink: str = ""
    check: str = ""
    read_by_spark: bool = False
    needed: tuple[str, ...] = ()
    dynamic: tuple[str, ...] | None = None
    secrets: tuple[str, ...] = ()
    services: bool = True
    requires: str = ""

    def load(self, place: str) -> Any:
        """Return what ``module:callable`` names.

        Raises
        ------
        TransportError
            Its module, or a library that it needs, cannot be imported.
        """
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            hint = f"install {self.requires}" if self.requires else None
            raise TransportError(f"the connector '{self.type}' cannot be loaded: {error}", hint=hint) from error


def connectors() -> Mapping[str, Connector]:
    """Return all connectors by type: built-in ones, then those of the packages that this process may load."""
    return _connectors(named_packages())


def connector(type: str | None) -> Connector | None:
    """Return the connector of a type, None where there is none."""
    return connectors().get(type or "")


def source_types() -> tuple[str, ...]:
    """Return the types of sources, in the order of the alphabet."""
    return tuple(sorted(one.type for one in connectors().values() if one.source or one.read_by_spark))


def sink_types() -> tuple[str, ...]:
    """Return the types of sinks, in the order of the alphabet."""
    return tuple(sorted(one.type for one in connectors().values() if one.sink))


def why_missing(type: str) -> str | None:
    """Return why there is no connector of a type although a package was named for it; None where nothing says so."""
    return next(iter(failures(CONNECTORS, type)), None)


@cache
def built_in() -> Mapping[str, Connector]:
    """Return the connectors in this package by type."""
    package = importlib.import_module(__package__ or "spdist.connectors")
    modules = [f"{package.__name__}.{one.name}" for one in pkgutil.iter_modules(package.__path__) if one.ispkg]
    declared: list[Connector] = [importlib.import_module(module).CONNECTOR for module in modules]
    return MappingProxyType({one.type: one for one in declared})


@cache
def _connectors(packages: tuple[str, ...]) -> Mapping[str, Connector]:
    known = dict(built_in())
    for one in brought(CONNECTORS) if packages else ():
        if one.problem:  # it was told when it was loaded
            continue
        if not isinstance(one.value, Connector):
            log.warning("'%s' of the package %s is no connector: %r", one.name, one.package, one.value)
        elif one.value.type in known:
            log.warning(
                "the package %s brings a connector '%s'; there is one already, which stays",
                one.package,
                one.value.type,
            )
        else:
            known[one.value.type] = one.value
    return MappingProxyType(known)
