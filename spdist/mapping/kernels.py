"""Compiled loops of a module that needs numba: loaded by a thread, while the slower way is gone."""

from __future__ import annotations

import logging
import threading
from importlib import import_module
from typing import Any

__all__ = ["Kernels"]

log = logging.getLogger(__name__)


class Kernels:
    """A module of compiled loops, which takes seconds to import the first time on a machine.

    Parameters
    ----------
    name : str
        Of the module, whole.
    otherwise : str
        What is done without numba, for the log.

    State
    -----
    ``module``: None until it is imported, and without numba.
    """

    def __init__(self, name: str, otherwise: str) -> None:
        self.module: Any = None
        self._name = name
        self._otherwise = otherwise
        self._loading: threading.Thread | None = None

    def load(self) -> None:
        """Import it."""
        try:
            self.module = import_module(self._name)
        except ImportError as error:
            log.info("%s: %s", self._otherwise, error)

    def load_later(self) -> None:
        """Let a thread import it, the first time this is called; who asks for it meanwhile does not wait."""
        if self._loading is None:
            self._loading = threading.Thread(target=self.load, name="kernels", daemon=True)
            self._loading.start()
