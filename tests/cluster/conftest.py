"""What the tests of the cluster share."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker of tests against real servers known."""
    config.addinivalue_line("markers", "services: talks to a real database, or is skipped with the reason")
