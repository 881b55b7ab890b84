"""Nodes that come up: waiting for them, saying so one by one, and why one of them does not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from spdist.cluster.clients.calling import Caller
from spdist.cluster.clients.client import UnreachableNode
from spdist.cluster.processes.nodes import NodeProcess
from spdist.errors import ClusterError

__all__ = ["await_nodes"]

_LOOK_S = 0.2


def await_nodes(
    awaited: Mapping[str, NodeProcess],
    nodes: Mapping[str, NodeProcess],
    caller: Caller,
    timeout_s: float,
    say: Callable[[str], None],
) -> None:
    """Return when some nodes are up: their interfaces answer, the leader knows workers as ready, and servers are ready.

    Parameters
    ----------
    awaited, nodes : mapping of str to NodeProcess
        Those, and all of the cluster.
    caller : Caller
        What asks them.
    timeout_s : float
        How long all of them together may take.
    say : callable
        Gets a line for each that is up.

    Raises
    ------
    ClusterError
        One has ended, or they are not up in time; says why, and where its log is.
    """
    began_s = time.monotonic()
    missing = dict(awaited)
    while missing:
        # Managers say which workers are ready; others that are up need not be asked.
        asked = {name: node for name, node in nodes.items() if node.role == "manager" or name in missing}
        registered = _registered(asked, caller)
        for name, node in list(missing.items()):
            if node.exit_code is not None:
                raise _ended(node)
            if name in registered:
                del missing[name]
                say(f"  {name} is up at {node.url} ({time.monotonic() - began_s:.1f} s)")
        if missing and time.monotonic() - began_s > timeout_s:
            tails = "\n".join(f"{name}, whose log is {node.log}:\n{node.tail()}" for name, node in missing.items())
            raise ClusterError(
                f"not up after {timeout_s:g} s: {', '.join(missing)}\n{tails}",
                hint="a busy machine takes longer: set start_timeout_s",
            )
        time.sleep(_LOOK_S if missing else 0)


def _ended(node: NodeProcess) -> ClusterError:
    cause, _, hint = node.cause().partition("\nHint: ")
    where = f"its log is {node.log}"
    message = f"{node.name} ended with exit code {node.exit_code} instead of coming up: {cause}"
    return ClusterError(message, hint=f"{hint}; {where}" if hint else where)


def _registered(nodes: Mapping[str, NodeProcess], caller: Caller) -> set[str]:
    """Return the nodes that are up: they answer, and a leader, or a server itself, says that apps can run there."""
    up, workers, known = set(), set(), set()
    for name, node in nodes.items():
        try:
            if node.role == "server":
                reply = caller.call("GET", f"{node.url}/statistics")
                if reply.status == 200 and reply.body["ready"]:
                    up.add(name)
                continue
            if caller.call("GET", f"{node.url}/health").status != 200:
                continue
            if node.role == "worker":
                workers.add(name)
                continue
            up.add(name)
            reply = caller.call("GET", f"{node.url}/managers/nodes")
        except UnreachableNode:
            continue
        if reply.status == 200:
            known |= {worker["id"] for worker in reply.body["workers"] if worker["ready"]}
    return up | (workers & known)
