"""The commands behind ``%%siddhi`` and ``%siddhi``: they call facade and cluster, and show what those return."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from IPython.display import display

from spdist import facade
from spdist.display import Listing, time_text
from spdist.errors import NotebookError, NotFoundError
from spdist.extension import catalog
from spdist.frames import to_frame
from spdist.language.ast import SiddhiApp
from spdist.language.catalog import Catalog
from spdist.language.checking.checked import CheckedApp
from spdist.language.checking.scope import suggestion
from spdist.language.format import format_app
from spdist.language.lexer import coloured_html
from spdist.language.signatures import described
from spdist.notebook.arguments import cell_arguments, command_arguments, help_text
from spdist.notebook.namespace import cluster_in, text_variable, value_of
from spdist.transports.payloads.headers import ID_HEADER
from spdist.transports.reading import ReadEvent

__all__ = ["Magic"]

#: How long one question for events waits, so that an interrupt and the end are noticed.
_LOOK_S = 1.0
#: How long a cell waits for what it has deployed.
_DEPLOY_S = 600.0


class Magic:
    """``%%siddhi`` and ``%siddhi`` of one notebook. What is wrong is raised, so that the cell counts as failed.

    Parameters
    ----------
    shell : InteractiveShell
        IPython's, with the notebook's variables.

    State
    -----
    The name of the app that was deployed last.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._deployed: str | None = None
        self._commands: dict[str, Callable[[argparse.Namespace], Any]] = {
            "tail": self._tail,
            "check": self._check,
            "status": lambda asked: self._cluster(asked.cluster).status(),
            "functions": lambda asked: functions(catalog(), asked.pattern),
            "windows": lambda asked: windows(catalog(), asked.pattern),
        }

    # --- %%siddhi
    def cell(self, line: str, text: str) -> None:
        """Check the SiddhiQL of a cell, and do what its first line asks for.

        Raises
        ------
        SiddhiAppError
            The app is wrong; the message shows each place.
        NotebookError
            The first line is wrong, or the kernel was interrupted while the app was being deployed.
        ClusterError
            It cannot be deployed, or does not run.
        """
        asked = cell_arguments(line)
        if asked.help:
            print(help_text())  # noqa: T201  # what a person has asked for
            return
        app = f"\n{text}"  # the first line of the cell is ours: so lines are counted as the notebook counts them
        checked = facade.check(app, scripts=asked.scripts)
        # What is named must be there before anything is done.
        variable = asked.name or text_variable(checked.app.name, self._shell.user_ns)
        events = {stream: value_of(name, self._shell.user_ns) for stream, name in (asked.run or {}).items()}
        cluster = None if asked.deploy is None else self._cluster(asked.deploy)
        self._bind(variable, app)
        _show(checked)
        if asked.plan:
            _show(facade.plan(app))
        if asked.explain:
            _show(facade.explain(app))
        if asked.run is not None:
            result = facade.run(app, events, until=asked.until, scripts=asked.scripts)
            self._bind(asked.result, result)
            _show(result)
        if cluster is not None:
            deployment = cluster.deploy(app)
            self._deployed = deployment.name
            self._bind(asked.deployment, deployment)
            if asked.wait:
                _wait(deployment, asked.deployment)
            _show(deployment)

    def _bind(self, variable: str, value: Any) -> None:
        self._shell.push({variable: value})

    def _cluster(self, name: str | None) -> Any:
        return cluster_in(self._shell.user_ns, name or "")

    # --- %siddhi
    def command(self, line: str) -> Any:
        """Do what ``%siddhi`` is asked for, and return what there is to show.

        Raises
        ------
        SpdistError
            It is asked for something that is not there.
        """
        name, asked = command_arguments(line)
        if name == "help":
            print(help_text())  # noqa: T201
            return None
        return self._commands[name](asked)

    def _check(self, asked: argparse.Namespace) -> CheckedApp:
        path = Path(asked.app)
        try:
            found = value_of(asked.app, self._shell.user_ns)
        # A variable comes first, a file of that name where there is none.
        except NotebookError:
            if not path.is_file():
                raise
            found = path
        if isinstance(found, Path):
            found = found.read_text("utf-8")
        if isinstance(found, SiddhiApp):
            found = str(format_app(found))
        if not isinstance(found, str):
            hint = "A text of SiddhiQL, or a path to one."
            raise NotebookError(f"'{asked.app}' is a {type(found).__name__}, no app", hint=hint)
        checked = facade.check(found, scripts=asked.scripts or None)
        _show({"text/plain": found.strip("\n"), "text/html": coloured_html(found)}, raw=True)
        return checked

    def _tail(self, asked: argparse.Namespace) -> Any:
        """Return the last events as a frame; print them where they are followed."""
        cluster = self._cluster(asked.cluster)
        client = getattr(cluster, "client", cluster)  # a LocalCluster has one
        app = asked.app or self._deployed or _only(client.apps())
        last: deque[Any] = deque(maxlen=max(asked.n, 0))
        after = ""
        for page in client.pages(app, asked.stream):
            last.extend(page.events)
            after, schema = page.next, page.schema
        if asked.follow is None:
            frame = to_frame(last, schema)
            frame[ID_HEADER] = [event.id for event in last]
            return frame
        for event in last:
            _print(event)
        ends_s = time.monotonic() + asked.follow
        with contextlib.suppress(KeyboardInterrupt):  # that is how it is stopped
            while (left_s := ends_s - time.monotonic()) > 0:
                page = client.events(app, asked.stream, after, wait_s=min(left_s, _LOOK_S))
                after = page.next
                for event in page.events:
                    _print(event)
        return None


