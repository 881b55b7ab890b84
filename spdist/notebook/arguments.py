"""The words behind ``%%siddhi`` and ``%siddhi``: what they may be, and what is said where they are something else."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn

from spdist.errors import MappingError, NotebookError

__all__ = ["COMMANDS", "CellArguments", "cell_arguments", "command_arguments", "help_text", "options"]


@dataclass(frozen=True, slots=True)
class CellArguments:
    """What a ``%%siddhi`` cell is asked to do.

    Parameters
    ----------
    name : str, optional
        The variable for the app's text.
    run : mapping of str to str, optional
        Names of variables by the streams they feed; None: the app is not run.
    until : int, optional
        When the run ends, ms since epoch.
    result : str
        The variable for what the run returns.
    plan, explain : bool
        What is shown.
    deploy : str, optional
        The variable of the cluster to deploy to; empty for the only one there is; None: nothing is deployed.
    deployment : str
        The variable for the deployment.
    wait : bool
        Whether the cell ends when the app runs, or has failed.
    scripts : bool, optional
        True: the app may define functions in Python; None: if `spdist.extension.allow_scripts` said so.
    help : bool
        Whether only help is wanted.
    """

    name: str | None = None
    run: dict[str, str] | None = None
    until: int | None = None
    result: str = "result"
    plan: bool = False
    explain: bool = False
    deploy: str | None = None
    deployment: str = "deployment"
    wait: bool = True
    scripts: bool | None = None
    help: bool = False


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are those of spdist."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog, description=description, add_help=False, allow_abbrev=False)
        self.add_argument("-h", "--help", action="store_true", help="show this")

    def error(self, message: str) -> NoReturn:
        raise NotebookError(f"{self.prog}: {message}", hint=f"{self.prog} --help lists what it takes")

    def read(self, line: str) -> argparse.Namespace:
        """Return the arguments in `line`.

        Raises
        ------
        NotebookError
            There is something else in it.
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            self.error(f"{error}".lower())
        # `parse_args` would refuse the rest in its own words.
        found, rest = self.parse_known_args(words)
        if rest:
            what = "option" if rest[0].startswith("-") else "argument"
            known = self._option_string_actions if what == "option" else ()
            raise NotebookError(f"{self.prog} has no {what} '{rest[0]}'", hint=self._near(rest[0], known))
        return found

    def _near(self, word: str, known: Any) -> str:
        near = get_close_matches(word.partition("=")[0], list(known), n=1)
        return f"Did you mean '{near[0]}'?" if near else f"{self.prog} --help lists what it takes"


def _variable(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}' is no name of a variable")
    return text


def _variable_or_none(text: str) -> str:
    return _variable(text) if text else ""  # argparse also asks about what stands for no argument


def _fed(text: str) -> tuple[str, str]:
    stream, equals, variable = text.partition("=")
    return stream, _variable(variable if equals else stream)


def _time(text: str) -> int:
    """Return a time as `spdist.frames.written_instant` does."""
    from spdist.frames import written_instant

    try:
        return written_instant(text)
    except MappingError:
        raise argparse.ArgumentTypeError(f"'{text}' is no time, in ms since 1970 or as 2026-01-31T12:00") from None


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is no number above 0")
    return number


def _cell_parser() -> _Parser:
    parser = _Parser("%%siddhi", "Checks the SiddhiQL of the cell, shows the app, and keeps its text in a variable.")
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", type=_variable, help="the variable; by default named as @app:name, or app")
    add("--name", dest="named", metavar="NAME", type=_variable, help="the same")
    add(
        *("--run", "-r"),
        nargs="*",
        metavar="STREAM=VAR",
        type=_fed,
        help="run it in virtual time on the events in variables: whatever spdist.run takes",
    )
    add("--until", metavar="TIME", type=_time, help="when the run ends: ms since 1970, or 2026-01-31T12:00 (UTC)")
    add("--result", metavar="VAR", type=_variable, default="result", help="the variable for the results (result)")
    add("--plan", action="store_true", help="show groups and topics on a cluster")
    add("--explain", action="store_true", help="show how it runs on Spark")
    add(
        *("--deploy", "-d"),
        nargs="?",
        const="",
        metavar="CLUSTER",
        type=_variable_or_none,
        help="deploy it to the cluster in this variable, by default the only one there is, and wait until it runs",
    )
    add("--no-wait", action="store_true", help="do not wait until it runs")
    add("--deployment", metavar="VAR", type=_variable, default="deployment", help="its handle's variable (deployment)")
    add("--scripts", action="store_true", help="allow functions in Python, which may do whatever this kernel may")
    return parser


