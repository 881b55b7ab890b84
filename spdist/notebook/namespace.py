"""Variables of a notebook as magic commands name them: what is found under a name, and which name is free."""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from spdist.errors import NotebookError

__all__ = ["cluster_in", "text_variable", "value_of"]


def value_of(name: str, namespace: Mapping[str, Any]) -> Any:
    """Return the value of a variable.

    Raises
    ------
    NotebookError
        There is none of that name; says which is near.
    """
    if name in namespace:
        return namespace[name]
    near = get_close_matches(name, [one for one in namespace if not one.startswith("_")], n=1)
    hint = f"Did you mean '{near[0]}'?" if near else "Run the cell that makes it first."
    raise NotebookError(f"this notebook has no variable '{name}'", hint=hint)


def text_variable(app: str | None, namespace: Mapping[str, Any]) -> str:
    """Return the variable for the text of an app that is called `app`.

    Raises
    ------
    NotebookError
        Something else has that name: it is not overwritten unasked.

    Examples
    --------
    >>> text_variable("flight-watch", {})
    'flight_watch'
    """
    name = re.sub(r"\W", "_", app or "app", flags=re.ASCII)
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"app_{name}"
    if hasattr(builtins, name) or not isinstance(namespace.get(name, ""), str):
        what = f"a {type(namespace[name]).__name__}" if name in namespace else "a builtin of Python"
        raise NotebookError(
            f"'{name}', where the app's text would go, is {what}",
            hint="Name another variable for the text: %%siddhi NAME",
        )
    return name


def cluster_in(namespace: Mapping[str, Any], name: str = "") -> Any:
    """Return the cluster in a variable, or the only one of the notebook.

    Parameters
    ----------
    namespace : mapping of str to Any
        The notebook's variables.
    name : str
        The variable; empty: the only cluster, or the one in ``cluster`` if there are several.

    Raises
    ------
    NotebookError
        There is none, or it is not clear which.
    """
    if name:
        found = value_of(name, namespace)
        if not _is_cluster(found):
            raise NotebookError(f"'{name}' is a {type(found).__name__}, no cluster", hint=_HINT)
        return found
    clusters = {key: value for key, value in namespace.items() if not key.startswith("_") and _is_cluster(value)}
    if "cluster" in clusters or len({id(value) for value in clusters.values()}) == 1:
        return clusters.get("cluster", next(iter(clusters.values())))
    if clusters:
        names = ", ".join(sorted(clusters))
        raise NotebookError(f"this notebook has several clusters: {names}", hint="Name the variable of one.")
    raise NotebookError("this notebook has no cluster", hint=_HINT)


_HINT = 'A cluster is, for example: cluster = spdist.connect("http://manager:9543"), or spdist.LocalCluster().start()'


def _is_cluster(value: Any) -> bool:
    """Tell whether apps can be deployed to it, here and now: a client for ``await`` is none."""
    # Looked for in the type: variables may be anything, and `getattr` of an object can run its code.
    deploy = getattr(type(value), "deploy", None)
    return deploy is not None and hasattr(type(value), "deployment") and not inspect.iscoroutinefunction(deploy)
