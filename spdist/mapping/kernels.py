"""Compiled loops, which need numba: compiled or loaded by a thread, while the slower way is gone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Kernels"]

log = logging.getLogger(__name__)


class Kernels:
    """Compiled loops, which it takes seconds to compile the first time on a machine.

    Parameters
    ----------
    compiled : Callable
        Returns what has the loops by name; raises ImportError without numba.
    otherwise : str
        What is done without numba, for the log.

    State
    -----
    ``loops``: None until they are compiled, and without numba.
    """

    def __init__(self, compiled: Callable[[], Any], otherwise: str) -> None:
        self.loops: Any = None
        self._compiled = compiled
        self._otherwise = otherwise
        self._loading: threading.Thread | None = None

    def load(self) -> None:
        """Compile them."""
        try:
            self.loops = self._compiled()
        # Without numba the slower way stays for good: `_loading` is set, so nobody tries again.
        except ImportError as error:
            log.info("%s: %s", self._otherwise, error)

    def load_later(self) -> None:
        """Let a thread compile them, the first time this is called; who asks for them meanwhile does not wait."""
        # Without a lock: two threads that come together load twice, and both find the same.
        if self._loading is None:
            self._loading = threading.Thread(target=self.load, name="kernels", daemon=True)
            self._loading.start()
