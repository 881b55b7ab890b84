"""How far a shard has published at one point of its log: what a revision of it stands by. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Cut", "together"]


@dataclass(frozen=True, slots=True)
class Cut:
    """How far one producer has published.

    Parameters
    ----------
    numbers : mapping of str to tuple of int
        Topic → the number of its next event in each partition.
    above : int
        That number in topics that are not named.
    clock : int
        The latest time that it has promised, ms.
    """

    numbers: Mapping[str, tuple[int, ...]]
    above: int
    clock: int

    def number(self, topic: str, partition: int) -> int:
        """Return the number of the next event in a partition of a topic."""
        known = self.numbers.get(topic, ())
        return known[partition] if partition < len(known) else self.above

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"numbers": dict(self.numbers), "above": self.above, "clock": self.clock}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Cut:
        """Rebuild it from `to_dict`."""
        return cls({topic: tuple(numbers) for topic, numbers in data["numbers"].items()}, data["above"], data["clock"])


def together(cuts: list[Cut]) -> Cut:
    """Return from where on producers number that go on from all of these, under other names or theirs."""
    topics = {topic for cut in cuts for topic in cut.numbers}
    sizes = {topic: max(len(cut.numbers.get(topic, ())) for cut in cuts) for topic in topics}
    numbers = {
        topic: tuple(max(cut.number(topic, partition) for cut in cuts) for partition in range(size))
        for topic, size in sizes.items()
    }
    return Cut(numbers, max(cut.above for cut in cuts), max(cut.clock for cut in cuts))
