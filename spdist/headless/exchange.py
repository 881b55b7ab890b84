"""Values that a notebook is given by who runs it, and the one it gives back. Loads no Jupyter library.

With papermill and ``spdist schedule`` a cell tagged ``parameters`` is all that is needed to be given something; a job
of Databricks has widgets instead. What is given back is an output of the cell that does it, of a type of its own, and
so stands in the saved notebook.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from spdist.errors import NotebookError

__all__ = ["exit_value", "exit_value_of", "job_parameters"]

_TYPE = "application/vnd.spdist.exit-value+json"
#: Characters of the longest value, as JSON.
_LONGEST = 65_536


def exit_value(value: Any) -> None:
    """Give a value back to who runs this notebook: ``spdist schedule history`` shows it.

    The notebook goes on; the last value counts. ``sys.exit(0)`` after it ends the notebook there, as a success. On
    Databricks this is ``dbutils.notebook.exit``, which ends the notebook by itself.

    Parameters
    ----------
    value : any
        What JSON can say, 64 KiB at most.

    Raises
    ------
    NotebookError
        It is something else, or longer.

    Examples
    --------
    >>> exit_value({"rows": 3})  # outside of a notebook it is only checked
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        hint = "numbers, text, True, False, None, and lists and dicts of them; float(x) makes a number of one of numpy"
        raise NotebookError(f"an exit value must be what JSON can say: {error}", hint=hint) from error
    if len(text) > _LONGEST:
        hint = "write it to a file, and give back its name"
        raise NotebookError(f"an exit value has {_LONGEST} characters as JSON at most, not {len(text)}", hint=hint)
    if (dbutils := _dbutils()) is not None:
        dbutils.notebook.exit(value if isinstance(value, str) else text)
    elif _shell() is not None:
        from IPython.display import display

        display({_TYPE: {"value": json.loads(text)}, "text/plain": f"exit value: {text}"}, raw=True)  # type: ignore[no-untyped-call]


def exit_value_of(cells: Iterable[Any]) -> Any:
    """Return the value that an executed notebook has given back; None without one."""
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    given = [output["data"][_TYPE] for output in outputs if _TYPE in output.get("data", ())]
    value = given[-1].get("value") if given and isinstance(given[-1], dict) else None
    # A notebook can display such an output without `exit_value` and its limit.
    return value if len(json.dumps(value, ensure_ascii=False)) <= _LONGEST else None


def job_parameters(**defaults: Any) -> SimpleNamespace:
    """Return the parameters of this notebook, wherever it runs.

    On Databricks each is a widget with that default, so job parameters of the same name are taken, and converted to the
    type of the default. Elsewhere they are what they are: papermill and ``spdist schedule`` have assigned them before.

    Parameters
    ----------
    **defaults : bool, int, float, str, list, dict or None
        What the cell tagged ``parameters`` has assigned, by name.

    Raises
    ------
    NotebookError
        A widget's text does not have the type of its default.

    Examples
    --------
    >>> days = 7
    >>> job_parameters(days=days).days
    7
    """
    dbutils = _dbutils()
    if dbutils is None:
        return SimpleNamespace(**defaults)
    given = {}
    for name, default in defaults.items():
        dbutils.widgets.text(
            name, default if isinstance(default, str) else "" if default is None else json.dumps(default)
        )
        given[name] = _typed(name, dbutils.widgets.get(name), default)
    return SimpleNamespace(**given)


def _typed(name: str, text: str, default: Any) -> Any:
    """Return the text of a widget as a value of the type of `default`; of None that is text, or None where empty."""
    if isinstance(default, str):
        return text
    if default is None:
        return text or None
    try:
        # `True`, as Python and people write it, is no JSON.
        value = json.loads(text.lower() if isinstance(default, bool) else text)
    except ValueError:
        value = text
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # Exactly this type: True is an int, too.
    if type(value) is not type(default):
        raise NotebookError(f"parameter {name!r} must be {type(default).__name__}, not {text!r}")
    return value


def _shell() -> Any:
    """Return the IPython in which this runs, if any."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


def _dbutils() -> Any:
    """Return what Databricks puts into each notebook, if this is one."""
    shell = _shell()
    return None if shell is None else shell.user_ns.get("dbutils")
