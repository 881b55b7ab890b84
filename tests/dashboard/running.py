"""A dashboard as a process, and a user in front of it: HTTP with cookies, and the websocket of a page."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]


@contextmanager
def running_dashboard(managers: str, *options: str, log: Path | None = None, **environment: str) -> Iterator[str]:
    """Run ``spdist dashboard`` on a free port; yield its URL. What it logs goes to a file, where one is named."""
    command = [sys.executable, "-m", "spdist", "dashboard", "--url", managers, "--port", "0", *options]
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
    seen = {**os.environ, "PYTHONPATH": path, **environment}
    with nullcontext() if log is None else log.open("w") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=seen)
    try:
        assert process.stdout is not None
        told = process.stdout.readline()
        assert told.startswith(f"Dashboard of {managers}: http"), told
        yield told.split()[-1].rstrip("/")
    finally:
        process.terminate()
        assert process.wait(60) == 0


class Visit:
    """Somebody in front of a dashboard.

    Parameters
    ----------
    url : str
        Of the dashboard.
    tls : SSLContext
        Whom to trust.
    """

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        self.url = url
        self._tls = tls
        self.http = httpx.Client(base_url=url, verify=tls, trust_env=False, timeout=120)

    def post(self, path: str, **form: str) -> httpx.Response:
        """Send a form, as a page of this dashboard does."""
        if "_xsrf" not in self.http.cookies:
            self.http.get("/login")
        return self.http.post(path, data={"_xsrf": self.http.cookies["_xsrf"], **form})

    def log_in(self, username: str, password: str) -> httpx.Response:
        return self.post("/login?next=/monitor", username=username, password=password)

    def open(self, page: str) -> tuple[str, str]:
        """Open a page with a panel; return its HTML and the id of its kernel."""
        answer = self.http.get(page)
        assert answer.status_code == 200, answer.text
        kernel = re.search(r'"kernelId": "([^"]+)"', answer.text)
        assert kernel, answer.text
        return answer.text, kernel[1]

    @contextmanager
    def channels(self, kernel: str, *protocols: Any, origin: str | None = None) -> Iterator[Channels]:
        """Connect to a kernel as a page does."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        address = f"wss{self.url.removeprefix('https')}/api/kernels/{kernel}/channels?session_id={uuid.uuid4()}"
        headers = {"Cookie": cookies} if cookies else {}
        with connect(
            address,
            additional_headers=headers,
            ssl=self._tls,
            origin=origin or self.url,  # type: ignore[arg-type] # any text
            subprotocols=protocols or None,
            open_timeout=60,
        ) as socket:
            yield Channels(socket)


class Channels:
    """The websocket of a page."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, kind: str, content: Json, channel: str = "shell", **metadata: str) -> str:
        """Send a message, in the protocol that was agreed on, and return its id."""
        header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "session": "s", "username": "u", "version": "5.3"}
        message: Json = {"header": header, "parent_header": {}, "metadata": metadata, "content": content}
        if self.socket.subprotocol is None:
            self.socket.send(json.dumps({**message, "channel": channel, "buffers": []}))
        else:
            parts = [channel.encode(), *(json.dumps(part).encode() for part in message.values())]
            offsets = [8 * (len(parts) + 2)]
            for part in parts:
                offsets.append(offsets[-1] + len(part))
            head = [len(offsets), *offsets]
            self.socket.send(b"".join([*(number.to_bytes(8, "little") for number in head), *parts]))
        return header["msg_id"]

    def until(self, wanted: Callable[[Json], Any], timeout_s: float = 60.0) -> list[Json]:
        """Return what comes, up to the first message that is wanted."""
        found: list[Json] = []
        deadline_s = time.monotonic() + timeout_s
        while not found or not wanted(found[-1]):
            found.append(self._read(self.socket.recv(deadline_s - time.monotonic())))
        return found

    def _read(self, data: str | bytes) -> Json:
        if isinstance(data, str):
            read: Json = json.loads(data)
            return read
        count = int.from_bytes(data[:8], "little")
        offsets = [int.from_bytes(data[8 * (n + 1) : 8 * (n + 2)], "little") for n in range(count)]
        parts = [data[begin:end] for begin, end in pairwise(offsets)]
        names = ("header", "parent_header", "metadata", "content")
        return {"channel": parts[0].decode()} | {
            name: json.loads(part) for name, part in zip(names, parts[1:5], strict=True)
        }

    def states(self) -> dict[str, Json]:
        """Return the state of each widget, by its model's id."""
        control = {"comm_id": uuid.uuid4().hex, "data": {}}
        self.send("comm_open", {**control, "target_name": "jupyter.widget.control"}, version="1.0.0")
        self.send("comm_msg", {**control, "data": {"method": "request_states"}})
        *_, last = self.until(lambda m: m["content"].get("data", {}).get("method") == "update_states")
        return {model: one["state"] for model, one in last["content"]["data"]["states"].items()}
