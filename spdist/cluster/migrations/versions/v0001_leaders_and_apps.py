"""The tables of spdist 0.1 to 0.12: who leads, which managers there are, which apps are deployed."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Integer, String

from spdist.cluster.migrations.columns import NAME, TEXT

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create what is missing."""
    op.create_table(
        "spdist_leader",
        Column("group_id", NAME, primary_key=True),
        Column("node_id", NAME, nullable=False),
        Column("term", BigInteger, nullable=False),
        Column("last_heartbeat", BigInteger, nullable=False),
        Column("url", TEXT, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "spdist_manager",
        Column("group_id", NAME, primary_key=True),
        Column("node_id", NAME, primary_key=True),
        Column("url", TEXT, nullable=False),
        Column("last_heartbeat", BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "spdist_deployment",
        Column("group_id", NAME, primary_key=True),
        Column("name", NAME, primary_key=True),
        Column("text", TEXT, nullable=False),
        Column("version", Integer, nullable=False),
        Column("desired", String(16), nullable=False),
        Column("term", BigInteger, nullable=False),
        Column("created_ms", BigInteger, nullable=False),
        Column("updated_ms", BigInteger, nullable=False),
        if_not_exists=True,
    )
