"""Escapes of characters in JSON, and the halves of characters that they may be."""

from __future__ import annotations

import re

__all__ = ["joined_halves", "unit_of"]

_DIGITS = re.compile("[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?[\da-fA-F]+")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def unit_of(digits: str, as_number: bool = False) -> str:
    """Return the UTF-16 unit that hexadecimal digits mean, maybe half of a character.

    Parameters
    ----------
    digits : str
        What stands behind the ``u`` of an escape, at most four characters.
    as_number : bool
        Whether they are read by ``Integer.parseInt``, which also takes a sign, and the digits of all scripts.

    Raises
    ------
    ValueError
        They are no such digits.
    """
    if not (_NUMBER if as_number else _DIGITS).fullmatch(digits):
        raise ValueError(f"'{digits}' are no hexadecimal digits")
    # A cast to char keeps the last 16 bits, also of what is below zero
    return chr(int(digits, 16) & 0xFFFF)


def joined_halves(text: str) -> str:
    """Return a text in which two halves in a row are one character, as in Java's texts of UTF-16 units."""
    return _PAIR.sub(lambda pair: pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
