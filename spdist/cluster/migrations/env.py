"""What alembic runs around migrations: it hands over the connection, or prints for a dialect what would be done."""

from __future__ import annotations

from alembic import context

from spdist.cluster.migrations import VERSION_TABLE

_given = context.config.attributes
if context.is_offline_mode():
    context.configure(
        dialect_name=_given["dialect"],
        version_table=VERSION_TABLE,
        literal_binds=True,
        output_buffer=_given["output"],
    )
else:
    context.configure(connection=_given["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
