"""The kinds of columns that the coordination database has.

Migrations that have been published name them, so they never change: what is to be different gets another name.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, String, Text
from sqlalchemy.dialects.mysql import LONGTEXT, VARCHAR

__all__ = ["NAME", "NUMBER", "TEXT"]

# MySQL's keys have no room for longer ones.
_LONGEST = 255

# MySQL compares text without regard to case unless told otherwise; our names are exact.
NAME = String(_LONGEST).with_variant(VARCHAR(_LONGEST, collation="utf8mb4_bin"), "mysql", "mariadb")
TEXT = Text().with_variant(LONGTEXT(collation="utf8mb4_bin"), "mysql", "mariadb")
#: A key that the database counts up; SQLite does that for an INTEGER only.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")