def cell_arguments(line: str) -> CellArguments:
    """Return what stands behind ``%%siddhi``.

    Raises
    ------
    NotebookError
        Something of it is no argument, or does not go together; says what is near.

    Examples
    --------
    >>> cell_arguments("Shop --run Orders=recorded --until 60000").run
    {'Orders': 'recorded'}
    """
    found = _CELL.read(line)
    if found.name and found.named and found.name != found.named:
        _CELL.error(f"two names, '{found.name}' and '{found.named}'")
    if found.run is None and found.until is not None:
        _CELL.error("--until says when a run ends, and there is no --run")
    if found.deploy is None and found.no_wait:
        _CELL.error("--no-wait says how to deploy, and there is no --deploy")
    return CellArguments(
        found.named or found.name,
        None if found.run is None else dict(found.run),
        found.until,
        found.result,
        found.plan,
        found.explain,
        found.deploy,
        found.deployment,
        not found.no_wait,
        found.scripts or None,
        found.help,
    )


def _commands() -> dict[str, _Parser]:
    def parser(name: str, description: str) -> _Parser:
        made[name] = _Parser(f"%siddhi {name}", description)
        return made[name]

    made: dict[str, _Parser] = {}
    tail = parser("tail", "The last events of a published stream of a deployed app, as a frame.")
    tail.add_argument("stream", metavar="STREAM")
    tail.add_argument("--app", metavar="NAME", help="by default the one that was deployed last, or the only one")
    tail.add_argument("-n", type=int, default=20, metavar="COUNT", help="so many (20)")
    tail.add_argument(
        "--follow",
        nargs="?",
        const=float("inf"),
        type=_positive,
        metavar="SECONDS",
        help="print them, and those that come for so long; without a number until the kernel is interrupted",
    )
    check = parser("check", "The app in a variable, or in a file, checked.")
    check.add_argument("app", metavar="VAR")
    check.add_argument("--scripts", action="store_true", help="allow functions in Python")
    status = parser("status", "Nodes and apps of the cluster.")
    for one in (tail, status):
        one.add_argument("--cluster", metavar="VAR", type=_variable, help="by default the only one there is")
    functions = parser("functions", "Functions, aggregators and stream functions, and how they are called.")
    functions.add_argument("pattern", metavar="PATTERN", nargs="?", default="", help="part of a name, such as time:")
    windows = parser("windows", "Windows, and how they are written.")
    windows.add_argument("pattern", metavar="PATTERN", nargs="?", default="", help="part of a name")
    return made


_CELL = _cell_parser()
#: The parsers of ``%siddhi COMMAND …`` by command.
COMMANDS = _commands()


def command_arguments(line: str) -> tuple[str, argparse.Namespace]:
    """Return the command behind ``%siddhi`` and its arguments; ``help`` for none.

    Raises
    ------
    NotebookError
        There is no such command, or something of the line is none of its arguments; says what is near.
    """
    command, _, rest = line.strip().partition(" ")
    if command in ("", "help", "-h", "--help"):
        return "help", argparse.Namespace()
    if command not in COMMANDS:
        near = get_close_matches(command, COMMANDS, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"It is one of {', '.join(COMMANDS)}."
        raise NotebookError(f"%siddhi has no command '{command}'", hint=hint)
    found = COMMANDS[command].read(rest)
    if found.help:
        return "help", argparse.Namespace()
    return command, found


def help_text() -> str:
    """Return what ``%siddhi`` and ``%%siddhi`` take."""
    lines = [_CELL.format_help().rstrip(), "", "commands:"]
    lines += [f"  {parser.format_usage().removeprefix('usage: ').strip()}" for parser in COMMANDS.values()]
    return "\n".join(lines)


def options(line: str, *, cell: bool) -> Sequence[str]:
    """Return the options, or commands, that could stand in a line, for completion."""
    if cell:
        return [one for one in _CELL._option_string_actions if one.startswith("--")]
    parser = COMMANDS.get(line.strip().partition(" ")[0])
    return [one for one in parser._option_string_actions if one.startswith("--")] if parser else list(COMMANDS)
