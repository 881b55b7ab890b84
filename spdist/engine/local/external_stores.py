"""Whether an app keeps anything outside of its state, and what makes that: SQL is loaded only for apps that use it."""

from __future__ import annotations

from pathlib import Path

from spdist.config.allowed import Allowed
from spdist.language import ast
from spdist.language.checking.checked import CheckedApp
from spdist.operators.tables.stores import OutsideStores

__all__ = ["external_stores"]


def external_stores(checked: CheckedApp, allowed: Allowed | None = None) -> OutsideStores | None:
    """Return what makes the stores of one running app; None where it has no ``@Store``.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    allowed : Allowed, optional
        The secrets, databases and files that the app may refer to, and the shard that is its own; by default files
        below the working directory, and the shard ``local``: an app in virtual time is on no node.
    """
    if not any(ast.find_annotations(definition.annotations, "Store") for definition in checked.app.definitions):
        return None
    from spdist.stores.opening import open_stores

    return open_stores(allowed if allowed is not None else Allowed((Path.cwd(),), shard_id="local"))
