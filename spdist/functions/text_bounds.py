"""How long a text may be that a function makes: one event must not fill the memory of a worker."""

from __future__ import annotations

__all__ = ["MOST_CHARACTERS", "check_length"]

#: Of a text that a function makes.
MOST_CHARACTERS = 10_000_000


def check_length(characters: int) -> None:
    """Refuse a text of so many characters, before it is made.

    Raises
    ------
    ValueError
        They are more than `MOST_CHARACTERS`; that costs the event.
    """
    if characters > MOST_CHARACTERS:
        raise ValueError(f"a text of {characters} characters is longer than {MOST_CHARACTERS}")
