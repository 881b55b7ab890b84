"""The registry of connectors and stores: what each declares of itself, found by its type, its code loaded when opened.

A connector is one folder of this package with a `Connector` named ``CONNECTOR`` in its ``__init__.py``; or that of
another distribution, named by an entry point of the group ``spdist.connectors``. A store is a `StoreType` of this
module, or one that an entry point of the group ``spdist.stores`` names (`spdist.packages`). A declaration is values
only: checker, planner and completion read it, and load no library for it.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from spdist.errors import SpdistError, StoreError, TransportError
from spdist.packages import CONNECTORS, STORES, brought, failures, named_packages

__all__ = [
    "Connector",
    "Declaration",
    "StoreType",
    "built_in",
    "connector",
    "connectors",
    "sink_types",
    "source_types",
    "store_types",
    "why_missing",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What is known of something by its type before its code is loaded.

    Parameters
    ----------
    type : str
        As the annotation of an app names it: ``type='…'``.
    secrets : tuple of str
        Options that may hold ``${secret:NAME}``: they are used for logins, and shown nowhere. ``option.*`` stands for
        all whose names begin so.
    requires : str
        What to install where its code finds a library missing, for example ``acme-mqtt[tls]``.
    """

    #: The word for it in messages, and what is raised where its code cannot be loaded.
    kind: ClassVar[str]
    failure: ClassVar[type[SpdistError]]

    type: str
    secrets: tuple[str, ...] = ()
    requires: str = ""

    def load(self, place: str) -> Any:
        """Return what ``module:callable`` names.

        Raises
        ------
        TransportError, StoreError
            Its module, or a library that it needs, cannot be imported.
        """
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            hint = f"install {self.requires}" if self.requires else None
            raise self.failure(f"the {self.kind} '{self.type}' cannot be loaded: {error}", hint=hint) from error


Declared = TypeVar("Declared", bound=Declaration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector(Declaration):
    """What the sources and sinks of one type are; see `Declaration` for what is not named here.

    Parameters
    ----------
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
    services : bool
        Whether options ``dep:…`` mean something: a service that is deployed next to the app.
    """

    kind: ClassVar[str] = "connector"
    failure: ClassVar[type[SpdistError]] = TransportError

    source: str = ""
    sink: str = ""
    check: str = ""
    read_by_spark: bool = False
    needed: tuple[str, ...] = ()
    dynamic: tuple[str, ...] | None = None
    services: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreType(Declaration):
    """What keeps tables and aggregations outside of the state of their app; see `Declaration` for what else it has.

    Parameters
    ----------
    open : str
        ``module:callable`` that makes a `spdist.operators.tables.stores.OutsideStores` of the
        `spdist.config.allowed.Allowed` of an app; types that name the same share one.
    """

    kind: ClassVar[str] = "store"
    failure: ClassVar[type[SpdistError]] = StoreError

    open: str


_DATABASES = "spdist.stores.databases:DatabaseStores"
_STORES = (
    StoreType(type="duckdb", open=_DATABASES),
    StoreType(type="rdbms", open=_DATABASES, secrets=("password", "username")),
)


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


def store_types() -> Mapping[str, StoreType]:
    """Return all types of stores by name: built-in ones, then those of the packages that this process may load."""
    return _store_types(named_packages())


def why_missing(type: str, group: str = CONNECTORS) -> str | None:
    """Return why nothing of a type is there although a package was named for it; None where nothing says so."""
    return next(iter(failures(group, type)), None)


@cache
def built_in() -> Mapping[str, Connector]:
    """Return the connectors in this package by type."""
    package = importlib.import_module(__package__ or "spdist.connectors")
    modules = [f"{package.__name__}.{one.name}" for one in pkgutil.iter_modules(package.__path__) if one.ispkg]
    declared: list[Connector] = [importlib.import_module(module).CONNECTOR for module in modules]
    return MappingProxyType({one.type: one for one in declared})


@cache
def _connectors(packages: tuple[str, ...]) -> Mapping[str, Connector]:
    return _with_brought(CONNECTORS, Connector, built_in()) if packages else built_in()


@cache
def _store_types(packages: tuple[str, ...]) -> Mapping[str, StoreType]:
    own = {one.type: one for one in _STORES}
    return _with_brought(STORES, StoreType, own) if packages else MappingProxyType(own)


def _with_brought(group: str, kind: type[Declared], built_in: Mapping[str, Declared]) -> Mapping[str, Declared]:
    """Return what is built in, and what the named packages bring of a kind; what is built in stays."""
    known = dict(built_in)
    for one in brought(group):
        if one.problem:  # it was told when it was loaded
            continue
        if not isinstance(one.value, kind):
            log.warning("'%s' of the package %s is no %s: %r", one.name, one.package, kind.kind, one.value)
        # A package must not take the place of what is built in, on which apps rely.
        elif one.value.type in known:
            log.warning(
                "the package %s brings a %s '%s'; there is one already, which stays",
                one.package,
                kind.kind,
                one.value.type,
            )
        else:
            known[one.value.type] = one.value
    return MappingProxyType(known)
