"""Java's hash codes of values, as source: by them some windows and tables are in the order of a ``HashMap``."""

from __future__ import annotations

from spdist.java.objects import hash_of
from spdist.language.types import Type
from spdist.program.expressions import FLAG, NUMBER, Value
from spdist.program.key_text import key_word
from spdist.program.parts import Whole

__all__ = ["behind", "hashed", "hashed_text"]


def hashed(whole: Whole, value: Value) -> str:
    """Return source of the hash code of a value, without sign; that of null is 0.

    Parameters
    ----------
    whole : Whole
        The text.
    value : Value
        The value; a whole number is a long where it is none of 32 bits.
    """
    if value.type is Type.STRING:
        return _unless_null(value, _of_text(whole, "0", value.text), "0")
    if value.type is Type.BOOL:
        return _unless_null(value, f"({hash_of(True)} if {value.text} else {hash_of(False)})", "0")
    if value.type is Type.FLOAT:
        return _unless_null(value, f"float_hash({value.text})", "0")
    return _unless_null(value, f"{'word' if value.type is Type.DOUBLE else 'whole'}_hash({key_word(value)})", "0")


def hashed_text(whole: Whole, value: Value, before: str = "0") -> str:
    """Return source of the hash code of a value as a text, without sign.

    Parameters
    ----------
    whole : Whole
        The text.
    value : Value
        The value, no real.
    before : str
        Source of the hash code of what the text stands behind.
    """
    if value.type is Type.STRING:
        code = _of_text(whole, before, value.text)
    elif value.type is Type.BOOL:
        code = f"({behind(before, 'true')} if {value.text} else {behind(before, 'false')})"
    else:
        code = f"digits_hash({before}, {value.text})"
    return _unless_null(value, code, behind(before, "null"))


def behind(before: str, text: str) -> str:
    """Return source of the hash code of a text of the program's own behind another one."""
    if before == "0":
        return str(hash_of(text))
    # Java hashes by h = 31 * h + c, so what is appended shifts the rest by 31 for each of its characters
    return f"(({before} * {31 ** len(text) & 0xFFFFFFFF} + {hash_of(text)}) & 0xFFFFFFFF)"


def _of_text(whole: Whole, before: str, number: str) -> str:
    whole.arrays.declare("text_starts", NUMBER, "1")
    whole.arrays.declare("text_bytes", FLAG, "1")
    whole.sorts_texts = True
    return f"text_hash({before}, text_starts, text_bytes, {number})"


def _unless_null(value: Value, code: str, null: str) -> str:
    return f"({null} if {value.null} else {code})" if value.null else code
