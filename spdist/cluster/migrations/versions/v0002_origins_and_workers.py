"""The tables that spdist 0.13 added: where instances begin, and which workers there were."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Integer

from spdist.cluster.migrations.columns import NAME, TEXT

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create what is missing."""
    op.create_table(
        "spdist_origin",
        Column("group_id", NAME, primary_key=True),
        Column("name", NAME, primary_key=True),
        Column("version", Integer, nullable=False),
        Column("origins", TEXT, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "spdist_worker_list",
        Column("group_id", NAME, primary_key=True),
        Column("term", BigInteger, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "spdist_worker",
        Column("group_id", NAME, primary_key=True),
        Column("node_id", NAME, primary_key=True),
        Column("incarnation", NAME, nullable=False),
        Column("registered_ms", BigInteger, nullable=False),
        if_not_exists=True,
    )
