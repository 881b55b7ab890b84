"""The parameters of a notebook: what its cell tagged ``parameters`` offers, and whether given values fit. Pure.

papermill only warns of a name that it does not know and then runs with the default, and it takes every type.
"""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spdist.errors import NotebookError

__all__ = ["NotebookParameter", "check_parameters", "parameters_of", "read_parameters"]

#: papermill adds these itself (``--inject-paths``).
_BUILT_IN = frozenset({"PAPERMILL_INPUT_PATH", "PAPERMILL_OUTPUT_PATH"})
_TYPES: dict[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": list,
    "dict": dict,
    "None": type(None),
}


@dataclass(frozen=True, slots=True)
class NotebookParameter:
    """One assignment of the parameters cell.

    Parameters
    ----------
    name : str
        The variable.
    default : str
        Its default as written.
    types : tuple of type
        Types that a value may have; empty where the cell does not tell.
    comment : str
        The comment on its line.
    """

    name: str
    default: str
    types: tuple[type, ...]
    comment: str

    def accepts(self, value: Any) -> bool:
        """Return whether `value` has one of the types; a whole number is also a float, and True is no number."""
        if not self.types:
            return True
        if isinstance(value, bool):
            return bool in self.types
        return isinstance(value, self.types) or (isinstance(value, int) and float in self.types)


def parameters_of(cells: Iterable[Any]) -> dict[str, NotebookParameter]:
    """Return the parameters that the cell tagged ``parameters`` defines, if any; raises as `read_parameters`."""
    return read_parameters(next((one.source for one in cells if "parameters" in one.metadata.get("tags", [])), ""))


def read_parameters(source: str) -> dict[str, NotebookParameter]:
    """Return the parameters that the cell `source` defines, in order.

    The type comes from the annotation (``name: int | None = None``) where there is one, else from the default.

    Raises
    ------
    NotebookError
        The cell is not Python.
    """
    try:
        tree = ast.parse(source)
        comments = {
            token.start[0]: token.string.lstrip("# ").rstrip()
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        raise NotebookError(f"the cell tagged 'parameters' is not valid Python: {error}") from error
    found: dict[str, NotebookParameter] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets, value, annotation = statement.targets, statement.value, None
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value, annotation = [statement.target], statement.value, statement.annotation
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                types = _annotated(annotation) if annotation is not None else _inferred(value)
                comment = comments.get(value.end_lineno or value.lineno, "")
                found[target.id] = NotebookParameter(target.id, ast.unparse(value), types, comment)
    return found


def _inferred(value: ast.expr) -> tuple[type, ...]:
    try:
        default = ast.literal_eval(value)
    except (ValueError, TypeError):
        return ()
    if default is None:
        return ()
    # JSON and YAML have no tuples: a list is given for one.
    return (list, tuple) if isinstance(default, list | tuple) else (type(default),)


def _annotated(annotation: ast.expr) -> tuple[type, ...]:
    """Return the types of ``int``, ``int | None``, ``list[str]`` …; none at all where one of them is not known."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        left, right = _annotated(annotation.left), _annotated(annotation.right)
        return (*left, *right) if left and right else ()
    if isinstance(annotation, ast.Subscript):
        return _annotated(annotation.value)
    name = ast.unparse(annotation)
    return (_TYPES[name],) if name in _TYPES else ()


def check_parameters(
    known: Mapping[str, NotebookParameter], given: Mapping[str, Any], as_text: str = "`-r {name} …` gives it as text"
) -> None:
    """Check that each of `given` is one of `known`, and of its type; `as_text` says how text is given.

    Raises
    ------
    NotebookError
        Names everything that is wrong, and lists the parameters there are with their defaults and comments.
    """
    wrong = []
    for name, value in given.items():
        if name in _BUILT_IN:
            continue
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            wrong.append(f"unknown parameter {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        elif not known[name].accepts(value):
            expected = " or ".join(
                dict.fromkeys("None" if one is type(None) else one.__name__ for one in known[name].types)
            )
            text = f"parameter {name!r} must be {expected}, not {type(value).__name__} ({value!r})"
            wrong.append(text + (f"; {as_text.format(name=name)}" if expected == "str" else ""))
    if wrong:
        raise NotebookError("; ".join(wrong), hint=_listing(known))


def _listing(known: Mapping[str, NotebookParameter]) -> str:
    if not known:
        return "this notebook takes no parameters: it has no cell tagged 'parameters' with assignments"
    lines = [f"{one.name} = {one.default}" for one in known.values()]
    width = max(map(len, lines))
    return "the parameters of this notebook and their defaults:" + "".join(
        f"\n  {line:<{width}}  {'# ' + one.comment if one.comment else ''}".rstrip()
        for line, one in zip(lines, known.values(), strict=True)
    )
