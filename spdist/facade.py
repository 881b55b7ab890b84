"""What a notebook does with an app before there is a cluster, and how it finds one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdist.errors import MappingError, SiddhiAppError, UnauthorizedError
from spdist.language.ast import SiddhiApp
from spdist.language.checked import CheckedApp

if TYPE_CHECKING:
    from spdist.cluster.client import ClusterClient
    from spdist.cluster.client_async import AsyncClusterClient
    from spdist.planning.execution import Explanation
    from spdist.planning.graph import AppGraph
    from spdist.planning.topology import Topology
    from spdist.transports.tls import CertificateFiles

__all__ = ["check", "connect", "connect_async", "explain", "graph", "parse", "plan", "run"]

Events = list[tuple[int, tuple[Any, ...]]]


def parse(text: str) -> SiddhiApp:
    """Return the syntax tree of an app.

    Raises
    ------
    SiddhiSyntaxError
        The text does not follow the grammar; shows where.
    """
    from spdist.language.parser import parse as parse_text

    return parse_text(text)


def check(app: str | SiddhiApp, *, scripts: bool | None = None) -> CheckedApp:
    """Return an app with the types of all its streams.

    Parameters
    ----------
    app : str or SiddhiApp
        SiddhiQL, or what `parse` made of it; errors show their lines where the text is given.
    scripts : bool, optional
        Whether the app may define functions in Python; by default what `spdist.extension.allow_scripts` said, else not.

    Raises
    ------
    SiddhiAppError
        The app is wrong; ``errors`` holds everything that was found.
    """
    from spdist.extension import catalog
    from spdist.language.checker import check as check_tree

    known = catalog(scripts)
    return check_tree(parse(app), known, app) if isinstance(app, str) else check_tree(app, known)


def graph(app: str | SiddhiApp) -> AppGraph:
    """Return which queries of an app read and write which streams and tables; draws itself in a notebook.

    Raises
    ------
    SiddhiAppError
        The app is wrong.
    """
    from spdist.planning.graph import app_graph

    return app_graph(check(app, scripts=True))  # nothing is run here


def explain(app: str | SiddhiApp) -> Explanation:
    """Return how an app runs on Spark, query by query: native or by the engine and why, its state, how it is split.

    Parameters
    ----------
    app : str or SiddhiApp
        SiddhiQL, or what `parse` made of it; lines are named where the text is given.

    Raises
    ------
    SiddhiAppError
        The app is wrong.
    """
    from spdist.extension import catalog
    from spdist.planning.execution import explanation

    # Nothing is run here.
    return explanation(check(app, scripts=True), catalog(scripts=True), app if isinstance(app, str) else None)


def plan(app: str | SiddhiApp, transport: str = "log") -> Topology:
    """Return the execution groups that an app is split into, and the topics between them; draws itself in a notebook.

    Parameters
    ----------
    app : str or SiddhiApp
        The app.
    transport : str
        What carries the topics, and so names them: ``log``, ``kafka`` or ``nats``.

    Raises
    ------
    PlanningError
        The app cannot be split as its ``@dist`` annotations ask; names the query and the group, and its class says
        which rule that breaks.
    SiddhiAppError
        The app is wrong.
    """
    from spdist.planning.groups import plan as plan_tree

    checked = check(app, scripts=True)  # nothing is run here
    try:
        return plan_tree(checked.app, checked, transport)
    except SiddhiAppError as error:
        if isinstance(app, str):
            for one in {error, *error.errors}:
                one.text = app  # so that each shows its line
        raise


def run(
    app: str | SiddhiApp,
    events: Mapping[str, Iterable[tuple[int, Any]]],
    until: int | None = None,
    *,
    scripts: bool | None = None,
) -> dict[str, Events]:
    """Run an app on recorded events in virtual time: here, at once, without Spark and without waiting.

    Parameters
    ----------
    app : str or SiddhiApp
        The app.
    events : mapping of str to iterable of (timestamp, row)
        What is sent to each stream: ms since epoch, and the values in the order of its attributes, or by their names.
        See `to_events`.
    until : int, optional
        The time at which to stop, ms since epoch; by default that of the last event.
    scripts : bool, optional
        Whether the app may define functions in Python, which may do whatever this process may; by default what
        `spdist.extension.allow_scripts` said, else not.

    Returns
    -------
    dict of str to list of (timestamp, row)
        The events of each stream that queries write, in the order in which they came: exactly those that a cluster
        publishes for an ``@app:playback`` app. See `to_frame`.

    Raises
    ------
    SiddhiAppError
        The app is wrong, or uses what is not built yet.
    UndefinedNameError
        The app has no such stream.
    MappingError
        An event does not fit its stream; nothing was run.
    """
    from spdist.engine.local import run_checked
    from spdist.frames import to_row
    from spdist.language.scope import undefined

    checked = check(app, scripts=scripts)

    def arrivals(stream: str, given: Iterable[tuple[int, Any]]) -> Events:
        schema = checked.streams.get(stream)
        if schema is None:
            raise undefined("stream", stream, None, checked.streams)
        return [(_time(event, stream), to_row(event[1], schema, stream)) for event in given]

    return run_checked(checked, {stream: arrivals(stream, given) for stream, given in events.items()}, until)


def _time(event: Any, stream: str) -> int:
    """Return the time of a recorded event, ms since epoch."""
    if isinstance(event, tuple | list) and len(event) == 2 and isinstance(event[0], Integral):
        return int(event[0])
    raise MappingError(
        f"an event of '{stream}' is a pair (timestamp, row), this is not: {event!r}",
        hint="For example: (1700000000000, ('tea', 2.5)), with the time in ms since epoch",
    )


def connect(
    managers: str | Sequence[str],
    username: str = "admin",
    password: str | None = None,
    *,
    trust_file: Path | None = None,
    certificate: CertificateFiles | None = None,
) -> ClusterClient:
    """Return a client of a running cluster.

    Parameters
    ----------
    managers : str or sequence of str
        Base URLs of one or more managers; the one that leads is found from any of them.
    username : str
        A user of ``auth.configs``.
    password : str, optional
        By default the environment variable ``SPDIST_PASSWORD``, so that no notebook needs to hold it.
    trust_file : Path, optional
        PEM file with the authorities to trust for https.
    certificate : path or pair of paths, optional
        For nodes that ask for one (``sslVerifyClient``): a PEM file with its key, or certificate and key. See
        ``python -m spdist tls add --user``.

    Raises
    ------
    UnauthorizedError
        There is no password.
    """
    from spdist.cluster.client import ClusterClient

    secret = _password(username, password)
    urls = [managers] if isinstance(managers, str) else managers
    return ClusterClient(urls, username, secret, trust_file=trust_file, certificate=certificate)


def connect_async(
    managers: str | Sequence[str],
    username: str = "admin",
    password: str | None = None,
    *,
    trust_file: Path | None = None,
    certificate: CertificateFiles | None = None,
) -> AsyncClusterClient:
    """Return a client of a running cluster for ``await``; the rest as in `connect`.

    Raises
    ------
    UnauthorizedError
        There is no password.
    """
    from spdist.cluster.client_async import AsyncClusterClient

    urls = [managers] if isinstance(managers, str) else managers
    secret = _password(username, password)
    return AsyncClusterClient(urls, username, secret, trust_file=trust_file, certificate=certificate)


def _password(username: str, password: str | None) -> str:
    secret = password or os.environ.get("SPDIST_PASSWORD")
    if not secret:
        raise UnauthorizedError(
            f"connecting as {username} needs a password", hint="set the environment variable SPDIST_PASSWORD"
        )
    return secret
