"""The stores of one app: each opened by what its type names in the registry of connectors, all in one batch."""

from __future__ import annotations

from collections.abc import Callable

from spdist.config.allowed import Allowed
from spdist.connectors.registry import store_types, why_missing
from spdist.errors import ErrorKind, UndefinedNameError
from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation
from spdist.operators.tables.stores import BucketStore, OutsideStores, StoreBatch, TableStore
from spdist.packages import STORES

__all__ = ["Stores", "open_stores"]

#: The type that keeps an aggregation in the state of its app, as without ``@Store``.
_IN_MEMORY = "in-memory"


def open_stores(allowed: Allowed) -> Stores:
    """Return what makes the stores of one app; connects to nothing before the app has one.

    Parameters
    ----------
    allowed : Allowed
        The secrets, databases and files that the app may refer to.
    """
    return Stores(allowed)


class Stores:
    """Makes the stores of one app, and applies its batches once (`spdist.operators.tables.stores.OutsideStores`).

    State
    -----
    What makes the stores of each type that the app has; types that name the same share one.
    """

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._opened: dict[str, OutsideStores] = {}

    def table(self, definition: ast.TableDefinition, now: Callable[[], int]) -> TableStore | None:
        """Return the table of a definition; None where it has no ``@Store``. `now` is the app's time, ms."""
        stores = ast.find_annotations(definition.annotations, "Store")
        return self._of(stores[0]).table(definition, now) if stores else None

    def buckets(self, aggregation: CheckedAggregation) -> BucketStore | None:
        """Return where an aggregation keeps its closed buckets; None where it has no ``@Store``."""
        stores = ast.find_annotations(aggregation.definition.annotations, "Store")
        if not stores or (stores[0].get("type") or "").lower() == _IN_MEMORY:
            return None
        return self._of(stores[0]).buckets(aggregation)

    def _of(self, store: ast.Annotation) -> OutsideStores:
        kind = (store.get("type") or "").strip().lower()
        known = store_types().get(kind)
        if known is None:
            message = f"There is no store '{store.get('type') or store.get('ref')}'"
            hint = why_missing(kind, STORES) or f"Stores: {', '.join(sorted(store_types()))}."
            raise UndefinedNameError(message, span=store.span, hint=hint, code=ErrorKind.UNKNOWN_EXTENSION)
        if known.open not in self._opened:
            self._opened[known.open] = known.load(known.open)(self._allowed)
        return self._opened[known.open]

    def begin(self, batch: StoreBatch) -> None:
        """Begin a batch in all stores; one that was begun and not committed is undone."""
        for one in self._opened.values():
            one.begin(batch)

    def commit(self) -> None:
        """Make the changes of the batch durable, type by type."""
        for one in self._opened.values():
            one.commit()

    def close(self) -> None:
        """Undo what was not committed, and close what is open."""
        for one in self._opened.values():
            one.close()
