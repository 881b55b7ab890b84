"""How a condition looks for rows of a table, or for events that one side of a join keeps."""

from __future__ import annotations

from dataclasses import dataclass

from spdist.extension import catalog
from spdist.language import ast
from spdist.language.checking.scope import Scope
from spdist.operators.expressions.lookup import conjuncts, equalities

__all__ = ["Search", "search_of"]


@dataclass(frozen=True, slots=True)
class Search:
    """How what meets a condition is found; as `spdist.operators.expressions.lookup` has it.

    Parameters
    ----------
    index : tuple of int
        The attributes that are looked up; empty where all that is kept is looked at.
    values : tuple of Expression
        What each of them must be; they name no attribute of what is looked into.
    rest : tuple of Expression
        What is left to test of each that is found.
    """

    index: tuple[int, ...] = ()
    values: tuple[ast.Expression, ...] = ()
    rest: tuple[ast.Expression, ...] = ()


def search_of(condition: ast.Expression | None, scope: Scope, position: int, key: tuple[int, ...] = ()) -> Search:
    """Return how what stands at `position` in `scope` is looked into.

    Parameters
    ----------
    condition : Expression, optional
        The condition.
    scope : Scope
        What it may name.
    position : int
        What is looked into, among the sources of `scope`.
    key : tuple of int
        Attributes that are looked up alone where the condition fixes all of them: a table's primary key.
    """
    found = {one.attribute: one for one in equalities(condition, scope, position, catalog(False))}
    index = key if key and set(found) >= set(key) else tuple(sorted(found))
    used = [found[attribute] for attribute in index]
    rest = tuple(part for part in conjuncts(condition) if not any(part is one.condition for one in used))
    return Search(index, tuple(one.value for one in used), rest)
