"""The databases of one app: its tables and aggregations there, with one object for each database that they name."""

from __future__ import annotations

from collections.abc import Callable

from spdist.config.allowed import Allowed
from spdist.errors import AppValidationError
from spdist.language import ast
from spdist.language.checking.checked import CheckedAggregation
from spdist.language.types import Schema
from spdist.operators.tables.stores import BucketStore, StoreBatch, TableStore
from spdist.operators.tables.table import keyed_attributes
from spdist.spans import Span
from spdist.stores.bucket_shards import ShardedBuckets
from spdist.stores.buckets import SHARD, StoredBuckets, bucket_tables
from spdist.stores.cache import RowCache
from spdist.stores.columns import DEFAULT_LENGTH, Columns, storable
from spdist.stores.database import Database
from spdist.stores.engines import open_engine
from spdist.stores.settings import DatabaseSettings, StoreSettings, check_table_name, store_settings
from spdist.stores.table import StoredTable

__all__ = ["DatabaseStores"]

#: How long a connection, a lock or a statement may take, ms.
_TIMEOUT_MS = 30_000


class DatabaseStores:
    """Makes the stores of one app in databases, and applies its batches once: an `OutsideStores`.

    Parameters
    ----------
    allowed : Allowed
        The secrets, databases and files that the app may refer to.

    State
    -----
    One `Database` for each database of the app.
    """

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._databases: dict[tuple[str, str], Database] = {}

    def table(self, definition: ast.TableDefinition, now: Callable[[], int]) -> TableStore | None:
        """Return the table of a definition; None where it has no ``@Store``. `now` is the app's time, ms."""
        settings = self._settings(definition.annotations, definition.name, definition.schema)
        if settings is None:
            return None
        key = keyed_attributes(definition, "PrimaryKey")
        indexed = keyed_attributes(definition, "Index")
        database = self._database(settings.database)
        columns = Columns(
            definition.schema, key, indexed, settings.table, settings.lengths, settings.nulls, database.dialect
        )
        cache = RowCache(settings.cache, now) if settings.cache is not None else None
        return StoredTable(definition.name, key, columns, database, cache)

    def buckets(self, aggregation: CheckedAggregation) -> BucketStore | None:
        """Return where an aggregation keeps its closed buckets; None where it has no ``@Store``."""
        (store,) = ast.find_annotations(aggregation.definition.annotations, "Store")[:1] or (None,)
        settings = self._settings(aggregation.definition.annotations, aggregation.id, aggregation.output)
        if settings is None:
            return None
        if store is not None:
            # The names that are made of it are checked, too: one of them may be a table of spdist.
            for name in bucket_tables(settings.table, aggregation.durations):
                check_table_name(name, self._allowed, store)
        place = (aggregation.id, aggregation.durations, aggregation.output, settings.table)
        if not (aggregation.by_id or self._allowed.partition_by_id):
            return StoredBuckets(*place, self._database(settings.database))
        span = (store or aggregation.definition).span
        self._check_shard(aggregation, span)
        return ShardedBuckets(*place, self._database(settings.database), self._allowed.shard_id)

    def _check_shard(self, aggregation: CheckedAggregation, span: Span | None) -> None:
        shard = self._allowed.shard_id
        if not shard:
            message = f"Configuration 'shardId' not provided for @partitionById of aggregation '{aggregation.id}'"
            hint = "Set siddhi.properties.shardId in deployment.yaml, to another name on each node."
            raise AppValidationError(message, span=span, hint=hint)
        if len(shard) > DEFAULT_LENGTH or not storable(shard):
            hint = f"It is text of at most {DEFAULT_LENGTH} characters."
            raise AppValidationError(f"The shardId of this node is no name: {shard!r:.80}", span=span, hint=hint)
        taken = next((name for name in aggregation.output.names if name.upper() == SHARD), None)
        if taken is not None:
            message = f"'{taken}' is the column in which tables of several nodes keep whose row it is"
            raise AppValidationError(message, span=span, hint="Select it under another name.")

    def _settings(self, annotations: tuple[ast.Annotation, ...], name: str, schema: Schema) -> StoreSettings | None:
        stores = ast.find_annotations(annotations, "Store")
        return store_settings(stores[0], name, schema, self._allowed) if stores else None

    def _database(self, settings: DatabaseSettings) -> Database:
        # Tables of one database share a transaction, so that a batch is there as a whole.
        place = (settings.url, settings.username)
        known = self._databases.get(place)
        if known is None:
            password = settings.password.reveal() if settings.password is not None else ""
            engine = open_engine(
                settings.url,
                settings.username,
                password,
                timeout_ms=_TIMEOUT_MS,
                purpose="stores",
                embedded=True,
                of_node=settings.of_node,
                pool=settings.pool,
            )
            name = f"the {engine.dialect.name} database {_shown(settings)}"
            known = self._databases[place] = Database(engine, name, settings.secrets)
        return known

    def begin(self, batch: StoreBatch) -> None:
        """Begin a batch in all databases; one that was begun and not committed is undone."""
        for database in self._databases.values():
            database.begin(batch)

    def commit(self) -> None:
        """Make the changes of the batch durable, database by database; each notes the batch for itself."""
        for database in self._databases.values():
            database.commit()

    def close(self) -> None:
        """Undo what was not committed, and close all connections."""
        for database in self._databases.values():
            database.close()


def _shown(settings: DatabaseSettings) -> str:
    # Neither host nor user: the name is shown in errors.
    return settings.url.partition("?")[0].rpartition("/")[2]
