"""Where an instance begins, as an update of its app has decided it (`planning.updates.succession`). Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FIRST", "Begin", "Origin"]


@dataclass(frozen=True, slots=True)
class Begin:
    """Where an instance begins to read a partition that its state does not know.

    Parameters
    ----------
    topic : str
        Its name.
    partition : int
        Its number.
    offset : int
        Offset of the first record that is for the instance.
    after : str
        The instance that has read the partition before: its position counts, and `offset` where it has none. Empty
        where there was none.
    update : str
        Name of the update that has decided this: what `after` does in a life that began with it does not count.
    """

    topic: str
    partition: int
    offset: int
    after: str = ""
    update: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """What an update has decided on the beginning of an instance.

    Parameters
    ----------
    update : str
        Names the update with which the instance came, as no other one is named; empty for one that was there from the
        first. A state that another update has begun is not the instance's.
    begins : tuple of Begin
        Partitions in which it does not begin with the oldest record.
    """

    update: str = ""
    begins: tuple[Begin, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Origin:
        """Rebuild it from its JSON form."""
        return cls(data["update"], tuple(Begin(**one) for one in data["begins"]))


#: Of an instance that was there from the first.
FIRST = Origin()
