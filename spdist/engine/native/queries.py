"""The queries of a stateless app as Columns: chunks of events go from stream to stream as Siddhi delivers them.

Delivery is depth first. A query that fails on an event of a chunk puts out nothing of that chunk, and who reads the
stream after it does not see the chunk; sinks read after all queries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spdist.engine.native.expressions import ExpressionPlace, NativeWriter
from spdist.engine.native.functions import any_fails
from spdist.engine.native.json import field as name_of
from spdist.engine.native.json import write_json
from spdist.engine.native.values import SPARK_TYPES, is_true
from spdist.language import ast
from spdist.language.checking.checked import CheckedQuery
from spdist.planning.columns.realtime import KafkaOutput, RealtimePlan

__all__ = ["ChunkDelivery"]


@dataclass
class ChunkDelivery:
    """Delivers one chunk to a stream, and what comes of it to others, all the way to the sinks.

    Parameters
    ----------
    plan : RealtimePlan
        The app.
    frame : DataFrame
        Records, to which columns are added.
    timestamp : Column
        The events' time, ms.
    payloads : list of Column
        Arrays of structs ``topic, key, partition, value``: what sinks put out, in order.
    lost : list of Column
        How many events were lost on a query that failed.
    """

    plan: RealtimePlan
    frame: DataFrame
    timestamp: Column
    payloads: list[Column] = field(default_factory=list)
    lost: list[Column] = field(default_factory=list)
    _made: int = 0

    def deliver(self, stream: str, chunk: Column) -> None:
        """Deliver a chunk: an array of structs, empty where there is none."""
        for query in self.plan.readers.get(stream, ()):
            results = self._keep(self._computed(query, chunk))
            failed = results.isNull()
            self.deliver(query.target, self._keep(F.coalesce(results, self._none(query))))
            self.lost.append(F.when(failed, F.size(chunk)).otherwise(F.lit(0)))
            # An empty slice has the type of the chunk, which a literal array would not.
            chunk = self._keep(F.when(failed, F.slice(chunk, 1, 0)).otherwise(chunk))
        for output in self.plan.outputs:
            if output.stream == stream:
                self.payloads.append(self._keep(_records(output, chunk)))

    def _keep(self, value: Column) -> Column:
        """Return a column of its own for a value, so that it is computed once."""
        self._made += 1
        name = f"step_{self._made}"
        self.frame = self.frame.withColumn(name, value)
        return F.col(name)

    def _none(self, query: CheckedQuery) -> Column:
        parts = ", ".join(f"{name_of(n)}: {SPARK_TYPES[kind]}" for n, kind in enumerate(query.output.types))
        return F.array().cast(f"array<struct<{parts}>>")

    def _computed(self, query: CheckedQuery, chunk: Column) -> Column:
        """Return the query's results for a chunk; null where it fails on one of its events."""

        def one(event: Column) -> Column:
            passes, row, fails = self._of_event(query, event)
            return F.struct(passes.alias("passes"), fails.alias("fails"), row.alias("row"))

        found = self._keep(F.transform(chunk, one))
        rows = F.transform(F.filter(found, lambda event: event["passes"]), lambda event: event["row"])
        return F.when(~F.exists(found, lambda event: event["fails"]), rows)

    def _of_event(self, query: CheckedQuery, event: Column) -> tuple[Column, Column, Column]:
        """Return whether an event passes the filters, what is selected of it, and whether the query fails on it."""
        source, select = query.query.input, query.query.select
        assert isinstance(source, ast.SingleInput)  # others are not native
        schema = query.scope.sources[0].schema
        attributes = [event[name_of(position)] for position in range(len(schema))]
        writer = NativeWriter(ExpressionPlace(query.scope, attributes, self.timestamp), self.plan.catalog)
        passes, fails = F.lit(True), F.lit(False)
        for handler in source.before:
            assert isinstance(handler, ast.Filter)  # others are not native
            condition = writer.condition(handler.condition)
            # A condition is only asked where those in front of it hold.
            fails = fails | (F.lit(False) if condition.fails is None else passes & condition.fails)
            passes = passes & condition.value
        if not select.items:
            return passes, event, is_true(fails)
        items = [writer.expression(item.expression) for item in select.items]
        own = any_fails(*(item.fails for item in items))
        row = F.struct(
            *(
                item.value.cast(SPARK_TYPES[kind]).alias(name_of(position))
                for position, (item, kind) in enumerate(zip(items, query.output.types, strict=True))
            )
        )
        return passes, row, is_true(fails if own is None else fails | (passes & own))


def _records(output: KafkaOutput, chunk: Column) -> Column:
    def record(value: Column) -> Column:
        return F.struct(
            F.lit(output.topic).alias("topic"),
            F.lit(output.key).cast("string").alias("key"),
            F.lit(output.partition).cast("int").alias("partition"),
            value.alias("value"),
        )

    return F.transform(write_json(chunk, output.form), record)
