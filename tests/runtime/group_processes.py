"""Finds the Python processes of Spark that work for a group."""

from __future__ import annotations

import contextlib

import psutil

__all__ = ["workers"]


def workers(name: str) -> int:
    """Return how many Python processes of Spark have that name, of which the system keeps 15 characters."""
    found = 0
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has just ended
            found += one.name() == name[:15]
    return found
