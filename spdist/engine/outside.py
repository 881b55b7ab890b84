"""Whether an app keeps anything outside of its state, and what makes that: SQL is loaded only for apps that use it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spdist.language import ast
from spdist.language.checked import CheckedApp
from spdist.operators.stores import OutsideStores

if TYPE_CHECKING:
    from spdist.stores.settings import NamedDatabase

__all__ = ["outside_stores"]


def outside_stores(
    checked: CheckedApp, datasources: Mapping[str, NamedDatabase] | None = None, base: Path | None = None
) -> OutsideStores | None:
    """Return what makes the stores of one running app; None where it has no ``@Store``.

    Parameters
    ----------
    checked : CheckedApp
        The app.
    datasources : mapping of str to NamedDatabase, optional
        What ``datasource='NAME'`` may name: ``wso2.datasources`` of the node.
    base : path, optional
        Where relative file names in the app begin; by default the working directory.
    """
    if not any(ast.find_annotations(definition.annotations, "Store") for definition in checked.app.definitions):
        return None
    from spdist.stores.opening import open_stores

    return open_stores(datasources, base)
