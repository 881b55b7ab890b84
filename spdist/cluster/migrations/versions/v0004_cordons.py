"""Workers that are given nothing new."""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, Integer

from spdist.cluster.migrations.columns import NAME

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "spdist_cordon",
        Column("group_id", NAME, primary_key=True),
        Column("node_id", NAME, primary_key=True),
        Column("drain", Integer, nullable=False),
        Column("since_ms", BigInteger, nullable=False),
        if_not_exists=True,
    )
