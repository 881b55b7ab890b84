"""What Spark starts in place of the interpreter: has `engine.spark.forks` fork a process that runs the module instead.

``python forked.py INTERPRETER SOCKET -m MODULE ARGUMENTS…``: a program, not a module of the package. It imports nothing
of spdist, so that it is small. It lasts as long as the other process, which has its files, directory and environment.
Where nobody forks, it becomes the interpreter.
"""

from __future__ import annotations

import json
import os
import socket
import sys

#: Bytes in which the length of a request is said, and an exit code.
NUMBER = 4
#: What is answered when the process is there.
FORKED = b"+"


def asked(link: socket.socket, place: str, arguments: list[str]) -> bool:
    """Ask for a process that runs a module; return whether there is one."""
    said = {"arguments": arguments, "directory": os.getcwd(), "environment": dict(os.environ)}
    request = json.dumps(said).encode()
    try:
        link.connect(place)
        socket.send_fds(link, [len(request).to_bytes(NUMBER, "big")], [0, 1, 2])
        link.sendall(request)
        return link.recv(len(FORKED)) == FORKED
    except OSError:  # whoever forks has ended
        return False


def main(interpreter: str, place: str, arguments: list[str]) -> int:
    """Run what the interpreter was to be started with; return its exit code."""
    with socket.socket(socket.AF_UNIX) as link:
        if arguments[:1] == ["-m"] and asked(link, place, arguments[1:]):
            # Of a signal this process dies; the other end learns of that and passes it on.
            code = link.recv(NUMBER, socket.MSG_WAITALL)
            return int.from_bytes(code, "big") if code else 1
    os.execv(interpreter, [interpreter, *arguments])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
