"""Whether a process that has fallen silent is gone.

Its host says so twice: it closes the connections of a process that ends, and it refuses new ones to a port at which
nobody listens. Either alone has other causes: a client closes a connection that it does not need, a firewall may refuse
for a host that it cuts off. That one which cuts off a living worker does both, the first without being asked, is not to
be expected; and if so, the state of a group still has one owner only.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from spdist.cluster.protocol.messages import ProbeWorker, WorkerGone
from spdist.transports.sockets.listening import Peer

__all__ = ["Prober", "is_refused"]

_log = logging.getLogger("spdist.cluster.manager")
_THREADS = 8
_PATIENCE_S = 1.0
#: Between the two looks: a listener whose queue overflows for a moment is no dead process.
_PAUSE_S = 0.25


def is_refused(url: str, timeout_s: float = _PATIENCE_S) -> bool:
    """Return True if the host of a base URL answers that no process listens at its port.

    False where one does, and where nothing is known: no answer in time, no way to the host, a name that is not found.
    With several addresses all must refuse.
    """
    parts = urlsplit(url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as one:
                one.settimeout(timeout_s)
                one.connect(address)
        except ConnectionRefusedError:
            continue
        except OSError:
            pass
        # Somebody accepts, or it cannot be told: one address that does not refuse is enough
        return False
    return bool(found)


class Prober:
    """Probes workers in threads of its own, each one at a time, once their connection has ended.

    Parameters
    ----------
    tell : callable
        Called with what follows from a probe, from any thread.
    refused : callable, optional
        `is_refused`.

    State
    -----
    For each worker that was heard the other end of its connection; the ids of those that are being probed.
    """

    def __init__(
        self,
        tell: Callable[[WorkerGone], None],
        refused: Callable[[str], bool] = is_refused,
        pause_s: float = _PAUSE_S,
    ) -> None:
        self._tell = tell
        self._refused = refused
        self._pause_s = pause_s
        self._pool = ThreadPoolExecutor(_THREADS, "spdist-probe")
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        #: None once it has ended
        self._connections: dict[str, Peer | None] = {}
        self._closed = threading.Event()

    def heard(self, id: str, peer: Peer | None) -> None:
        """Note through which connection a heartbeat has come; None where that is not known: then nothing is proven."""
        with self._lock:
            if peer is None:
                self._connections.pop(id, None)
            else:
                self._connections[id] = peer

    def closed(self, peer: Peer) -> None:
        """Note that a connection has ended."""
        with self._lock:
            for id, known in self._connections.items():
                if known is not None and tuple(known) == tuple(peer):
                    self._connections[id] = None

    def probe(self, order: ProbeWorker) -> None:
        """Begin a probe, unless the worker is still connected, or one is under way; returns without waiting."""
        with self._lock:
            ended = order.id in self._connections and self._connections[order.id] is None
            if not ended or order.id in self._under_way or self._closed.is_set():
                return
            self._under_way.add(order.id)
            self._pool.submit(self._look, order)

    def close(self) -> None:
        """Begin no more probes; what is under way ends without a result."""
        with self._lock:
            # Under the lock, so that `probe` hands nothing to a pool that is shut down
            self._closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _look(self, order: ProbeWorker) -> None:
        try:
            gone = self._refused(order.url) and not self._closed.wait(self._pause_s) and self._refused(order.url)
            if gone and not self._closed.is_set():
                # With the heartbeat that was the last one when the probe began: a later one makes this void
                self._tell(WorkerGone(order.id, order.incarnation, order.sequence))
        except Exception:
            _log.exception("worker %s could not be probed", order.id)
        finally:
            with self._lock:
                self._under_way.discard(order.id)