def _wait(deployment: Any, variable: str) -> None:
    """Return when an app runs; a line tells meanwhile how far it is.

    Raises
    ------
    EngineError
        A group has failed; says why.
    DeploymentTimeoutError
        It does not run after ten minutes; says what each group is doing.
    NotebookError
        The kernel was interrupted: the cells behind do not run on what is not there yet.
    """
    try:
        deployment.wait(timeout_s=_DEPLOY_S)
    except KeyboardInterrupt:
        raise NotebookError(
            f"interrupted while '{deployment.name}' is being deployed; that goes on",
            hint=f"{variable}.wait() waits again, {variable}.undeploy() takes it back",
        ) from None


def _only(apps: list[str]) -> str:
    if len(apps) == 1:
        return apps[0]
    names = ", ".join(apps) or "none"
    raise NotebookError(f"which app is not clear; deployed: {names}", hint="Name it: --app NAME")


def _print(event: ReadEvent) -> None:
    moment = time_text(event[0], "milliseconds") or str(event[0])
    print(moment, *event[1], event.id, sep="  ", flush=True)  # noqa: T201


def _show(value: Any, *, raw: bool = False) -> None:
    display(value, raw=raw)  # type: ignore[no-untyped-call]


# Lists of what SiddhiQL can call: functions, aggregators, windows, each with how it is called.


Row = tuple[str, str, str]


def functions(known: Catalog, pattern: str = "") -> Listing[Row]:
    """Return functions, aggregators and stream functions with `pattern` in their names, in any case.

    Raises
    ------
    NotFoundError
        None has; says which is near.
    """
    kinds: dict[str, Mapping[str, Callable[..., Any]]] = {
        "function": known.functions,
        "aggregator": known.aggregators,
        "stream function": known.stream_functions,
    }
    return _listing(kinds, pattern, "function")


def windows(known: Catalog, pattern: str = "") -> Listing[Row]:
    """Return windows with `pattern` in their names, in any case; raises NotFoundError where none has."""
    return _listing({"window": known.windows}, pattern, "window")


def _listing(kinds: Mapping[str, Mapping[str, Callable[..., Any]]], pattern: str, what: str) -> Listing[Row]:
    found = [
        (id, kind, described(id, resolve, of_stream=kind == "stream function"))
        for kind, known in kinds.items()
        for id, resolve in known.items()
        if pattern.lower() in id.lower()
    ]
    if not found:
        names = [id for known in kinds.values() for id in known]
        raise NotFoundError(f"no {what} has '{pattern}' in its name", hint=suggestion(pattern, names))
    return Listing(sorted(found, key=lambda row: row[0].lower()), ("name", "kind", "is called"), lambda row: row)
