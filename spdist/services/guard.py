"""Runs a server as a child and ends it when its own parent is gone; a program, not a module of the package.

``python guard.py PARENT_PID COMMAND…``. SIGTERM ends the server gently, SIGUSR1 now. The exit code is the server's.
It imports nothing of spdist, so that it is small.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

#: A server that was asked to end and has not is ended by force after this time.
_GRACE_S = 15.0
_LOOK_EVERY_S = 0.25
_PR_SET_PDEATHSIG = 1


def _die_with_guard() -> None:
    """Ask Linux to kill the server where this guard is killed; elsewhere nobody does."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def guard(parent: int, command: list[str]) -> int:
    """Run `command` until it ends, the process `parent` is gone, or a signal says so; return its exit code."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_die_with_guard)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    signal.signal(signal.SIGUSR1, lambda *_: server.kill())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then says what to do
    ending = False
    while True:
        try:
            return server.wait(_GRACE_S if ending else _LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            if ending:
                server.kill()
            # Not what `getppid` said at the start: by then the parent may have been gone.
            elif os.getppid() != parent:
                ending = True
                server.terminate()


if __name__ == "__main__":
    sys.exit(guard(int(sys.argv[1]), sys.argv[2:]))
