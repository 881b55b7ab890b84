"""A topology as JSON, in the words of WSO2's planner: what ``spdist plan --json`` prints."""

from __future__ import annotations

from typing import Any

from spdist.errors import SiddhiAppError
from spdist.planning.topology import ExecutionGroup, GroupInput, GroupOutput, Kind, Publishing, Topology

__all__ = ["listed", "listed_error"]

Json = dict[str, Any]


def listed(topology: Topology) -> Json:
    """Return groups with inputs, outputs and child apps."""
    return {"app": topology.app, "groups": [_group(group) for group in topology.groups]}


def listed_error(error: SiddhiAppError) -> Json:
    """Return the first thing that is wrong with an app, in the order of its text."""
    first = min(error.errors, key=lambda one: (one.span is None, one.span.start if one.span else 0))
    return {
        "error": {
            "code": first.code,
            "message": first.message,
            "line": first.span.line if first.span else None,
            "column": first.span.column if first.span else None,
        }
    }


def _group(group: ExecutionGroup) -> Json:
    outputs = {output.stream: _output(output) for output in group.outputs}
    outputs |= {name: {"userSink": False, "publishing": []} for name in group.stores}
    return {
        "name": group.name,
        "parallel": group.parallel,
        "receiver": group.receiver,
        "inputs": {one.stream: _input(one) for one in (*group.inputs, *group.holds)},
        "outputs": outputs,
        "apps": [{"name": instance.name, "text": instance.text} for instance in group.instances],
    }


def _input(one: GroupInput) -> Json:
    return {
        # Every instance that reads a trigger has its own: to others it is a stream like any other.
        "kind": (Kind.STREAM if one.kind is Kind.TRIGGER else one.kind).value,
        "strategy": one.strategy.value,
        "key": one.key,
        "offeredParallelism": one.offered,
        "topic": None if one.user_source else one.topic or None,
        "userSource": one.user_source,
    }


def _output(output: GroupOutput) -> Json:
    return {"userSink": output.user_sink, "publishing": [_publishing(one) for one in output.subscribers]}


def _publishing(one: Publishing) -> Json:
    return {
        "strategy": one.strategy.value,
        "parallel": one.parallel,
        "key": one.key,
        "topic": one.topic,
        "partitions": one.partitions,
    }
