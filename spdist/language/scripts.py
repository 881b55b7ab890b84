"""Functions that an app defines itself: ``define function f[python] return int { return data[0] + 1 };``.

What stands between the braces is the body of a Python function with one parameter, `data`: the list of the arguments.

Notes
-----
Source: io.siddhi.core.function.Script; Siddhi's own languages (JavaScript, R, Scala) are extensions of it.
"""

from __future__ import annotations

import ast as python
import inspect
from dataclasses import dataclass

from spdist.errors import ErrorKind, SiddhiAppError, SiddhiTypeError, UndefinedNameError
from spdist.language import ast
from spdist.language.types import Type

__all__ = ["LANGUAGE", "Script", "read_script"]

#: The language that is run, where that is allowed; case does not matter.
LANGUAGE = "python"


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
        The lines of a Python function over `data`.
    """

    name: str
    returns: Type
    body: str

    def __call__(self, _types: tuple[Type, ...], _expressions: tuple[ast.Expression, ...] = ()) -> Type:
        """Return the type of the result."""
        return self.returns

    @property
    def lines(self) -> list[str]:
        """The source of a Python function of this name."""
        return [f"def {self.name}(data):", *(f"    {line}" for line in self.body.splitlines())]


def read_script(definition: ast.FunctionDefinition, allowed: bool) -> tuple[Script, SiddhiAppError | None]:
    """Return a function that an app defines, and what is wrong with it; nothing of it is run.

    Parameters
    ----------
    definition : FunctionDefinition
        As written.
    allowed : bool
        Whether apps may bring Python code.
    """
    # A function without a body returns null
    script = Script(definition.name, definition.returns, inspect.cleandoc(definition.body) or "pass")
    return script, _wrong(definition, script, allowed)


def _wrong(definition: ast.FunctionDefinition, script: Script, allowed: bool) -> SiddhiAppError | None:
    if definition.language.lower() != LANGUAGE:
        return UndefinedNameError(
            f"There is no extension 'script:{definition.language}': functions written in it are not run",
            span=definition.span,
            hint="Write it in Python, or register it from Python with the decorator spdist.extension.function.",
            code=ErrorKind.UNKNOWN_EXTENSION,
        )
    if not allowed:
        return SiddhiAppError(
            f"The function '{definition.name}' is Python code of the app, which is not run unless that is allowed",
            span=definition.span,
            hint="Allow it for apps you trust: scripts=True, or siddhi.script.python.enabled in deployment.yaml. Such "
            "code may do whatever this process may.",
            code=ErrorKind.UNSUPPORTED,
        )
    try:
        python.parse("\n".join(script.lines) + "\n")
    except (SyntaxError, ValueError) as error:
        # The line with `def` stands in front of the body
        line = f" in its line {error.lineno - 1}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        return SiddhiTypeError(f"The function '{definition.name}' is no Python{line}: {said}", span=definition.span)
    return None
