"""The journal of the cluster.

What is looked for stands in constraints, not indexes: they are made with the table in one step, also by MySQL.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, String, UniqueConstraint

from spdist.cluster.migrations.columns import NAME, NUMBER, TEXT

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "spdist_journal",
        Column("id", NUMBER, primary_key=True, autoincrement=True),
        Column("group_id", NAME, nullable=False),
        Column("mark", String(64), nullable=False),
        Column("time_ms", BigInteger, nullable=False),
        Column("term", BigInteger),
        Column("node_id", TEXT, nullable=False),
        Column("kind", String(64), nullable=False),
        Column("level", String(16), nullable=False),
        Column("app", NAME, nullable=False),
        Column("instance", TEXT, nullable=False),
        Column("worker", TEXT, nullable=False),
        Column("username", TEXT, nullable=False),
        Column("reason", TEXT, nullable=False),
        Column("message", TEXT, nullable=False),
        UniqueConstraint("mark", name="spdist_journal_mark"),
        UniqueConstraint("group_id", "time_ms", "id", name="spdist_journal_time"),
        UniqueConstraint("group_id", "app", "id", name="spdist_journal_app"),
        if_not_exists=True,
    )
