"""From the states of N shards of a group instance to those of M: what one set has done, the other goes on from.

An app that can be split (`spdist.planning.sharding`) keeps nothing that belongs to two keys. So its state is the union
of what its shards have: each partition instance, and each event that waits for its turn, goes to the shard that its key
belongs to now. What shards have in common, since all of them are told all of it, is put together: which ids were seen,
how far each channel has come, and how far time has come everywhere.

New shards publish under other names, or go on numbering above everything that was published under theirs before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge
from typing import Any, TypeVar

from spdist.engine.island.island import ISLAND_FORMAT
from spdist.engine.local.state_transfer import read_state, write_state
from spdist.engine.shards.splitting import shard_of
from spdist.engine.shards.state import Positions, Segment, StateStore
from spdist.errors import StateError
from spdist.language.checking.checked import CheckedApp
from spdist.operators.core.codec import decode, encode
from spdist.operators.windows.sliding_columns import plain_keys
from spdist.planning.sharding import sharding
from spdist.planning.topology import Assignment
from spdist.transports.base import NO_CLOCK
from spdist.transports.routing import key_text

__all__ = ["establish", "rescale"]

_State = dict[str, Any]
_Key = TypeVar("_Key")


def rescale(
    snapshots: Sequence[bytes], checked: CheckedApp, assignment: Assignment, shards: int, above: int = 0
) -> list[bytes]:
    """Return the states of `shards` islands that go on from where the islands of `snapshots` are.

    Parameters
    ----------
    snapshots : sequence of bytes
        What `Island.snapshot` gave, of all shards of the instance. They have read their topics up to the same
        positions, and everything that they put out was published.
    checked : CheckedApp
        The app of the instance.
    assignment : Assignment
        What the instance reads.
    shards : int
        How many there are to be, at least 1.
    above : int
        What is put out is numbered from here on, where not even higher: more may have been published under these names
        than the snapshots know of.

    Raises
    ------
    StateError
        The app cannot be split, or the snapshots are no states of shards of one instance.

    Notes
    -----
    The time of the new shards is that of the one that was furthest behind: nothing of the others is due before theirs.
    """
    split = sharding(checked, (assigned.stream for assigned in assignment.inputs))
    if not split.possible and max(shards, len(snapshots)) > 1:
        raise StateError(f"{assignment.name} cannot be split: {split.reasons[0]}", hint="keep it in one shard")
    states = [decode(snapshot) for snapshot in snapshots]
    if not states or any(not isinstance(state, dict) or state.get("island") != ISLAND_FORMAT for state in states):
        raise StateError("these bytes are no snapshots of a group")
    owners = {
        assigned.topic: _Owner(checked, assigned.stream, split.keys.get(assigned.stream), shards)
        for assigned in assignment.inputs
    }
    merges = _merges([state["merge"] for state in states], owners, shards)
    apps = _apps([read_state(state["app"]) for state in states if state["started"]], shards, above)
    publisher = _publisher([state["publisher"] for state in states], above)
    seen = _furthest(state["seen"] for state in states)
    refused = _furthest(state.get("refused", ()) for state in states)
    idle = max((since for state in states if (since := state.get("idle")) is not None), default=None)
    undone = {tuple(one) for state in states for one in state.get("undone", ())}
    made = []
    for number in range(shards):
        first = number == 0
        made.append(
            encode(
                {
                    "island": ISLAND_FORMAT,
                    "started": bool(apps),
                    "app": write_state(apps[number]) if apps else b"",
                    "merge": merges[number],
                    "seen": seen,
                    "refused": refused,
                    "idle": idle,
                    "undone": sorted(list(one) for one in undone),
                    # The counts are shown as sums over the shards, so the first one takes all of them
                    "publisher": {**publisher, "events_out": publisher["events_out"] if first else 0},
                    "timers": max(tuple(state["timers"]) for state in states),
                    "events_in": sum(state["events_in"] for state in states) if first else 0,
                }
            )
        )
    return made


class _Owner:
    """To which shard the events of a stream belong."""

    def __init__(self, checked: CheckedApp, stream: str, key: str | None, shards: int) -> None:
        self._shards = shards
        self._position: int | None = None
        if key is not None:
            schema = checked.streams[stream]
            self._position = schema.names.index(key)
            self._text = key_text(schema.types[self._position])

    def shard_of_event(self, number: int, row: Sequence[Any]) -> int:
        """Return the shard of event `number` of those that wait; any will do where no attribute decides."""
        if self._position is None:
            return number % self._shards
        return shard_of(self._text(row[self._position]), self._shards)


def _merges(merges: Sequence[_State], owners: Mapping[str, _Owner], shards: int) -> list[_State]:
    """Return what waits for its turn, and how far the channels are, for each new shard."""
    channels: dict[tuple[Any, ...], list[Any]] = {}
    waiting: dict[tuple[Any, ...], list[list[Any]]] = {}
    for state in merges:
        for topic, partition, producer, key, first, pending in state["channels"]:
            place = (topic, partition, producer)
            known = channels.setdefault(place, [key, first])
            # Every shard is told all promises, also where it gets no rows: the furthest one holds for all
            known[0] = max(known[0], key)
            known[1] = min((at for at in (known[1], first) if at is not None), default=None)
            waiting.setdefault(place, []).append(pending)
    latest = max(state.get("latest", NO_CLOCK) for state in merges)
    reached = min(state["reached"] for state in merges)
    made: list[_State] = [{"reached": reached, "latest": latest, "channels": []} for _ in range(shards)]
    for place, (key, first) in channels.items():
        shares: list[list[Any]] = [[] for _ in range(shards)]
        # Stable: the events of a key are in one of the states, in their order.
        for number, event in enumerate(merge(*waiting[place], key=lambda event: event[0])):
            shares[owners[place[0]].shard_of_event(number, event[3][1])].append(event)
        for state, share in zip(made, shares, strict=True):
            state["channels"].append([*place, key, first, share])
    return made


def _apps(apps: Sequence[_State], shards: int, above: int) -> list[_State]:
    """Return the state of the app for each new shard; none where it has not started."""
    if not apps:
        return []
    if any(app["fingerprints"] != apps[0]["fingerprints"] for app in apps):
        raise StateError("these are snapshots of different apps")
    common = {
        **apps[0],
        "clock": min(app["clock"] for app in apps),
        "began": any(app["began"] for app in apps),
        "drawn": max(app["drawn"] for app in apps),
        "sequences": _highest(app["sequences"] for app in apps),
        "put_out": max(above, *(app["put_out"] for app in apps)),
    }
    shares = {id: _part(id, [app["parts"][id] for app in apps], shards, above) for id in apps[0]["parts"]}
    return [{**common, "parts": {id: share[number] for id, share in shares.items()}} for number in range(shards)]


def _part(id: str, states: Sequence[Any], shards: int, above: int) -> list[Any]:
    """Return the state of an element for each new shard; what is no partition is the same in all, or keeps nothing.

    What sinks put out is numbered above all that any shard has put out.
    """
    if id.startswith("partition"):
        return _partition(states, shards)
    first = states[0]
    if id.startswith("sink ") and first[2:]:
        first = [*first[:2], max(above, *(state[2] for state in states))]
    return [first] * shards


def _partition(states: Sequence[Any], shards: int) -> list[Any]:
    """Return the state of a partition for each new shard."""
    _, _, looks, purge = states[0]
    found = [
        (number, shard, key, rest)
        for shard, (keys, *_) in enumerate(states)
        for key, (number, *rest) in plain_keys(keys).items()
    ]
    # In the order in which keys came. Each shard has numbered its own, so across shards that is a guess,
    # but the same guess each time
    found.sort(key=lambda entry: entry[:3])
    if len({key for _, _, key, _ in found}) < len(found):
        raise StateError("two shards have the same key: these are not the shards of one instance")
    made: list[dict[str, Any]] = [{} for _ in range(shards)]
    for _, _, key, rest in found:
        own = made[shard_of(key, shards)]
        own[key] = [len(own), *rest]
    return [[own, len(own), looks, purge] for own in made]


def _publisher(states: Sequence[_State], above: int) -> _State:
    """Return how far publishing is: the next ids are above all that were given out.

    Readers wait for what those promise that they have not heard of yet. So the first batch promises anew.
    """
    routes: dict[str, list[Any]] = {}
    for state in states:
        for topic, sent, seq in state["routes"]:
            known = routes.setdefault(topic, [topic, 0, [above] * len(seq)])
            known[1] = max(known[1], sent)
            known[2] = [max(pair) for pair in zip(known[2], seq, strict=True)]
    origins = [state.get("origin") for state in states]
    same = origins[0] is not None and origins.count(origins[0]) == len(origins)
    return {
        **({"origin": origins[0]} if same else {}),
        "promised": NO_CLOCK,
        "events_out": sum(state["events_out"] for state in states),
        "above": max(above, *(state["above"] for state in states)),
        "routes": list(routes.values()),
    }


def _furthest(ends: Iterable[Iterable[Sequence[Any]]]) -> list[list[Any]]:
    """Return how far each place is that some shard has told: lists of what names it, and the highest end."""
    places = ({tuple(place): end for *place, end in told} for told in ends)
    return [[*place, end] for place, end in _highest(places).items()]


def _highest(counts: Iterable[Mapping[_Key, int]]) -> dict[_Key, int]:
    found: dict[_Key, int] = {}
    for one in counts:
        for name, count in one.items():
            found[name] = max(count, found.get(name, count))
    return found


def establish(
    store: StateStore, state: bytes, positions: Positions, tick: int, owner: str, assignment: str = ""
) -> None:
    """Begin the log of a shard's inputs with a state that it did not make itself.

    Parameters
    ----------
    store : StateStore
        Where there is no state yet.
    state : bytes
        What `rescale` returned for the shard.
    positions : Positions
        Where all shards before it were.
    tick : int
        The time of their last batch, ms.
    owner : str
        Who does this; a name that no start of the group ever has.
    assignment : str
        What goes on from it, see `spdist.engine.shards.layout.assignment_hash`.

    Raises
    ------
    StateError
        There is a state already, or it cannot be written.
    """
    if store.last() is not None:
        raise StateError(f"there is a state in {store.directory} already")
    # A crash between the two leaves a directory that no layout names yet (`layout.move_to`)
    store.append(Segment(1, owner, 1, tick, positions, opening=True, assignment=assignment))
    store.save_snapshot(1, state)
