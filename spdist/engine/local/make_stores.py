"""Makes what an app keeps rows in: tables, named windows and aggregations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spdist.engine.local.app_context import AppContext
from spdist.engine.local.stateful_parts import StatefulPart
from spdist.extension import catalog
from spdist.language import ast
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.core.junction import Receiver
from spdist.operators.core.triggers import PURGE_RANK
from spdist.operators.tables.stores import KeptStore, OutsideStores
from spdist.operators.tables.table import make_table
from spdist.operators.windows.named_window import NamedWindow

__all__ = ["catalog_of", "make_stores", "parts_of"]


def catalog_of(checked: CheckedApp, stores: Mapping[str, Any]) -> Catalog:
    """Return what the expressions of an app may call, its own functions first, and look into."""
    return replace(catalog().with_functions(checked.scripts), stores=stores)


def make_stores(
    checked: CheckedApp, context: AppContext, time_zone: str = "GMT", outside: OutsideStores | None = None
) -> dict[str, KeptStore]:
    """Return the stores of an app by id; aggregations read their streams from now on, before all queries.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    context : AppContext
        Its streams, clock and timers.
    time_zone : str
        In which the hours, days, months and years of aggregations begin.
    outside : OutsideStores, optional
        Makes those with ``@Store``; without it such an app is refused.
    """
    stores: dict[str, KeptStore] = {}
    for position, definition in enumerate(checked.app.definitions):
        if isinstance(definition, ast.WindowDefinition):
            schema = checked.windows[definition.name]
            joined = definition.name in checked.joined
            # Timers of named windows fire before those of all queries, behind the wake-up (-1, 0) that starts the app
            stores[definition.name] = NamedWindow(definition, schema, (-1, 1 + position), context, joined)
        elif isinstance(definition, ast.TableDefinition):
            kept = outside.table(definition, lambda: context.clock.now) if outside is not None else None
            stores[definition.name] = make_table(definition) if kept is None else kept
    known = catalog_of(checked, stores)
    for position, (id, aggregated) in enumerate(checked.aggregated.items()):
        aggregation = stores[id] = Aggregation(
            aggregated,
            PURGE_RANK + position,
            known,
            context,
            time_zone,
            outside.buckets(aggregated) if outside else None,
        )
        for stream_id, (one, many) in aggregation.receivers.items():
            context.junction(stream_id).subscribe(Receiver(one, many, aggregation.loop))
    return stores


def parts_of(stores: Mapping[str, KeptStore]) -> dict[tuple[str, str], StatefulPart]:
    """Return the stores of an app by kind and key, see `spdist.planning.updates.fingerprints.AppElement`."""
    kinds = (("window", NamedWindow), ("aggregation", Aggregation))
    found = {}
    for id, store in stores.items():
        kind = next((kind for kind, made in kinds if isinstance(store, made)), "table")
        start = (store.start,) if isinstance(store, Aggregation) else ()
        found[kind, id] = StatefulPart(store.snapshot, store.restore, *start)
    return found
