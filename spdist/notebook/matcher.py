"""The matcher by which IPython completes ``%%siddhi`` cells and ``%siddhi`` lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from spdist.extension import catalog
from spdist.language.editing.completion import complete
from spdist.language.editing.sketch import sketch
from spdist.language.editing.statements import statements
from spdist.language.editing.tokens import tokens
from spdist.notebook.arguments import options

__all__ = ["is_cell", "matcher_of"]

_CELL = re.compile(r"\s*%%siddhi(?![^\s])")
# Also behind an assignment: `frame = %siddhi tail …`.
_LINE = re.compile(r"(?:.*=\s*)?\s*%siddhi\s(.*)", re.DOTALL)
_WORD = re.compile(r"[^\s=]*\Z")


def is_cell(code: str) -> bool:
    """Tell whether a cell is ours."""
    return _CELL.match(code) is not None


def matcher_of(shell: Any, identifier: str) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return the matcher for a notebook whose variables are those of `shell`."""

    @context_matcher(identifier=identifier)  # type: ignore[untyped-decorator]
    def match(context: CompletionContext) -> SimpleMatcherResult:
        variables = [name for name in shell.user_ns if name[0] != "_" and name not in shell.user_ns_hidden]
        return _match(context.full_text, _offset(context), variables)

    found: Callable[[CompletionContext], SimpleMatcherResult] = match
    return found


def _offset(context: CompletionContext) -> int:
    lines = context.full_text.split("\n")[: context.cursor_line]
    return sum(len(line) + 1 for line in lines) + context.cursor_position


def _match(text: str, cursor: int, variables: Sequence[str]) -> SimpleMatcherResult:
    """Return what could stand at a place in a cell or line that is ours, and nothing anywhere else."""
    before = text[:cursor]
    if first := _CELL.match(before):
        begun = before[first.end() :]
        if "\n" not in begun:
            # Behind `=` stands a variable.
            streams = [] if begun.endswith("=") else _streams(text)
            return _of_line(begun, [*streams, *((one, "instance") for one in variables)], cell=True)
        found = complete(text, cursor, catalog())
        start = found[0].start if found else cursor
        made = [SimpleCompletion(one.text, type=_type(one.kind, one.detail)) for one in found]
        return _result(made, before[start:])
    if line := _LINE.fullmatch(before[before.rfind("\n") + 1 :]):
        named = " " in line[1].lstrip()  # behind a command
        return _of_line(line[1], [(one, "instance") for one in variables] if named else [], cell=False)
    return {"completions": []}


def _streams(cell: str) -> list[tuple[str, str]]:
    """Return how ``--run`` names the streams that a cell defines."""
    found = [token for token in tokens(cell) if token.kind not in ("comment", "magic")]
    known = sketch(statements(cell, found)).known
    return [(f"{id}=", "stream") for id, one in known.items() if one.kind == "stream"]


def _of_line(typed: str, names: Sequence[tuple[str, str]], *, cell: bool) -> SimpleMatcherResult:
    word = _WORD.search(typed)
    begun = word[0] if word else ""
    offers = [*((one, "option") for one in options(typed, cell=cell)), *names]
    return _result([SimpleCompletion(one, type=kind) for one, kind in offers if one.startswith(begun)], begun)


def _result(made: list[Any], begun: str) -> SimpleMatcherResult:
    # In their own order, and without what Python would put there.
    return {"completions": made, "matched_fragment": begun, "ordered": True, "suppress": bool(made)}


def _type(kind: str, detail: str) -> str:
    """Return what stands behind a completion: one word, as front ends have room for no more."""
    return detail if kind == "attribute" and detail else kind
