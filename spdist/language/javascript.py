"""Functions that an app brings in JavaScript, each in an interpreter of its own that reaches nothing but its arguments.

There are no files, no network, no Java classes and no Python in it. A call has `CALL_S` seconds and `MEMORY` bytes.

Notes
-----
Source: io.siddhi.extension.script.js.EvalJavaScript of siddhi-script-js, which runs Nashorn; ECMA-262. The interpreter
is QuickJS (package ``quickjs-ng``).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

__all__ = ["CALL_S", "MEMORY", "JavaScript", "is_available", "wrong_in"]

#: What a call may take of the processor's time, and a function of memory.
CALL_S, MEMORY = 5, 64 << 20
#: Less than what a thread has in any case: a recursion without end becomes an error.
_STACK = 256 << 10
#: The interpreter reads whole numbers of 32 bits as such, and cuts others.
_WHOLE = 1 << 31
#: Digits from which on a whole number may be none that a real is.
_EXACT = 16
# Lists, maps and texts that are no UTF-8 come as lists of one value. What is neither a number nor true or false goes
# back as JSON, and a BigInt as JavaScript writes it, which no JSON ends like.
_AROUND = """(function (body, name, asText) {
  const own = new Function('data', body);
  globalThis[name] = own;
  const json = JSON, text = String, given = (one) => (typeof one === 'object' && one !== null ? one[0] : one);
  return function (...data) {
    const found = own(data.map(given));
    if (found === null || found === undefined) return null;
    if (asText) return json.stringify(text(found));
    if (typeof found === 'number' || typeof found === 'boolean') return found;
    return typeof found === 'bigint' ? found + 'n' : json.stringify(found);
  };
})"""


def is_available() -> bool:
    """Return whether the interpreter is installed."""
    return find_spec("quickjs") is not None


def wrong_in(body: str) -> str:
    """Return what makes a body no JavaScript, empty where nothing does; it is not run."""
    try:
        _interpreter().eval("(function (body) { new Function('data', body) })")(body)
    except Exception as error:  # the interpreter's own kinds, of which only the text tells more
        return _told(error)
    return ""


class JavaScript:
    """A function in JavaScript: from the list of its arguments to its result.

    Numbers are JavaScript's, so whole ones above 2^53 are rounded. Lists and maps are copied on their way in and out.

    Parameters
    ----------
    name : str
        Its name, by which it may call itself.
    body : str
        Its statements, over `data`.
    as_text : bool
        Whether results become texts, as JavaScript writes them.

    Raises
    ------
    ValueError
        At a call: it fails, takes too long or too much memory, or an argument cannot be given to it.

    State
    -----
    For each thread that calls it an interpreter, as none serves two, with what the function assigns to names that it
    does not declare: that is in no snapshot. At most `MEMORY` bytes each.
    """

    def __init__(self, name: str, body: str, as_text: bool) -> None:
        self._made = body, name, as_text
        self._own = threading.local()

    def __call__(self, data: list[Any]) -> Any:
        """Return the result of a call: null where it returns nothing."""
        own = self._own
        try:
            call, parse = own.call, own.parse
        except AttributeError:
            call, parse = own.call, own.parse = self._started()
        try:
            found = call(*[_given(one, parse) for one in data])
        except Exception as error:  # the interpreter's own kinds
            raise ValueError(_told(error)) from None
        return _read(found) if isinstance(found, str) else found

    def _started(self) -> tuple[Callable[..., Any], Callable[[str], Any]]:
        interpreter = _interpreter()
        return interpreter.eval(_AROUND)(*self._made), interpreter.parse_json


def _interpreter() -> Any:
    import quickjs  # an extra, and only apps with JavaScript load it

    made = quickjs.Context()
    made.set_memory_limit(MEMORY)
    made.set_max_stack_size(_STACK)
    made.set_time_limit(CALL_S)
    return made


def _given(value: Any, parse: Callable[[str], Any]) -> Any:
    """Return an argument as the interpreter reads it."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -_WHOLE <= value < _WHOLE else float(value)
    if isinstance(value, str) and (value.isascii() or _is_utf8(value)):
        return value
    return parse(json.dumps([value]))


def _read(text: str) -> Any:
    return int(text[:-1]) if text.endswith("n") else json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int:
    """Return a whole number of JSON as JavaScript has it: a real, of which the digits say no more than is needed."""
    return int(digits) if len(digits) < _EXACT else int(float(digits))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a pair of UTF-16
        return False
    return True


def _told(error: Exception) -> str:
    """Return what went wrong, without the places in the interpreter's own text."""
    said = str(error).partition("\n    at ")[0].removesuffix("\nundefined")
    if said == "InternalError: interrupted":
        return f"it took more than {CALL_S} s"
    if said == "InternalError: out of memory":
        return f"it took more than {MEMORY >> 20} MiB"
    return said
