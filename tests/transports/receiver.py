"""A real HTTP server for tests: it keeps what it gets."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Receiver"]


class Receiver:
    """Keeps what it gets; answers what `answers` says for a path, 200 otherwise."""

    def __init__(self) -> None:
        self.got: list[tuple[str, str, dict[str, str], str]] = []
        self.answers: dict[str, list[tuple[int, str]]] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append((self.command, self.path, headers, body))
                planned = receiver.answers.get(self.path.partition("?")[0], [])
                status, answer = planned.pop(0) if planned else (200, "")
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer.encode())

            do_POST = do_PUT = do_GET = do

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
