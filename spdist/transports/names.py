"""Names of topics where a server allows fewer letters than we do."""

from __future__ import annotations

import re

__all__ = ["plain_name"]


def plain_name(name: str, also: str = "") -> str:
    """Return `name` with ASCII letters, digits, ``-``, ``_`` and the letters of `also` only; others as ``-u<hex>-``.

    Names that differ stay different: ``-u`` in the result is always the beginning of such a letter.
    """
    if re.fullmatch(rf"[A-Za-z0-9_{re.escape(also)}-]+", name) and "-u" not in name:
        return name
    parts = []
    for position, letter in enumerate(name):
        plain = letter.isascii() and (letter.isalnum() or letter in "-_" or letter in also)
        # A `-` before a `u` is escaped itself: else a topic called `-u2e-` would have the name of one called `.`.
        if plain and name[position : position + 2] != "-u":
            parts.append(letter)
        else:
            parts.append(f"-u{ord(letter):x}-")
    return "".join(parts)
