"""Which topics a group instance has read so far: a topic of the same name that is another one must not go on for it.

Next to the state of an instance stands ``topics.json``: the identity of each topic (`Transport.identity`) when it was
first read. What was deleted, replaced or shortened since then is noticed before the next start reads, with the topic's
name and what to do; whoever reads while it happens is told by the transport.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from spdist.engine.shards.places import Place, replace_file
from spdist.engine.shards.state import Positions
from spdist.errors import StateError, TransportError, TransportUnavailableError
from spdist.planning.topology import AssignedInput
from spdist.runtime.shard_states import InstanceState
from spdist.transports.base import Transport
from spdist.transports.topics import check_offset, replaced

__all__ = ["cause_of", "check_identities", "check_topics"]

_FILE = "topics.json"


def check_topics(states: Iterable[InstanceState], transport: Transport) -> None:
    """See that the topics between groups that some instances read are those that they have read.

    Raises
    ------
    TransportError, StateError
        As `check_identities`.
    """
    for state in states:
        inputs = tuple(one for one in state.assignment.inputs if not one.into)
        check_identities(state.directory, inputs, state.positions(), transport)


def cause_of(error: BaseException, states: Iterable[InstanceState], transport: Transport) -> BaseException:
    """Return why a query ended with `error`: Spark does not say which topic is gone."""
    try:
        check_topics(states, transport)
    except TransportUnavailableError:
        return error
    except (TransportError, StateError) as found:
        return found
    return error


def check_identities(
    directory: Place, inputs: tuple[AssignedInput, ...], positions: Positions, transport: Transport
) -> None:
    """See that the topics of an instance are those that it has read, and remember those that are new.

    Parameters
    ----------
    directory : Place
        Of the instance's state.
    inputs : tuple of AssignedInput
        What it reads through `transport`.
    positions : Positions
        Where its state goes on.
    transport : Transport
        Of these topics.

    Raises
    ------
    TransportError
        A topic is another one than the instance has read, or ends before what was read.
    TransportUnavailableError
        No server answers.
    StateError
        The file cannot be read or written.
    """
    known = _read(directory / _FILE)
    found = dict(known)
    for one in inputs:
        read = {number: positions.get(one.topic, {}).get(number, 0) for number in one.partitions}
        if any(read.values()) and not transport.partitions(one.topic):
            raise replaced(one.topic)
        found[one.topic] = transport.identity(one.topic)
        # Of a topic of which nothing was read any one will do
        if any(read.values()):
            if known.get(one.topic, found[one.topic]) != found[one.topic]:
                raise replaced(one.topic)
            ends = transport.end_offsets(one.topic)
            for number, offset in read.items():
                check_offset(one.topic, number, offset, ends.get(number, 0))
    if found != known:
        _write(directory / _FILE, found)


def _read(path: Place) -> dict[str, str]:
    try:
        stored = json.loads(path.read_bytes())
        return {str(topic): str(identity) for topic, identity in stored["topics"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StateError(
            f"{path} cannot be read, which says which topics were read: {error}",
            hint="delete it if the topics are still those that they were; they are noted anew",
        ) from error


def _write(path: Place, topics: dict[str, str]) -> None:
    try:
        replace_file(path, json.dumps({"format": 1, "topics": topics}, sort_keys=True).encode())
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error}") from error
