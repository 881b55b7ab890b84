"""A network of this machine's own, with a namespace for each node, whose links can be cut: Linux, as root.

The program itself enters a namespace first, so nothing of it listens where others of the machine could reach it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["HOME", "Island", "enter_island"]

#: The address of the program that makes the network, and of the servers that it starts.
HOME = "10.77.0.1"
_BRIDGE = "island"
#: A node's end of its link.
_OWN = "eth0"
_MARK = "SPDIST_ISLAND"
_CLONE_NEWNET = 0x4000_0000


def enter_island() -> None:
    """Start this program again in a network namespace of its own; returns where it is in one."""
    if os.environ.get(_MARK):
        return
    if os.geteuid() != 0 or shutil.which("ip") is None:
        raise SystemExit("networks of its own take root and iproute2 (Debian: apt-get install iproute2)")
    name = f"spdist-{os.getpid()}"
    _ip("netns", "add", name)
    try:
        # An interrupt is for the program inside, which stops what it has started.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        command = ["ip", "netns", "exec", name, sys.executable, *sys.orig_argv[1:]]
        code = subprocess.run(command, env={**os.environ, _MARK: name}, check=False, preexec_fn=_heed).returncode
    finally:
        _ip("netns", "del", name)
    raise SystemExit(code)


def _heed() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Island:
    """A bridge with a namespace for each node behind it."""

    def __init__(self) -> None:
        self._prefix = os.environ[_MARK]
        self.addresses: dict[str, str] = {}

    def __enter__(self) -> Island:
        _ip("link", "set", "lo", "up")
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{HOME}/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.addresses:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self._space(node))

    def add(self, node: str) -> str:
        """Make the namespace of a node, linked with the bridge, and return its address."""
        space, outer = self._space(node), self._link(node)
        address = f"10.77.0.{10 + len(self.addresses)}"
        self.addresses[node] = address
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", _OWN, "netns", space)
        _ip("link", "set", outer, "master", _BRIDGE, "up")
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "addr", "add", f"{address}/24", "dev", _OWN)
        _ip("-n", space, "link", "set", _OWN, "up")
        return address

    def command(self, node: str, command: list[str]) -> list[str]:
        """Return the command that runs `command` where the node is."""
        return ["ip", "netns", "exec", self._space(node), *command]

    @contextlib.contextmanager
    def cut(self, node: str) -> Iterator[None]:
        """Let nothing pass to and from a node. Its own end stays up, so it keeps its address."""
        _ip("link", "set", self._link(node), "down")
        try:
            yield
        finally:
            _ip("link", "set", self._link(node), "up")

    @contextlib.contextmanager
    def cut_towards(self, node: str, *others: str) -> Iterator[None]:
        """Let nothing pass from a node to some addresses, while all else does, also from those to it."""
        nobody = ("lladdr", "02:00:00:00:00:99", "dev", _OWN, "nud", "permanent")
        for other in others:
            _ip("-n", self._space(node), "neigh", "replace", other, *nobody)
        try:
            yield
        finally:
            for other in others:
                _ip("-n", self._space(node), "neigh", "del", other, "dev", _OWN)

    def enter(self, node: str) -> None:
        """Move the calling thread, and no other one, to where the node is: it reaches it though its link is cut."""
        libc = ctypes.CDLL(None, use_errno=True)
        with Path("/run/netns", self._space(node)).open() as space:
            if libc.setns(space.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), f"the network of {node} cannot be entered")

    def _space(self, node: str) -> str:
        return f"{self._prefix}-{node}"

    def _link(self, node: str) -> str:
        return f"to-{node}"[:15]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
