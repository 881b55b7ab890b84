"""The queries and partitions of a local app, in the order of its text."""

from __future__ import annotations

from collections.abc import Mapping

from spdist.engine.local.app_context import AppContext
from spdist.engine.local.make_stores import parts_of
from spdist.engine.local.rows import count_rows
from spdist.engine.local.stateful_parts import StatefulPart
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp, CheckedPartition
from spdist.language.checking.scope import undefined
from spdist.operators.aggregations.aggregation import Aggregation
from spdist.operators.core.junction import Receiver
from spdist.operators.core.triggers import PURGE_RANK
from spdist.operators.partitions.partition import PartitionPlan, PartitionRuntime
from spdist.operators.queries.plans import QueryInstance, QueryPlan, without_kinds
from spdist.operators.queries.query import SingleStreamQuery, StateQuery, plan_query
from spdist.operators.tables.stores import KeptStore
from spdist.operators.tables.table import Table
from spdist.operators.windows.named_window import NamedWindow

__all__ = ["AppElements"]


class AppElements:
    """What runs in an app, subscribed to what it reads.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    known : Catalog
        Signatures, and the stores that conditions look into.
    stores : mapping of str to KeptStore
        Tables, named windows and aggregations by id.
    context : AppContext
        Where queries outside of partitions live.

    State
    -----
    That of the queries and partitions.
    """

    def __init__(
        self, checked: CheckedApp, known: Catalog, stores: Mapping[str, KeptStore], context: AppContext
    ) -> None:
        self.plans: dict[str, QueryPlan] = {}
        self._queries: dict[str, QueryInstance] = {}
        self._partitions: list[PartitionRuntime] = []
        self._checked = checked
        self._stores = stores
        self._context = context
        read = {**checked.streams, **checked.windows}
        rank = 0
        for element in checked.elements:
            if isinstance(element, CheckedPartition):
                position = len(self._partitions)
                purge = PURGE_RANK + len(checked.aggregated) + position
                ranks = [*range(rank, rank + len(element.queries)), purge]
                plan = PartitionPlan(element, position, ranks, read, known, stores)
                rank += len(element.queries)
                self.plans |= {query.name: query for query in plan.queries}
                runtime = PartitionRuntime(plan, context)
                self._partitions.append(runtime)
                self._subscribe(runtime)
            else:
                query = self.plans[element.name] = plan_query(element, rank, known, stores)
                rank += 1
                instance = self._queries[element.name] = query.instance(context)
                self._subscribe(instance)

    def _subscribe(self, element: QueryInstance | PartitionRuntime) -> None:
        loops = element.loops if isinstance(element, SingleStreamQuery | StateQuery | PartitionRuntime) else {}
        for stream_id, (one, many) in element.receivers.items():
            if stream_id in self._checked.windows:
                self.window(stream_id).subscribe(without_kinds(many))
            else:
                self._context.junction(stream_id).subscribe(Receiver(one, many, loops.get(stream_id)))
        for window_id, receive in element.event_receivers.items():
            self.window(window_id).subscribe(receive)

    def window(self, window_id: str) -> NamedWindow:
        """Return a named window; raises UndefinedNameError where there is none."""
        window = self._stores.get(window_id)
        if not isinstance(window, NamedWindow):
            raise undefined("window", window_id, None, self._checked.windows)
        return window

    def table(self, id: str) -> Table:
        """Return a table in memory."""
        table = self._stores[id]
        assert isinstance(table, Table)
        return table

    def query(self, name: str) -> QueryInstance:
        """Return a query outside of partitions."""
        return self._queries[name]

    def partition(self, number: int) -> PartitionRuntime:
        """Return a partition, by its place among those of the app."""
        return self._partitions[number]

    def aggregation(self, id: str) -> Aggregation:
        """Return an aggregation; raises UndefinedNameError where there is none."""
        found = self._stores.get(id)
        if not isinstance(found, Aggregation):
            raise undefined("aggregation", id, None, self._checked.aggregated)
        return found

    def reading(self, stream_id: str) -> int:
        """Return how many of them a stream delivers to, aggregations among them."""
        if stream_id in self._checked.windows:
            return 0  # patterns have what it releases like events of a stream
        every: list[QueryInstance | PartitionRuntime | Aggregation] = [*self._queries.values(), *self._partitions]
        every += [store for store in self._stores.values() if isinstance(store, Aggregation)]
        return sum(stream_id in element.receivers for element in every)

    def start(self) -> None:
        """Begin: waiting elements of patterns count from now."""
        for query in self._queries.values():
            query.start()

    def parts(self) -> dict[tuple[str, str], StatefulPart]:
        """Return stores, queries and partitions by kind and key (`spdist.planning.updates.fingerprints.AppElement`)."""
        queries = {("query", name): StatefulPart(q.snapshot, q.restore, q.start) for name, q in self._queries.items()}
        partitions = {
            ("partition", str(number)): StatefulPart(one.snapshot, one.restore)
            for number, one in enumerate(self._partitions)
        }
        return {**parts_of(self._stores), **queries, **partitions}

    def held_rows(self) -> int:
        """Return how many rows the queries and partitions hold; see `count_rows`."""
        elements: list[QueryInstance | PartitionRuntime] = [*self._queries.values(), *self._partitions]
        return sum(count_rows(element.snapshot()) for element in elements)
