"""How large a text, list or map may be that a function makes: one event must not fill the memory of a worker."""

from __future__ import annotations

__all__ = ["MOST_CHARACTERS", "MOST_ENTRIES", "Room", "check_entries", "check_length"]

#: Of a text that a function makes.
MOST_CHARACTERS = 10_000_000
#: Of a list or a map that a function adds to; so many lists and maps, too, are written into one text.
MOST_ENTRIES = 1_000_000


def check_length(characters: int) -> None:
    """Refuse a text of so many characters, before it is made.

    Raises
    ------
    ValueError
        They are more than `MOST_CHARACTERS`; that costs the event.
    """
    if characters > MOST_CHARACTERS:
        raise ValueError(f"a text of {characters} characters is longer than {MOST_CHARACTERS}")


def check_entries(entries: int) -> None:
    """Refuse a list or a map of so many entries, before it is made.

    Raises
    ------
    ValueError
        They are more than `MOST_ENTRIES`; that costs the event.
    """
    if entries > MOST_ENTRIES:
        raise ValueError(f"a list or map of {entries} entries is larger than {MOST_ENTRIES}")


class Room:
    """How much of a text may still be written.

    An object may hold another one several times, and so on inside of that: its text is longer than all memory, though
    the object is small. So it is counted while it is written.
    """

    __slots__ = ("characters", "holders")

    def __init__(self) -> None:
        self.characters = MOST_CHARACTERS
        self.holders = MOST_ENTRIES

    def enter(self) -> None:
        """Begin with a list or a map; raises OverflowError where there were too many."""
        self.holders -= 1
        if self.holders < 0:
            raise OverflowError(f"the text of an object shows more than {MOST_ENTRIES} lists and maps")

    def fill(self, text: str) -> str:
        """Return a part of the text.

        Raises
        ------
        OverflowError
            It is too long by that part: an error that nobody takes for a value without a text.
        """
        self.characters -= len(text)
        if self.characters < 0:
            raise OverflowError(f"the text of an object is longer than {MOST_CHARACTERS} characters")
        return text
