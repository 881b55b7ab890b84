"""Functions that an app defines itself: ``define function f[python] return int { return data[0] + 1 };``.

What stands between the braces is the body of a function in Python or JavaScript with one parameter, `data`: the list of
the arguments.

Notes
-----
Source: io.siddhi.core.function.Script; Siddhi's own languages (JavaScript, R, Scala) are extensions of it.
"""

from __future__ import annotations

import ast as python
import contextlib
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError, UndefinedNameError
from spdist.language import ast, javascript
from spdist.language.types import Type

__all__ = ["JAVASCRIPT", "PYTHON", "Script", "read_script"]

#: The languages that are run; case does not matter.
PYTHON, JAVASCRIPT = "python", "javascript"

_OPEN, _CLOSED = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class Script:
    """A function of an app; called like a signature (`spdist.language.catalog.Resolver`) it gives its result's type.

    Parameters
    ----------
    name : str
        Its name.
    returns : Type
        The type of its result; any arguments are accepted.
    body : str
        Statements over `data`; those of Python from the first column on.
    language : {"python", "javascript"}
        What it is written in.
    """

    name: str
    returns: Type
    body: str
    language: str = PYTHON

    def __call__(self, _types: tuple[Type, ...], _expressions: tuple[ast.Expression, ...] = ()) -> Type:
        """Return the type of the result."""
        return self.returns

    def tree(self) -> python.Module:
        """Return the syntax of a Python function of this name, with the lines of `body`; raises as `ast.parse` does."""
        tree = python.parse("def function(data): pass")
        (function,) = tree.body
        assert isinstance(function, python.FunctionDef)
        # Not a text that is moved right under a `def`, in which lines of strings would move, too
        statements = python.parse(self.body).body
        # A function without a body returns null
        function.name, function.body = self.name, statements or function.body
        return tree


def read_script(definition: ast.FunctionDefinition, allowed: bool) -> tuple[Script, SiddhiAppError | None]:
    """Return a function that an app defines, and what is wrong with it; nothing of it is run.

    Parameters
    ----------
    definition : FunctionDefinition
        As written.
    allowed : bool
        Whether apps may bring Python code. JavaScript reaches nothing but its arguments, so it is run wherever its
        interpreter is.
    """
    language = definition.language.lower()
    body = _from_first_column(definition.body) if language == PYTHON else definition.body
    script = Script(definition.name, definition.returns, body, language)
    match language:
        case "python":
            wrong = _wrong_python(definition, script, allowed)
        case "javascript":
            wrong = _wrong_javascript(definition, script)
        case _:
            wrong = UndefinedNameError(
                f"There is no extension 'script:{definition.language}': functions written in it are not run",
                span=definition.span,
                hint="Write it in JavaScript or Python, or register it from Python with the decorator "
                "spdist.extension.function.",
                code=ErrorKind.UNKNOWN_EXTENSION,
            )
    return script, wrong


def _from_first_column(body: str) -> str:
    """Return the statements of a body without the indentation that all have; what strings hold stays as written.

    One that stands behind the brace, on its line, is taken for indented as the others are.
    """
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as Python reads them
    begun = {row: len(lines[row][:column].rpartition("\f")[2].expandtabs()) for row, column in _statements(lines)}
    margin = min((width for row, width in begun.items() if row), default=0)
    for row, width in begun.items():
        lines[row] = " " * (width - margin if row else 0) + lines[row].lstrip()
    first = next((row for row, line in enumerate(lines) if line.strip()), 0)
    return "\n".join(lines[first:])


def _statements(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the row and column of what begins a line and is no part of a string, brackets or the line before."""
    # Within a bracket any indentation will do
    text = "\n".join(["(", *lines, ")"])
    depth, begins = 0, False
    # What cannot be read is told by who parses it
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NL:
                begins = depth == 1
            elif token.type != tokenize.COMMENT:
                # Neither the bracket behind the last line, nor one that nothing has opened
                if begins and token.string not in _CLOSED:
                    yield token.start[0] - 2, token.start[1]
                begins = False
                if token.type == tokenize.OP:
                    depth += (token.string in _OPEN) - (token.string in _CLOSED)


def _wrong_javascript(definition: ast.FunctionDefinition, script: Script) -> SiddhiAppError | None:
    if not javascript.is_available():
        return SiddhiAppError(
            f"The function '{definition.name}' is JavaScript, and its interpreter is not installed here",
            span=definition.span,
            hint="Install it on every node: pip install 'spdist[javascript]'.",
            code=ErrorKind.UNSUPPORTED,
        )
    said = javascript.wrong_in(script.body)
    if not said:
        return None
    return SiddhiTypeError(f"The function '{definition.name}' is no JavaScript: {said}", span=definition.span)


def _wrong_python(definition: ast.FunctionDefinition, script: Script, allowed: bool) -> SiddhiAppError | None:
    if not allowed:
        return SiddhiAppError(
            f"The function '{definition.name}' is Python code of the app, which is not run unless that is allowed",
            span=definition.span,
            hint="Allow it for apps you trust: scripts=True, or siddhi.script.python.enabled in deployment.yaml. Such "
            "code may do whatever this process may.",
            code=ErrorKind.UNSUPPORTED,
        )
    try:
        compile(script.tree(), PYTHON, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f" in its line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        return SiddhiTypeError(f"The function '{definition.name}' is no Python{line}: {said}", span=definition.span)
    return None
