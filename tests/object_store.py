"""A real server with S3's interface, as a process of its own: moto's."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import urllib.request
from types import TracebackType
from typing import Self

_BUCKET = "states"


class S3Server:
    """Runs while it is entered. Everything is in its memory, and gone when it ends.

    Attributes
    ----------
    url : str
        Of a bucket.
    environment : dict of str to str
        What says to clients where it is, and who they are.
    """

    url = f"s3://{_BUCKET}"

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.environment = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "of-tests",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
        }

    def __enter__(self) -> Self:
        program = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)]
        self._process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pace, deadline = threading.Event(), time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                break
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.__exit__(None, None, None)
                    raise RuntimeError("the object store of the tests does not start") from None
                pace.wait(0.05)
        made = urllib.request.Request(f"{self.environment['AWS_ENDPOINT_URL']}/{_BUCKET}", method="PUT")
        urllib.request.urlopen(made, timeout=30).close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(30)
