"""The state of an app as bytes, and how an app of another text goes on from it.

Values only. What has the same fingerprint (`spdist.planning.updates.fingerprints`) keeps its state. All else has none
in the new state, which is the sign to the app to begin it when it goes on: so a replay begins it at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spdist.language.checking.checked import CheckedApp
from spdist.operators.core.codec import decode, encode, seal, unseal
from spdist.operators.core.packed_columns import plain
from spdist.planning.updates.change import ElementChange
from spdist.planning.updates.fingerprints import compare_fingerprints, fingerprints

__all__ = ["carry_over", "read_state", "write_state"]

_KIND, _FORMAT = "app", 2
_SINK = "sink "


def write_state(state: Mapping[str, Any]) -> bytes:
    """Return the state of an app as bytes.

    Parameters
    ----------
    state : mapping
        ``fingerprints`` of all elements by id; ``parts``, the state of each by id; ``clock``, ``drawn`` and
        ``sequences`` of the clock; ``started``; ``began``, whether an event has come; ``put_out``, the number of
        payloads that sinks put out one by one.

    Raises
    ------
    StateError
        It holds something that cannot be stored.
    """
    return seal(_KIND, _FORMAT, encode(dict(state)))


def read_state(data: bytes, columns: bool = False) -> dict[str, Any]:
    """Return what `write_state` was given.

    Parameters
    ----------
    data : bytes
        What it returned.
    columns : bool
        Whether the states of ``parts`` have columns where they were packed so (`plain`).

    Raises
    ------
    StateError
        The bytes are damaged, or of another format.
    """
    state: dict[str, Any] = decode(unseal(_KIND, _FORMAT, data, "this state"), columns)
    if columns:
        state = {**plain({**state, "parts": None}), "parts": state["parts"]}
    return state


def carry_over(
    data: bytes, checked: CheckedApp, above: int = 0, *, anew: bool = False
) -> tuple[bytes, tuple[ElementChange, ...]]:
    """Return the state of an app as an app of another text goes on from it, and what became of each element.

    What sinks put out is numbered on above all that any sink has put out, where they are not the same ones in the same
    order: a payload is known by the place of its sink and a number.

    Parameters
    ----------
    data : bytes
        What `write_state` returned.
    checked : CheckedApp
        The app that is to go on.
    above : int
        What sinks put out is numbered from here on, where not even higher.
    anew : bool
        Whether nothing but sinks keeps its state, whatever has changed.

    Raises
    ------
    StateError
        The bytes are damaged, or of another format.
    """
    state = read_state(data, columns=True)
    before, now = state["fingerprints"], fingerprints(checked)
    changes = compare_fingerprints({} if anew else before, checked)
    kept = {id for id, stored in before.items() if stored == now.get(id) and (not anew or id.startswith(_SINK))}
    parts = {id: stored for id, stored in state["parts"].items() if id in kept}
    sinks = {id: plain(stored) for id, stored in state["parts"].items() if id.startswith(_SINK)}
    if above or [id for id in before if id.startswith(_SINK)] != [id for id in now if id.startswith(_SINK)]:
        number = max((above, state["put_out"], *(stored[2] for stored in sinks.values() if stored[2:])))
        # Only sinks that number for themselves keep a third value
        parts |= {id: [*stored[:2], number] for id, stored in sinks.items() if id in parts and stored[2:]}
        state["put_out"] = number
    return write_state({**state, "fingerprints": now, "parts": parts}), changes
